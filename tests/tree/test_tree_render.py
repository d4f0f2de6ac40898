"""Pictures of trees: exact text, well-formed and harmless SVG."""

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given

from tandem_jax.tree import SOURCES, DraftTree, TreeView
from tandem_jax.tree.render import COLOURS, render_html, render_text
from tests.strategies import trees

TREE = DraftTree.from_parents(
    [9, 4, 5, 6, 7],
    [-1, 0, 1, 1, 0],
    scores=[1, 0.625, 0.25, 0.125, 0.25],
    source=["lookup", "lookup", "mtp", "mtp"],
)
HOSTILE = {
    9: "</svg><script>alert(1)</script>",
    4: "\x1b[31m\n",
    5: '" onload="x',
    6: "\u202e",
    7: "&",
}


def test_text_by_id():
    assert repr(TREE) == (
        "DraftTree: 4 drafted, depth 2, expects 1.25\n"
        "9\n"
        "├─ 4  lookup 0.62\n"
        "│  ├─ 5  lookup 0.25\n"
        "│  └─ 6  mtp 0.12\n"
        "└─ 7  mtp 0.25"
    )


def test_text_by_decode_with_accepted_marks():
    view = TreeView(TREE, decode=lambda token: f"w{token} ", accepted=(0, 1, 3))
    assert repr(view).splitlines()[1:] == [
        "'w9 '",
        "├─ 'w4 '  lookup 0.62 ✓",
        "│  ├─ 'w5 '  lookup 0.25",
        "│  └─ 'w6 '  mtp 0.12 ✓",
        "└─ 'w7 '  mtp 0.25",
    ]
    assert view._repr_html_().count("stroke-width='3'") == 5  # 3 boxes, 2 edges


def test_a_root_alone():
    assert repr(DraftTree.root_only(5)) == "DraftTree: 0 drafted, depth 0, expects 0.00\n5"


def test_hostile_tokens_neither_move_the_terminal_nor_become_markup():
    text = render_text(TREE, decode=HOSTILE.get)
    assert all(line.isprintable() for line in text.split("\n"))
    assert len(text.split("\n")) == 6
    html = render_html(TREE, decode=HOSTILE.get)
    assert "<script" not in html
    root = ElementTree.fromstring(html)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags == {"figure", "figcaption", "svg", "g", "title", "rect", "text", "path"}
    assert all("onload" not in element.attrib for element in root.iter())


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_has_a_colour(name):
    assert COLOURS[name].startswith("#")


@given(trees())
def test_any_tree_has_a_line_and_a_box_of_its_own_for_each_node(tree):
    assert len(repr(tree).splitlines()) == len(tree) + 1
    root = ElementTree.fromstring(tree._repr_html_())
    corners = [
        (element.get("x"), element.get("y"))
        for element in root.iter()
        if element.tag.endswith("rect")
    ]
    assert len(corners) == len(set(corners)) == len(tree)
