"""Pictures of a draft tree: text for terminals, inline SVG for notebooks."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tandem_jax.tree.draft_tree import DraftTree

Decode = Callable[[int], str]

COLOURS = {
    "target": "#475569",
    "lookup": "#2563eb",
    "mtp": "#7c3aed",
    "wrong": "#dc2626",
    "half-right": "#d97706",
    "random": "#0d9488",
    "df2-greedy": "#c026d3",
    "df2-tree": "#e879f9",
    "deep": "#1e40af",
}
_MAX_LABEL = 14  # characters of a token shown in a picture
_COLUMN_PX, _ROW_PX, _BOX_WIDTH_PX, _BOX_HEIGHT_PX = 132, 30, 112, 22


@dataclass(frozen=True, repr=False)
class TreeView:
    """A tree together with what its picture needs beyond the tree itself."""

    tree: "DraftTree"  # the proposal
    decode: Decode | None = None  # token id -> text; without it ids are shown
    accepted: tuple[int, ...] = ()  # nodes of the accepted path, root included

    def __repr__(self) -> str:
        return render_text(self.tree, decode=self.decode, accepted=self.accepted)

    def _repr_html_(self) -> str:
        return render_html(self.tree, decode=self.decode, accepted=self.accepted)


def render_text(
    tree: "DraftTree", *, decode: Decode | None = None, accepted: Iterable[int] = ()
) -> str:
    """One line a node: token (id, or its text by `decode`), source, score, a tick if accepted."""
    labels, taken = _labels(tree, decode), set(accepted)
    parents, sources = tree.parents.tolist(), tree.source_names
    last_child = {parent: node for node, parent in enumerate(parents)}
    margins = [""] * len(labels)  # what the children of a node print before their own branch
    lines = [_headline(tree), labels[0]]
    for node in range(1, len(labels)):
        parent = parents[node]
        is_last = last_child[parent] == node
        margins[node] = margins[parent] + ("   " if is_last else "│  ")
        branch = margins[parent] + ("└─ " if is_last else "├─ ")
        tick = " ✓" if node in taken else ""
        lines.append(f"{branch}{labels[node]}  {sources[node]} {tree.scores[node]:.2f}{tick}")
    return "\n".join(lines)


def render_html(
    tree: "DraftTree", *, decode: Decode | None = None, accepted: Iterable[int] = ()
) -> str:
    """Self-contained SVG, one column a depth: colour = source, strength = score, bold = accepted.

    Token text is escaped, so hostile text cannot become markup.
    """
    labels, taken = _labels(tree, decode), set(accepted)
    lanes, depths = _lanes(tree), tree.depth.tolist()
    edges, boxes = [], []
    for node, parent in enumerate(tree.parents.tolist()):
        x, y = depths[node] * _COLUMN_PX + 4, lanes[node] * _ROW_PX + 4
        if parent >= 0:
            start = (depths[parent] * _COLUMN_PX + 4 + _BOX_WIDTH_PX, lanes[parent] * _ROW_PX + 15)
            edges.append(_edge(start, (x, y + 11), node in taken))
        boxes.append(_box(tree, node, labels[node], (x, y), node in taken))
    width = (max(depths) + 1) * _COLUMN_PX
    height = (max(lanes) + 1) * _ROW_PX + 4
    return (
        f"<figure style='margin:0'><figcaption>{escape(_headline(tree))}</figcaption>"
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' "
        f"font-family='monospace' font-size='12'>{''.join(edges)}{''.join(boxes)}</svg></figure>"
    )


def _headline(tree: "DraftTree") -> str:
    return (
        f"DraftTree: {tree.n_draft} drafted, depth {int(tree.depth.max())}, "
        f"expects {tree.expected_accepted:.2f}"
    )


def _labels(tree: "DraftTree", decode: Decode | None) -> list[str]:
    """Printable names of the nodes' tokens; control characters come out as escapes."""
    if decode is None:
        return [str(token) for token in tree.tokens.tolist()]
    # repr() escapes all that does not print: line breaks, terminal codes, direction marks.
    return [repr(decode(token)) for token in tree.tokens.tolist()]


def _lanes(tree: "DraftTree") -> list[int]:
    """Row of each node: a first child continues its parent's row, others open a new one."""
    lanes = [0] * len(tree)
    opened, seen = 0, set()
    for node, parent in enumerate(tree.parents.tolist()[1:], start=1):
        if parent in seen:
            opened += 1
            lanes[node] = opened
        else:
            lanes[node] = lanes[parent]
            seen.add(parent)
    return lanes


def _edge(start: tuple[int, int], end: tuple[int, int], taken: bool) -> str:
    middle = (start[0] + end[0]) // 2
    colour, width = ("#16a34a", 3) if taken else ("#94a3b8", 1)
    return (
        f"<path d='M{start[0]} {start[1]} C{middle} {start[1]} {middle} {end[1]} "
        f"{end[0]} {end[1]}' fill='none' stroke='{colour}' stroke-width='{width}'/>"
    )


def _box(tree: "DraftTree", node: int, label: str, corner: tuple[int, int], taken: bool) -> str:
    source, score = tree.source_names[node], float(tree.scores[node])
    short = label if len(label) <= _MAX_LABEL else label[: _MAX_LABEL - 1] + "…"
    x, y = corner
    stroke = "stroke='#16a34a' stroke-width='3'" if taken else f"stroke='{COLOURS[source]}'"
    hint = f"{label} id {int(tree.tokens[node])}, {source}, score {score:.3f}"
    return (
        f"<g><title>{escape(hint)}</title>"
        f"<rect x='{x}' y='{y}' width='{_BOX_WIDTH_PX}' height='{_BOX_HEIGHT_PX}' rx='5' "
        f"fill='{COLOURS[source]}' fill-opacity='{0.1 + 0.35 * score:.2f}' {stroke}/>"
        f"<text x='{x + 6}' y='{y + 15}' fill='currentColor' xml:space='preserve'>"
        f"{escape(short)}</text></g>"
    )
