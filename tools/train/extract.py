"""Turns the files of a package into documents of plain text."""

import ast
import gzip
import html.parser
import json
import re
import struct
import textwrap
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.train.sources import Source

MIN_CHARACTERS = 200
SKIP_PARTS = ("site-packages", "__pycache__", "locale", "idlelib/Icons", "lib2to3/tests/data",
              "vendor/", "testdata", "pip/_vendor", "turtledemo", "print.html", "genindex",
              "searchindex", "-edition/ch", "first-edition", "second-edition", "2018-edition",
              "idlelib", "encodings/", "codecmaps", "test/test_unicode", "unicode/tables.go",
              "unicode_data.rs", "core_arch", "stdarch", "zoneinfo", "syscall/z", "pydoc_data")
BLOCK_TAGS = frozenset((
    "p", "div", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "dt", "dd", "table", "ul", "ol",
    "dl", "blockquote", "section"))
DROP_TAGS = frozenset((
    "script", "style", "nav", "head", "header", "footer", "select", "form", "button", "svg"))

Documents = Iterator[tuple[str, str]]  # (name inside the source, text)


class _HtmlText(html.parser.HTMLParser):
    """Collects the text of a page; headings get '#', list items '-', <pre> keeps its lines."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.dropped = 0
        self.pre = 0

    def handle_starttag(self, tag, attrs):
        if tag in DROP_TAGS:
            self.dropped += 1
        elif tag == "pre":
            self.parts.append("" if self.pre else "\n```\n")
            self.pre += 1
        elif tag == "br":
            self.parts.append("\n")
        elif tag in BLOCK_TAGS and not self.pre:
            marks = {"li": "\n- ", "dt": "\n\n", "dd": "\n  ", "tr": "\n"}
            heading = "\n\n" + "#" * int(tag[1]) + " " if re.fullmatch("h[1-6]", tag) else ""
            self.parts.append(heading or marks.get(tag, "\n\n"))
        elif tag in ("td", "th"):
            self.parts.append(" | ")

    def handle_endtag(self, tag):
        if tag in DROP_TAGS:
            self.dropped = max(0, self.dropped - 1)
        elif tag == "pre":
            self.pre = max(0, self.pre - 1)
            self.parts.append("" if self.pre else "\n```\n")

    def handle_data(self, data):
        if not self.dropped:
            self.parts.append(data if self.pre else re.sub(r"\s+", " ", data))


def html_to_text(page: str) -> str:
    """Return the readable text of an HTML page, code blocks fenced."""
    parser = _HtmlText()
    # Menus come before the main element or the first heading.
    starts = [page.find(mark) for mark in ("<main", "<h1", "<h2", "<body")]
    parser.feed(page[next((start for start in starts if start >= 0), 0):])
    text = "".join(parser.parts).replace("\u00b6", "").replace("\uf0c1", "")
    text = re.sub(r"(?m)^[ \t]*-[ \t]*$\n?|[ \t]+$", "", text)
    text = re.sub(r"```\n\n+", "```\n", re.sub(r"\n\n+```", "\n```", text))
    return re.sub(r"\n\n\n+", "\n\n", text).strip()


def _read(path: Path) -> str:
    data = path.read_bytes()
    if path.suffix in (".gz", ".dz"):
        data = gzip.decompress(data)
    return data.decode("utf-8", errors="replace")


def _files(source: Source, root: Path) -> Iterator[tuple[str, Path]]:
    for pattern in source.patterns:
        for path in sorted(root.glob(pattern)):
            name = path.relative_to(root).as_posix()
            if path.is_file() and not any(part in "/" + name for part in SKIP_PARTS):
                yield name, path


def _plain(source: Source, root: Path) -> Documents:
    for name, path in _files(source, root):
        yield name, _read(path)


def _html(source: Source, root: Path) -> Documents:
    for name, path in _files(source, root):
        yield name, html_to_text(_read(path))


def _without_licence_header(text: str) -> str:
    """Drop leading comment lines that speak of copyright or licence."""
    lines = text.splitlines(keepends=True)
    start = 0
    while start < len(lines) and lines[start].lstrip().startswith(("//", "#", "/*", "*")):
        start += 1
    head = "".join(lines[:start]).lower()
    return "".join(lines[start:]).lstrip("\n") if "copyright" in head or "licen" in head else text


def _code(source: Source, root: Path) -> Documents:
    for name, path in _files(source, root):
        if path.stat().st_size < 150_000 and not name.endswith("_test.go"):
            yield name, _without_licence_header(_read(path))


def unwrap(text: str) -> str:
    """Join hard-wrapped lines of prose paragraphs; short-lined blocks (verse) stay as they are."""
    blocks = []
    for block in re.split(r"\n\s*\n", text.replace("\r\n", "\n")):
        lines = [line.strip() for line in block.strip().split("\n")]
        wide = len(lines) > 1 and sum(map(len, lines[:-1])) / (len(lines) - 1) > 58
        blocks.append(" ".join(lines) if wide else "\n".join(lines))
    return "\n\n".join(block for block in blocks if block)


def _prose(source: Source, root: Path) -> Documents:
    for _, path in _files(source, root):
        yield path.stem, unwrap(_read(path))


def _shakespeare(source: Source, root: Path) -> Documents:
    seen = set()
    for _, path in sorted(_files(source, root), key=lambda item: len(item[0])):
        work = path.stem.removesuffix("_gut")
        if work in seen or work in ("metadata", "README") or work.endswith("_f"):
            continue
        seen.add(work)
        text = _read(path).replace("\r\n", "\n")
        begin = re.search(r"\*END\*?.*\n", text[:20_000])
        for part, piece in enumerate(_pieces(text[begin.end():] if begin else text, 20_000)):
            yield f"{work}.{part}", piece


def _pieces(text: str, size: int) -> Iterator[str]:
    """Cut a book into pieces of about `size` characters at paragraph borders."""
    start = 0
    while start < len(text):
        stop = text.find("\n\n", start + size)
        stop = len(text) if stop < 0 else stop
        yield text[start:stop].strip()
        start = stop


def _austen(source: Source, root: Path) -> Documents:
    """Read R's lazy-load file: blocks of length + zlib; strings are CHARSXP records."""
    (_, path), *_ = _files(source, root)
    rest = path.read_bytes()
    while len(rest) > 4:
        inflater = zlib.decompressobj()
        block = inflater.decompress(rest[4:]) + inflater.flush()
        rest = inflater.unused_data
        lines = _r_strings(block)
        title = next((line for line in lines if line.strip()), "novel").title().strip()
        for part, piece in enumerate(_pieces(unwrap("\n".join(lines)), 20_000)):
            yield f"{title}.{part}", piece


def _r_strings(block: bytes) -> list[str]:
    strings, at = [], 0
    while at + 8 <= len(block):
        flags, size = struct.unpack(">Ii", block[at:at + 8])
        if flags & 0xFF == 9 and flags < 0x100000 and -1 <= size < 10_000 and flags & 0xFF00 == 0:
            strings.append(block[at + 8:at + 8 + max(size, 0)].decode("utf-8", errors="replace"))
            at += 8 + max(size, 0)
        else:
            at += 1
    return strings


def _bible(source: Source, root: Path) -> Documents:
    (_, path), *_ = _files(source, root)
    chapters: dict[tuple[str, int], list[str]] = {}
    for line in path.read_text().splitlines():
        verse = json.loads(line)
        key = (verse["book"], verse["chapter"])
        chapters.setdefault(key, []).append(f"{verse['verse']} {verse['text']}")
    for (book, chapter), verses in chapters.items():
        yield f"{book}.{chapter}", f"{book} {chapter}\n\n" + "\n".join(verses)


def chitchat_conversations(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield (id, turns): consecutive messages of one sender are joined into one turn."""
    for key, conversation in json.loads(path.read_text()).items():
        turns = []
        for block in conversation["messages"]:
            sentences = [message["text"].strip() for message in block if message["text"].strip()]
            turns.append(" ".join(sentences))
        if len(turns) >= 4 and all(turns):
            yield key, turns


def chatterbot_pairs(path: Path) -> Iterator[list[str]]:
    """Yield the turns of each conversation in one topic file (a plain two-level YAML list)."""
    turns: list[str] = []
    for line in _read(path).splitlines():
        match = re.match(r"(- - |  - )(.*)", line)
        if match is None:
            continue
        if match[1] == "- - ":
            if len(turns) > 1:
                yield turns
            turns = []
        turns.append(match[2].strip().strip("'\"").replace("''", "'"))
    if len(turns) > 1:
        yield turns


def docstring_functions(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (name, first docstring paragraph, source) of a Python file's short functions.

    Methods are moved to column 0.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    lines = text.split("\n")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno < 32:
            doc = ast.get_docstring(node)
            if doc and len(doc) > 20:
                code = textwrap.dedent("\n".join(lines[node.lineno - 1:node.end_lineno])).rstrip()
                if not code.startswith(" ") and "\t" not in code:
                    yield node.name, doc.split("\n\n")[0], code


EXTRACTORS: dict[str, Callable[[Source, Path], Documents]] = {
    "plain": _plain, "html": _html, "code": _code, "prose": _prose,
    "shakespeare": _shakespeare, "austen": _austen, "bible": _bible,
}
