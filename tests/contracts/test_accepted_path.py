"""The accept walk on the device against the one on the host."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_jax.tree import DraftTree
from tandem_jax.tree.accept import accepted_path
from tests.contracts.cases import ROWS
from tests.strategies import trees

VOCAB = 40

run = jax.jit(accepted_path)


@st.composite
def requests(draw):
    """(tree, picks [nodes], limit); many picks are the token of a child, so paths get long."""
    tree = draw(trees(vocab_size=VOCAB))
    n = len(tree)
    wishes = st.lists(st.integers(0, VOCAB - 1), min_size=n, max_size=n)
    picks = draw(wishes)
    favourite = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    for node in range(n):
        children = np.flatnonzero(tree.parents == node)
        if favourite[node] and children.size:
            picks[node] = int(tree.tokens[children[favourite[node] % children.size]])
    return tree, picks, draw(st.integers(1, ROWS))


def accepted(batch, rows):
    """Lines (path, count, bonus) of a batch of (tree, picks, limit), padding full of traps."""
    shape = (len(batch), rows)
    # Unused rows repeat the root's pick under the root: a walk that looks at them accepts them.
    token, pick = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    parent = np.zeros(shape, np.int32)
    for line, (tree, picks, _) in enumerate(batch):
        token[line], pick[line] = picks[0], picks[0]
        n = len(tree)
        token[line, :n], parent[line, :n], pick[line, :n] = tree.tokens, tree.parents, picks
    used = np.array([len(tree) for tree, _, _ in batch], np.int32)
    limits = np.array([limit for _, _, limit in batch], np.int32)
    return [np.asarray(x) for x in run(token, parent, used, pick, limits)]


@pytest.mark.parametrize("n_requests", [1, 2, 3])
@given(data=st.data())
def test_device_walk_equals_host_walk(platform, n_requests, data):
    batch = [data.draw(requests()) for _ in range(n_requests)]
    path, count, bonus = accepted(batch, ROWS)
    for line, (tree, picks, limit) in enumerate(batch):
        wanted = tree.accept_walk(picks)[:limit]
        assert count[line] == len(wanted)
        assert path[line].tolist() == wanted + [0] * (ROWS - len(wanted))
        assert bonus[line] == picks[wanted[-1]]


def test_the_bonus_of_a_cut_path_is_the_pick_at_the_cut(platform):
    tree = DraftTree.chain(5, [6, 7, 8], source="random")
    for limit, bonus in ((1, 6), (2, 7), (3, 8), (4, 9), (32, 9)):
        path, count, token = accepted([(tree, [6, 7, 8, 9], limit)], ROWS)
        assert count.tolist() == [min(limit, 4)]
        assert path[0, : count[0]].tolist() == list(range(count[0]))
        assert token.tolist() == [bonus]


def test_the_anchor_is_always_accepted(platform):
    tree = DraftTree.root_only(5)
    path, count, bonus = accepted([(tree, [9], 1)], ROWS)
    assert (path[0, 0], count[0], bonus[0]) == (0, 1, 9)


def test_a_longest_chain_is_accepted_whole(platform):
    tokens = list(range(1, 32))
    tree = DraftTree.chain(0, tokens, source="random")
    path, count, bonus = accepted([(tree, [*tokens, 39], ROWS)], ROWS)
    assert (path[0].tolist(), count[0], bonus[0]) == (list(range(32)), 32, 39)
