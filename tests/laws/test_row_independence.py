"""Law 1: a row depends on its own path alone, not on neighbours, bucket, company, or slot."""

import numpy as np
import pytest

from tandem_jax.tree import DraftTree
from tandem_jax.tree.rows import HEADER, Seat, pack_trees
from tests.laws.bench import VOCAB
from tests.laws.bench import random_prompt as prompt_of
from tests.laws.bits import same_bits
from tests.laws.growth import path_to, random_tree
from tests.laws.states import AWAY, HOME, committed, differing, fork, poison_unused

N_PROMPT = 63  # the trees straddle the border of the first page
N_DRAFT = 7  # the largest tree of the smallest bucket


@pytest.fixture(scope="module")
def plain(bench):
    return bench.plain(N_PROMPT)


def some_tree(plain, seed, n_draft=N_DRAFT):
    rng = np.random.default_rng(seed)
    return random_tree(rng, plain.tokens[0], plain.tokens[1:], n_draft, VOCAB)


def with_other_tokens(rng, tree, kept):
    """The same shape; every node that is not in `kept` gets a random token."""
    tokens = tree.tokens.tolist()
    for node in set(range(len(tree))) - set(kept):
        siblings = {tokens[i] for i in np.flatnonzero(tree.parents == tree.parents[node])}
        tokens[node] = int(rng.choice(sorted(set(range(VOCAB)) - siblings)))
    return DraftTree(tokens, tree.parents, tree.scores, tree.source)


@pytest.mark.parametrize("n_draft", [7, 12, 31])
def test_tokens_elsewhere_in_the_tree(bench, plain, n_draft):
    rng = np.random.default_rng(n_draft)
    tree = some_tree(plain, n_draft, n_draft)
    _, _, logits = bench.round(plain.fork(), tree, N_PROMPT)
    for node in range(0, len(tree), 3):
        path = path_to(tree.parents, node)
        other = with_other_tokens(rng, tree, path)
        _, _, changed = bench.round(plain.fork(), other, N_PROMPT)
        assert same_bits(changed[path], logits[path]), (tree, node)


def test_nodes_left_out(bench, plain):
    tree = some_tree(plain, 4, 31)
    _, _, logits = bench.round(plain.fork(), tree, N_PROMPT)
    for n_rows in (1, 2, 7, 8, 9, 16, 17, 25):
        _, _, fewer = bench.round(plain.fork(), tree.truncate(n_rows), N_PROMPT)
        assert same_bits(fewer[:n_rows], logits[:n_rows])


def test_every_bucket(bench, plain):
    for seed in range(5):
        tree = some_tree(plain, seed)
        n, left = len(tree), []
        for rows in bench.buckets:
            state, result, logits = bench.round(plain.fork(), tree, N_PROMPT, rows=rows)
            length = N_PROMPT + len(result.path)
            left.append((logits[:n], result, committed(state, HOME, length)))
        for logits, result, after in left[1:]:
            assert same_bits(logits, left[0][0])
            assert result.path.tolist() == left[0][1].path.tolist()
            assert result.head.tokens.tolist() == left[0][1].head.tokens.tolist()
            assert differing(after, left[0][2]) == []


def test_garbage_in_rows_that_are_not_in_use(bench, plain):
    rng, rows = np.random.default_rng(5), bench.buckets[-1]
    for n_draft in (0, 3, 12):
        tree = some_tree(plain, 6 + n_draft, n_draft)
        n = len(tree)
        packed = pack_trees([tree], [Seat(HOME.slot, N_PROMPT, n, HOME.pages)], rows)
        state, (result,), logits = bench.dispatch(plain.fork(), packed, rows)
        dirty = packed.copy()
        columns = dirty[0, HEADER : HEADER + 3 * rows].reshape(3, rows)
        columns[0, n:] = rng.integers(0, VOCAB, rows - n)
        columns[1:, n:] = rng.integers(0, rows, (2, rows - n))
        paths = dirty[0, HEADER + 3 * rows :][: rows * rows].reshape(rows, rows)
        paths[n:] = rng.integers(0, rows, (rows - n, rows))
        for node in range(n):
            paths[node, tree.depth[node] + 1 :] = rng.integers(0, rows, rows - 1 - tree.depth[node])
        state_dirty, (result_dirty,), logits_dirty = bench.dispatch(plain.fork(), dirty, rows)
        assert same_bits(logits_dirty[0, :n], logits[0, :n])
        assert result_dirty.path.tolist() == result.path.tolist()
        length = N_PROMPT + len(result.path)
        found = [committed(s, HOME, length) for s in (state, state_dirty)]
        assert differing(*found) == []


def test_another_slot_and_other_pages(bench, plain):
    state, anchor = bench.prefill(bench.poisoned(), prompt_of(N_PROMPT), AWAY)
    state = poison_unused(state, [(AWAY, N_PROMPT)])
    assert anchor == plain.tokens[0]
    assert differing(committed(state, AWAY, N_PROMPT), plain.committed(0)) == []
    tree = some_tree(plain, 8, 20)
    _, result, logits = bench.round(plain.fork(), tree, N_PROMPT)
    state, away, logits_away = bench.round(state, tree, N_PROMPT, place=AWAY)
    assert same_bits(logits_away[: len(tree)], logits[: len(tree)])
    assert away.path.tolist() == result.path.tolist()
    fed = len(result.path)
    assert differing(committed(state, AWAY, N_PROMPT + fed), plain.committed(fed)) == []


@pytest.mark.parametrize("turned", [False, True], ids=["first", "second"])
def test_beside_another_request(bench, plain, turned):
    if bench.engine.plan.tile is None:
        pytest.skip("one request a pass here: rows are not tiled, so bits follow their number")
    rng, other = np.random.default_rng(9), bench.plain(30)
    state, anchor = bench.prefill(plain.fork(), prompt_of(30), AWAY)
    assert anchor == other.tokens[0]
    start = poison_unused(state, [(HOME, N_PROMPT), (AWAY, 30)])
    for rows in bench.buckets[:2]:
        n_draft = rows - 1
        trees = [some_tree(plain, rows, n_draft), some_tree(other, rows + 1, int(rng.integers(7)))]
        seats = [
            Seat(HOME.slot, N_PROMPT, len(trees[0]), HOME.pages),
            Seat(AWAY.slot, 30, len(trees[1]), AWAY.pages),
        ]
        order = (1, 0) if turned else (0, 1)
        packed = pack_trees([trees[i] for i in order], [seats[i] for i in order], rows)
        state, results, logits = bench.dispatch(fork(start), packed, rows)
        for line, i in enumerate(order):
            run, place = ((plain, HOME), (other, AWAY))[i]
            alone, result, wanted = bench.round(run.fork(), trees[i], run.n_prompt)
            count = len(result.path)
            assert results[line].path.tolist() == result.path.tolist()
            assert results[line].head.tokens.tolist() == result.head.tokens.tolist()
            assert same_bits(logits[line, : len(trees[i])], wanted[: len(trees[i])])
            found = committed(state, place, run.n_prompt + count)
            assert differing(found, committed(alone, HOME, run.n_prompt + count)) == []
            assert differing(found, run.committed(count)) == []


def test_a_slot_outside_the_pass_keeps_its_bits(bench, plain):
    state, _ = bench.prefill(plain.fork(), prompt_of(30), AWAY)
    before = committed(state, AWAY, 30)
    for fed in range(3):
        state, _, _ = bench.step(state, plain.tokens[fed], N_PROMPT + fed)
    assert differing(committed(state, AWAY, 30), before) == []
    assert differing(committed(state, HOME, N_PROMPT + 3), plain.committed(3)) == []
