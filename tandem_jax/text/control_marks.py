"""Control tokens inside a chat template, told apart from the same text typed by a user.

Before a template is compiled, each control token in its own literals is replaced by one private-use
character, its mark. Messages are rendered as they are, so whatever still spells `<|im_end|>`
afterwards came from a user and is plain text; only marks become control tokens. The marks are
taken from a block of characters that does not occur in the request.

Literals that only look at content (`'</think>' in content`, `content.split('</think>')`) keep
their text, so the template's logic sees what the user wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from jinja2 import nodes

_FIRST, _LAST = 0x100000, 0x10FFFD  # supplementary private use area B
_PRIVATE = re.compile(f"[{chr(_FIRST)}-{chr(_LAST)}]")

# Methods and filters whose literal arguments are compared with content and never written out.
_LOOKING_METHODS = frozenset(
    (
        *("startswith", "endswith", "removeprefix", "removesuffix", "strip", "lstrip", "rstrip"),
        *("split", "rsplit", "partition", "rpartition"),
        *("find", "rfind", "index", "rindex", "count", "get"),
    )
)
_LOOKING_FILTERS = frozenset(("trim", "select", "reject", "selectattr", "rejectattr", "map"))


@dataclass(frozen=True, slots=True)
class ControlMarks:
    """One private-use character for each control token."""

    ids: dict[str, int]  # mark -> token id
    marks: dict[str, str]  # control text -> mark
    text_pattern: re.Pattern[str]  # any control text, longest first
    mark_pattern: re.Pattern[str]  # any mark

    def mark(self, text: str) -> str:
        """Replace every control text by its mark."""
        return self.text_pattern.sub(lambda match: self.marks[match.group()], text)

    def unmark(self, text: str) -> str:
        """Spell the marks out again."""
        texts = {mark: control for control, mark in self.marks.items()}
        return self.mark_pattern.sub(lambda match: texts[match.group()], text)

    def split(self, rendered: str) -> list[str | int]:
        """Cut rendered text into plain pieces and control token ids."""
        pieces: list[str | int] = []
        end = 0
        for match in self.mark_pattern.finditer(rendered):
            pieces += [rendered[end : match.start()], self.ids[match.group()]]
            end = match.end()
        return [piece for piece in (*pieces, rendered[end:]) if piece != ""]


def make_marks(control_ids: Mapping[str, int], block: int) -> ControlMarks:
    """Marks from block number `block` of the private-use area; see `free_block`."""
    first = _FIRST + block * len(control_ids)
    marks = {text: chr(first + k) for k, text in enumerate(control_ids)}
    longest_first = sorted(control_ids, key=len, reverse=True)
    return ControlMarks(
        ids={marks[text]: token for text, token in control_ids.items()},
        marks=marks,
        text_pattern=re.compile("|".join(map(re.escape, longest_first)) or r"(?!)"),
        mark_pattern=re.compile("|".join(marks.values()) or r"(?!)"),
    )


def free_block(control_count: int, *texts: str) -> int | None:
    """The first block of `control_count` private-use characters that no text uses, or None."""
    if not control_count:
        return 0
    used = {(ord(char) - _FIRST) // control_count for t in texts for char in _PRIVATE.findall(t)}
    blocks = (_LAST - _FIRST + 1) // control_count
    return next((block for block in range(blocks) if block not in used), None)


def mark_template(tree: nodes.Template, marks: ControlMarks) -> nodes.Template:
    """Replace control texts in the literals a parsed template writes out; changes `tree`."""
    looking = {id(node) for node in _looking_literals(tree)}
    for data in tree.find_all(nodes.TemplateData):
        data.data = marks.mark(data.data)
    for const in tree.find_all(nodes.Const):
        if isinstance(const.value, str) and id(const) not in looking:
            const.value = marks.mark(const.value)
    return tree


def _looking_literals(tree: nodes.Template) -> Iterator[nodes.Node]:
    for node in tree.find_all((nodes.Compare, nodes.Test)):
        for part in node.args if isinstance(node, nodes.Test) else [node]:
            yield from _literals(part)
    for node in tree.find_all(nodes.Getitem):
        yield from _literals(node.arg)
    for node in tree.find_all((nodes.Call, nodes.Filter)):
        if isinstance(node, nodes.Filter):
            name, all_of = node.name, _LOOKING_FILTERS
        elif isinstance(node.node, nodes.Getattr):
            name, all_of = node.node.attr, _LOOKING_METHODS
        else:
            continue
        if name in all_of or name == "replace":
            # replace(old, new) looks for its first argument and writes the second.
            for part in node.args[: 1 if name == "replace" else None]:
                yield from _literals(part)


def _literals(node: nodes.Node) -> Iterator[nodes.Node]:
    if isinstance(node, nodes.Const):
        yield node
    yield from node.find_all(nodes.Const)
