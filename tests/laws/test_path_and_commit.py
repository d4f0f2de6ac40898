"""Laws 2 and 3: every row of a tree, and what a commit keeps, equal plain decoding of the path.

Each walk follows one plain run with a new random tree a round, so a fault in a commit also shows in
every later row.
"""

import numpy as np
import pytest

from tandem_jax.tree import DraftTree
from tests.laws.bench import VOCAB
from tests.laws.bits import same_bits
from tests.laws.checks import check_round, plain_rows
from tests.laws.growth import random_tree

PROMPTS = (1, 30, 63, 150)  # tokens: empty and short windows, page borders ahead, several pages
TREES = 50  # a prompt length; 200 in all
WHOLE_TREES = 5  # a prompt length, of which every row is compared


def grown(bench, plain, rng, fed):
    """A random tree of 1 to 31 drafted nodes that partly follows the plain run."""
    n_draft = int(rng.integers(1, bench.buckets[-1]))
    return random_tree(rng, plain.tokens[fed], plain.tokens[fed + 1 :], n_draft, VOCAB)


def walk_random_trees(bench, plain, rng, n_trees):
    """`n_trees` rounds, starting over when the plain run ends; returns the tokens each gave."""
    gains, fed, state = [], plain.steps, None
    for _ in range(n_trees):
        if fed == plain.steps:
            fed, state = 0, plain.fork()
        before = fed
        state, fed = check_round(bench, plain, state, fed, grown(bench, plain, rng, fed))
        gains.append(fed - before)
    return gains


def compare_every_row(bench, plain, rng, n_trees):
    """Rejected rows too: each node's row against plain decoding of the path to it."""
    state, fed = plain.fork(), 0
    for _ in range(n_trees):
        tree = grown(bench, plain, rng, fed)
        length = plain.n_prompt + fed
        wanted = plain_rows(bench, state, tree, length)
        state, result, logits = bench.round(state, tree, length)
        assert same_bits(logits[: len(tree)], wanted), tree
        fed += len(result.path)


@pytest.mark.parametrize("n_prompt", PROMPTS)
def test_random_trees(bench, n_prompt):
    plain = bench.plain(n_prompt)
    gains = walk_random_trees(bench, plain, np.random.default_rng(n_prompt), TREES)
    # Both kinds of round took part: nothing accepted, and a path of several nodes.
    assert min(gains) == 1
    assert max(gains) >= 6


@pytest.mark.parametrize("n_prompt", PROMPTS)
def test_every_row_of_random_trees(bench, n_prompt):
    rng = np.random.default_rng([1, n_prompt])
    compare_every_row(bench, bench.plain(n_prompt), rng, WHOLE_TREES)


@pytest.mark.parametrize("n_prompt", [30, 150])
def test_random_trees_in_bfloat16(bench_bf16, n_prompt):
    rng = np.random.default_rng([2, n_prompt])
    plain = bench_bf16.plain(n_prompt)
    walk_random_trees(bench_bf16, plain, rng, 15)
    compare_every_row(bench_bf16, plain, rng, 2)


def chain(plain, fed, n_right, n_draft):
    """A chain of which the first `n_right` drafted tokens are right and the next one is not."""
    tokens = plain.tokens[fed + 1 : fed + 1 + n_draft]
    tokens[n_right:] = [(token + 1) % VOCAB for token in tokens[n_right:]]
    return DraftTree.chain(plain.tokens[fed], tokens, source="half-right")


@pytest.mark.parametrize("n_draft", [1, 4, 8, 31])
def test_rejection_at_every_depth_rolls_back(bench, n_draft):
    """Report A5: conv tail and state after a partial accept are those of the accepted tokens."""
    plain = bench.plain(30)
    for n_right in range(n_draft + 1):
        state, fed = check_round(bench, plain, plain.fork(), 0, chain(plain, 0, n_right, n_draft))
        assert fed == 1 + n_right
        # The round after it, without a draft, reads what was committed.
        check_round(bench, plain, state, fed, DraftTree.root_only(plain.tokens[fed]))


def test_rounds_without_a_draft_read_the_committed_state(bench):
    """Report A2: two or more accepted, then rounds that draft nothing."""
    plain = bench.plain(63)
    state, fed = plain.fork(), 0
    for n_draft in (3, 0, 2, 0, 0, 4, 0, 7, 0, 0):
        tree = chain(plain, fed, n_draft, n_draft) if n_draft else None
        tree = tree or DraftTree.root_only(plain.tokens[fed])
        before = fed
        state, fed = check_round(bench, plain, state, fed, tree)
        assert fed == before + 1 + n_draft


def second_branch(plain, fed):
    """Three branches; the right one is in the middle, and the first one repeats its tokens."""
    a, b, c, d = plain.tokens[fed : fed + 4]
    wrong, worse = (b + 1) % VOCAB, (b + 2) % VOCAB
    return DraftTree.from_parents(
        [a, wrong, c, d, b, c, d, worse, c],
        [-1, 0, 1, 2, 0, 4, 5, 0, 7],
        scores=[1.0, 0.9, 0.8, 0.7, 0.5, 0.4, 0.3, 0.2, 0.1],
        source="half-right",
    )


def test_an_accepted_path_that_is_not_the_first_branch(bench):
    """Report A8: state and KV rows are the accepted branch's, wherever its rows lie."""
    plain = bench.plain(150)
    state, fed = plain.fork(), 0
    for _ in range(4):
        tree = second_branch(plain, fed)
        right = tree.accepted_against(plain.tokens[fed + 1 :])
        assert (right, tree.parents.tolist()) == (3, [-1, 0, 1, 2, 0, 4, 5, 0, 7])
        state, fed = check_round(bench, plain, state, fed, tree)
    assert fed == 16


def test_a_limit_cuts_the_path_like_a_rejection(bench):
    plain = bench.plain(30)
    tree = chain(plain, 0, 8, 8)
    for limit in range(1, 10):
        state, result, _ = bench.round(plain.fork(), tree, 30, limit=limit)
        assert result.path.tolist() == list(range(limit))
        assert result.bonus == plain.tokens[limit]
        check_round(bench, plain, state, limit, DraftTree.root_only(plain.tokens[limit]))
