"""DraftTree: invariants, derived arrays and single-tree operations."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_jax.tree import DraftTree
from tests.strategies import trees

#        0 anchor 9
#        1 ├─ 4        .6
#        2 │  ├─ 5     .3
#        3 │  └─ 6     .2
#        4 └─ 7        .3
#        5    └─ 5     .1
BUSH = DraftTree(
    tokens=[9, 4, 5, 6, 7, 5],
    parents=[-1, 0, 1, 1, 0, 4],
    scores=[1.0, 0.6, 0.3, 0.2, 0.3, 0.1],
    source=[0, 1, 1, 1, 2, 2],
)


def path_of(tree, node):
    path = []
    while node >= 0:
        path.append(node)
        node = int(tree.parents[node])
    return path[::-1]


def test_derived_arrays_of_a_bush():
    assert BUSH.depth.tolist() == [0, 1, 2, 2, 1, 2]
    assert BUSH.ancestors.astype(int).tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [1, 1, 0, 1, 0, 0],
        [1, 0, 0, 0, 1, 0],
        [1, 0, 0, 0, 1, 1],
    ]
    assert BUSH.path_table().tolist() == [
        [0, -1, -1, -1, -1, -1],
        [0, 1, -1, -1, -1, -1],
        [0, 1, 2, -1, -1, -1],
        [0, 1, 3, -1, -1, -1],
        [0, 4, -1, -1, -1, -1],
        [0, 4, 5, -1, -1, -1],
    ]
    assert BUSH.n_draft == 5
    assert len(BUSH) == 6
    assert not BUSH.is_chain
    assert BUSH.expected_accepted == pytest.approx(1.5, abs=1e-6)
    assert BUSH.source_names == ("target", "lookup", "lookup", "lookup", "mtp", "mtp")


def test_dtypes_and_read_only():
    for name, dtype in (
        ("tokens", np.int32),
        ("parents", np.int32),
        ("scores", np.float32),
        ("source", np.int8),
        ("depth", np.int32),
        ("ancestors", np.bool_),
    ):
        array = getattr(BUSH, name)
        assert array.dtype == dtype
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert BUSH.path_table().dtype == np.int32


def test_the_given_arrays_stay_the_callers():
    tokens = np.array([1, 2], np.int32)
    tree = DraftTree(tokens, [-1, 0], [1.0, 0.5], [0, 1])
    tokens[1] = 7
    assert tree.tokens.tolist() == [1, 2]


def test_chain_and_root_only():
    chain = DraftTree.chain(3, [4, 5], source="mtp", scores=[0.5, 0.25])
    assert chain.tokens.tolist() == [3, 4, 5]
    assert chain.parents.tolist() == [-1, 0, 1]
    assert chain.scores.tolist() == [1.0, 0.5, 0.25]
    assert chain.is_chain
    root = DraftTree.root_only(3)
    assert root == DraftTree.chain(3, [], source="mtp")
    assert (root.n_draft, root.is_chain, root.expected_accepted) == (0, True, 0.0)
    assert root.path_table().tolist() == [[0]]


def test_from_parents_emits_preorder_with_the_best_sibling_first():
    # Breadth-first input; of the equal siblings 7 and 8 the one inserted first stays first.
    tree = DraftTree.from_parents(
        [9, 4, 7, 8, 5],
        [-1, 0, 0, 0, 1],
        scores=[1.0, 0.2, 0.4, 0.4, 0.1],
        source=["lookup", "mtp", "lookup", "wrong"],
    )
    assert tree.tokens.tolist() == [9, 7, 8, 4, 5]
    assert tree.parents.tolist() == [-1, 0, 0, 0, 3]
    assert tree.source_names == ("target", "mtp", "lookup", "lookup", "wrong")


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        (([1, 2], [-1], [1.0, 0.5], [0, 1]), r"differ or are empty: \[2, 1, 2, 2\]"),
        (([1, 2], [-1, 1], [1.0, 0.5], [0, 1]), r"node 1: parent 1 does not come before it \(I1\)"),
        (([1, 2], [-1, -1], [1.0, 0.5], [0, 1]), r"node 1: parent -1 .*\(I1\)"),
        (([1, 2], [0, 0], [1.0, 0.5], [0, 1]), "root's parent must be -1, not 0"),
        (
            ([1, 2, 3, 4], [-1, 0, 0, 1], [1.0, 0.5, 0.5, 0.5], [0, 1, 1, 1]),
            r"node 3: the subtree of node 1 is torn apart \(I2\)",
        ),
        (
            ([1, 2, 2], [-1, 0, 0], [1.0, 0.5, 0.5], [0, 1, 1]),
            r"node 2: a sibling already carries token 2 \(I3\)",
        ),
        (
            ([1, 2, 3], [-1, 0, 0], [1.0, 0.25, 0.5], [0, 1, 1]),
            r"node 2: score 0.5 is above its left sibling's \(I4\)",
        ),
        (([1, 2], [-1, 0], [1.0, float("nan")], [0, 1]), r"node 1: score nan is not in \[0, 1\]"),
        (([1, 2], [-1, 0], [1.0, 1.5], [0, 1]), r"node 1: score 1.5 is not in \[0, 1\]"),
        (([1, 2], [-1, 0], [0.9, 0.5], [0, 1]), "root must have score 1"),
        (([1, 2], [-1, 0], [1.0, 0.5], [1, 1]), "root must have .* source 'target'"),
        (([1, 2], [-1, 0], [1.0, 0.5], [0, 99]), r"source codes must lie in \[0, 9\)"),
        (([1, -2], [-1, 0], [1.0, 0.5], [0, 1]), "negative token id -2"),
    ],
)
def test_broken_invariants_are_named(fields, rule):
    with pytest.raises(ValueError, match=rule):
        DraftTree(*fields)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="unknown source 'guess'; known: target, lookup"):
        DraftTree.chain(1, [2], source="guess")
    with pytest.raises(ValueError, match="cannot truncate a tree to 0 rows"):
        BUSH.truncate(0)
    with pytest.raises(ValueError, match="must hold the root and the parent"):
        BUSH.subset([0, 2])
    with pytest.raises(ValueError, match="must hold the root and the parent"):
        BUSH.subset([])
    with pytest.raises(TypeError):
        DraftTree([1.5], [-1], [1.0], [0])


def test_accept_walk_takes_the_branch_that_matches_not_the_first():
    # The target picks 7 at the anchor, then 5: the second branch, nodes 4 and 5 (case A8).
    picks = [7, 5, 0, 0, 5, 3]
    assert BUSH.accept_walk(picks) == [0, 4, 5]
    assert BUSH.accepted_against([7, 5, 3]) == 2


def test_accept_walk_stops_where_nothing_matches():
    assert BUSH.accept_walk([8, 5, 5, 5, 5, 5]) == [0]
    assert BUSH.accept_walk([4, 6, 5, 5, 5, 5]) == [0, 1, 3]
    assert BUSH.accepted_against([4, 6, 5]) == 2
    assert BUSH.accepted_against([4]) == 1
    assert BUSH.accepted_against([]) == 0


def test_subset_truncate_and_best_nodes_of_a_bush():
    assert BUSH.subset([0, 4, 1, 3]).tokens.tolist() == [9, 4, 6, 7]
    assert BUSH.subset([0, 4, 1, 3]).parents.tolist() == [-1, 0, 1, 0]
    assert BUSH.subset([0, 4, 1, 3]).source_names == ("target", "lookup", "lookup", "mtp")
    assert BUSH.truncate(6) is BUSH
    assert BUSH.truncate(3).tokens.tolist() == [9, 4, 5]
    assert BUSH.best_nodes(5) is BUSH
    assert BUSH.best_nodes(3).tokens.tolist() == [9, 4, 5, 7]
    assert BUSH.best_nodes(1).tokens.tolist() == [9, 4]
    assert BUSH.best_nodes(0) == DraftTree.root_only(9)


def test_best_nodes_passes_over_what_does_not_fit():
    # Scores that rise along a path: 6 at the end of the weak line would need three nodes.
    tree = DraftTree.from_parents(
        [9, 4, 5, 6, 7], [-1, 0, 1, 2, 0], scores=[1, 0.1, 0.1, 0.9, 0.5], source="random"
    )
    assert sorted(tree.best_nodes(2).tokens.tolist()) == [4, 7, 9]
    assert sorted(tree.best_nodes(3).tokens.tolist()) == [4, 5, 6, 9]


@given(trees())
def test_path_table_and_ancestors_equal_the_parent_walk(tree):
    table, n_rows = tree.path_table(), len(tree)
    for node in range(n_rows):
        path = path_of(tree, node)
        assert table[node].tolist() == path + [-1] * (n_rows - len(path))
        assert np.flatnonzero(tree.ancestors[node]).tolist() == path
        assert tree.depth[node] == len(path) - 1


@given(trees(), st.data())
def test_accept_walk_equals_the_search_for_a_child(tree, data):
    # Picks are often a token of the tree, so that paths of all lengths come up.
    pool = st.sampled_from(tree.tokens.tolist())
    picks = data.draw(st.lists(pool, min_size=len(tree), max_size=len(tree)))
    path = [0]
    while True:
        matching = [
            node
            for node in range(1, len(tree))
            if tree.parents[node] == path[-1] and tree.tokens[node] == picks[path[-1]]
        ]
        if not matching:
            break
        path += matching
    assert tree.accept_walk(picks) == path
    line = [picks[node] for node in path]
    assert tree.accepted_against(line) == len(path) - 1


@given(trees(), st.data())
def test_a_prefix_of_the_order_is_always_a_legal_tree(tree, data):
    n_rows = data.draw(st.integers(1, len(tree) + 2))
    cut = tree.truncate(n_rows)
    cut.validate()
    assert cut.tokens.tolist() == tree.tokens[:n_rows].tolist()
    assert cut.parents.tolist() == tree.parents[:n_rows].tolist()


@given(trees(), st.data())
def test_subset_keeps_the_paths_of_an_ancestor_closed_set(tree, data):
    marked = data.draw(st.sets(st.integers(0, len(tree) - 1)))
    keep = sorted({0}.union(*(path_of(tree, node) for node in marked)))
    part = tree.subset(keep)
    part.validate()
    for new, old in enumerate(keep):
        assert [int(part.tokens[node]) for node in path_of(part, new)] == [
            int(tree.tokens[node]) for node in path_of(tree, old)
        ]
    assert part.scores.tolist() == tree.scores[keep].tolist()
    assert part.source.tolist() == tree.source[keep].tolist()


@given(trees(max_nodes=9), st.data())
def test_best_nodes_have_the_largest_score_sum_of_their_number(tree, data):
    budget = data.draw(st.integers(0, tree.n_draft))
    best = tree.best_nodes(budget)
    best.validate()
    assert best.n_draft == budget
    sums = [
        sum(tree.scores[list(chosen)].tolist())
        for chosen in combinations(range(1, len(tree)), budget)
        if all(tree.parents[node] in (0, *chosen) for node in chosen)
    ]
    assert best.expected_accepted == pytest.approx(max(sums), abs=1e-6)
