"""The algebra of merging draft trees."""

import pytest
from hypothesis import given

from tandem_jax.tree import DraftTree
from tests.strategies import trees

# Few tokens near the root: two draws from this share paths often.
FIRST = trees(max_nodes=20, vocab_size=20, anchor=3, source="mtp")
SECOND = trees(max_nodes=20, vocab_size=20, anchor=3, source="lookup")


def paths(tree):
    """{token path: (score, source)} of all nodes."""
    found, lines = {}, []
    for node, parent in enumerate(tree.parents.tolist()):
        above = lines[parent] if node else ()
        lines.append((*above, int(tree.tokens[node])))
        found[lines[node]] = (float(tree.scores[node]), tree.source_names[node])
    return found


def test_shared_nodes_keep_the_first_source_and_the_higher_score():
    head = DraftTree.chain(1, [2, 3], source="mtp", scores=[0.5, 0.25])
    lookup = DraftTree.from_parents(
        [1, 2, 4, 5], [-1, 0, 1, 0], scores=[1, 0.625, 0.375, 0.125], source="lookup"
    )
    merged = head.merge(lookup)
    # 4 (.375) overtakes 3 (.25) below the shared 2.
    assert merged.tokens.tolist() == [1, 2, 4, 3, 5]
    assert merged.parents.tolist() == [-1, 0, 1, 1, 0]
    assert merged.scores.tolist() == [1.0, 0.625, 0.375, 0.25, 0.125]
    assert merged.source_names == ("target", "mtp", "lookup", "mtp", "lookup")


def test_equal_scores_keep_the_first_tree_first():
    left = DraftTree.chain(1, [2], source="mtp", scores=[0.5])
    right = DraftTree.chain(1, [3], source="lookup", scores=[0.5])
    assert left.merge(right).tokens.tolist() == [1, 2, 3]
    assert right.merge(left).tokens.tolist() == [1, 3, 2]


def test_different_anchors_do_not_merge():
    with pytest.raises(ValueError, match="different anchors: 1 and 2"):
        DraftTree.root_only(1).merge(DraftTree.root_only(2))


@given(FIRST, SECOND)
def test_union_of_paths_maximum_of_scores_source_of_the_first(first, second):
    merged = first.merge(second)
    merged.validate()
    ours, theirs, both = paths(first), paths(second), paths(merged)
    assert both.keys() == ours.keys() | theirs.keys()
    for line, (score, source) in both.items():
        known = [tree[line] for tree in (ours, theirs) if line in tree]
        assert score == max(candidate[0] for candidate in known)
        assert source == known[0][1]


@given(FIRST, SECOND)
def test_merging_again_changes_nothing(first, second):
    assert first.merge(first) == first
    merged = first.merge(second)
    assert merged.merge(second) == merged
    assert merged.merge(first) == merged
    assert first.merge(DraftTree.root_only(3)) == first


@given(FIRST, SECOND, trees(max_nodes=20, vocab_size=20, anchor=3))
def test_merge_is_associative_up_to_the_order_of_ties(first, second, third):
    assert paths(first.merge(second).merge(third)) == paths(first.merge(second.merge(third)))


@given(FIRST, SECOND)
def test_a_merge_accepts_what_the_better_part_accepts(first, second):
    merged = first.merge(second)
    for line in (*paths(first), *paths(second)):
        continuation = line[1:]
        assert merged.accepted_against(continuation) == len(continuation)
