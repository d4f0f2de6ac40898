"""The gated delta rule over trees: what every form must do, and what `walk` does bit for bit."""

from itertools import pairwise

import jax
import numpy as np
import pytest

from pallas_kernels.delta_scan.reference import sequential
from pallas_kernels.delta_scan.walk import walk, walk_path
from pallas_kernels.delta_scan.wy import path_state, tree_wy
from tandem_jax.engine.buckets import fit_bucket
from tandem_jax.ops.delta_scan import DELTA_SCAN, delta_commit, delta_rows
from tests.contracts.cases import ROWS, DeltaCase, buckets, delta_case, poison, relative_error
from tests.laws.bits import same_bits
from tests.laws.growth import depths, path_to, random_parents

TOLERANCE = 5e-5  # of the UT form against the recurrence, relative to the largest value
N_TREES = 200

run_walk, run_walk_path = jax.jit(walk), jax.jit(walk_path)
run_wy, run_path_state, run_sequential = jax.jit(tree_wy), jax.jit(path_state), jax.jit(sequential)
run_rows = jax.jit(delta_rows, static_argnums=0)


def padded(values, size, fill=0):
    """int32 [size] with `values` first."""
    out = np.full(size, fill, np.int32)
    out[: len(values)] = values
    return out


def ancestor_mask(parents, size):
    """[size, size] bool, [t, j] = j is t or an ancestor of t; unused rows see themselves."""
    mask = np.eye(size, dtype=bool)
    for node in range(len(parents)):
        mask[node, path_to(parents, node)] = True
    return mask


def recurrence_along(case: DeltaCase, path):
    """Outputs [len(path), H, V] and final state of the plain recurrence along a path."""
    rows = tuple(np.zeros_like(x) for x in case.rows)  # g = beta = 0 leaves the state alone
    for x, row in zip(rows, case.at(path), strict=True):
        x[: len(path)] = row
    o, s = run_sequential(*rows, case.s0)
    return np.asarray(o)[: len(path)], s


def plain_steps(case: DeltaCase, parents, size):
    """(outputs [n, H, V], states) of every node by one-token calls of `size` rows."""
    outs, states = [], {-1: case.s0}
    zeros = np.zeros(size, np.int32)
    for node, parent in enumerate(parents):
        one = tuple(np.zeros((size, *x.shape[1:]), np.float32) for x in case.rows)
        for x, row in zip(one, case.at([node]), strict=True):
            x[:1] = row
        s = states[parent]
        outs.append(np.asarray(run_walk(*one, s, zeros, np.int32(1)))[0])
        states[node] = np.asarray(run_walk_path(*one[1:], s, zeros, np.int32(1)))
    return np.stack(outs), states


@pytest.fixture(scope="module", params=range(4), ids=lambda part: f"part{part}")
def forest(request):
    """A quarter of the random trees: (case, parents), 1 to 31 drafted nodes."""
    rng = np.random.default_rng(request.param)
    cases = [delta_case(rng, ROWS, correlated=bool(i % 2)) for i in range(4)]
    return [
        (cases[i % 4], random_parents(rng, int(rng.integers(2, ROWS + 1))))
        for i in range(N_TREES // 4)
    ]


def test_walk_equals_one_token_calls_bit_for_bit(platform, forest):
    sizes = buckets(platform)
    for case, parents in forest:
        n = len(parents)
        size = fit_bucket(n, sizes)
        rows = tuple(poison(x[:size], n) for x in case.rows)
        depth = padded(depths(parents), size, fill=size - 1)
        o = np.asarray(run_walk(*rows, case.s0, depth, np.int32(n)))
        outs, states = plain_steps(case, parents, sizes[0])
        assert same_bits(o[:n], outs), parents
        # A7: a commit keeps the accepted path and nothing else, whichever path that is.
        for node in range(n):
            path = path_to(parents, node)
            slots = padded(path, size, fill=size - 1)
            s = run_walk_path(*rows[1:], case.s0, slots, np.int32(len(path)))
            assert same_bits(s, states[node]), (parents, node)


def test_walk_equals_the_recurrence(platform):
    rng = np.random.default_rng(20)
    case = delta_case(rng, ROWS, key=64, value=32)
    chain = np.arange(ROWS, dtype=np.int32)
    o = run_walk(*case.rows, case.s0, chain, np.int32(ROWS))
    s = run_walk_path(*case.rows[1:], case.s0, chain, np.int32(ROWS))
    wanted_o, wanted_s = run_sequential(*case.rows, case.s0)
    assert relative_error(o, wanted_o) <= 2e-6
    assert relative_error(s, wanted_s) <= 2e-6


def test_a_commit_of_nothing_keeps_the_state(platform):
    case = delta_case(np.random.default_rng(21), ROWS)
    s = run_walk_path(*case.rows[1:], case.s0, np.zeros(ROWS, np.int32), np.int32(0))
    assert same_bits(s, case.s0)


@pytest.mark.parametrize("heads_key_value", [(6, 128, 128), (3, 96, 40), (1, 64, 64)])
def test_walk_is_exact_at_other_sizes(platform, heads_key_value):
    rng = np.random.default_rng(22)
    heads, key, value = heads_key_value
    case = delta_case(rng, ROWS, heads=heads, key=key, value=value)
    parents = random_parents(rng, 20)
    depth = padded(depths(parents), ROWS)
    o = np.asarray(run_walk(*case.rows, case.s0, depth, np.int32(20)))
    assert same_bits(o[:20], plain_steps(case, parents, buckets(platform)[0])[0])


def test_rows_that_are_not_ancestors_move_nothing(platform):
    rng = np.random.default_rng(23)
    case = delta_case(rng, ROWS)
    for _ in range(20):
        parents = random_parents(rng, ROWS)
        depth = np.array(depths(parents), np.int32)
        o = np.asarray(run_walk(*case.rows, case.s0, depth, np.int32(ROWS)))
        node = int(rng.integers(ROWS))
        other = np.setdiff1d(np.arange(ROWS), path_to(parents, node))
        rows = tuple(x.copy() for x in case.rows)
        for x in rows:
            x[other] = rng.standard_normal(x[other].shape)
        changed = np.asarray(run_walk(*rows, case.s0, depth, np.int32(ROWS)))
        assert same_bits(o[node], changed[node])


def test_tree_wy_and_its_path_state(platform):
    rng = np.random.default_rng(24)
    for turn in range(20):
        case = delta_case(rng, ROWS, correlated=bool(turn % 2))
        parents = random_parents(rng, ROWS)
        o, u, gates = run_wy(*case.rows, case.s0, ancestor_mask(parents, ROWS))
        for node in rng.integers(0, ROWS, 6).tolist():
            path = path_to(parents, node)
            wanted_o, wanted_s = recurrence_along(case, path)
            assert relative_error(np.asarray(o)[path], wanted_o) <= TOLERANCE
            on_path = np.isin(np.arange(ROWS), path)
            s = run_path_state(case.k, u, gates, case.s0, on_path, np.int32(node))
            assert relative_error(s, wanted_s) <= TOLERANCE


def two_requests(rng, size):
    """Two requests of one pass as `delta_rows` wants them, and their parents."""
    both = [delta_case(rng, size) for _ in range(2)]
    parents = [random_parents(rng, n) for n in (size, size - 3)]
    depth = np.stack([padded(depths(p), size) for p in parents])
    # Past a row's own depth the path table holds anything.
    path = rng.integers(0, size, (2, size, size)).astype(np.int32)
    for request, up in enumerate(parents):
        for node in range(len(up)):
            line = path_to(up, node)
            path[request, node, : len(line)] = line
    rows = tuple(np.stack(pair) for pair in zip(*(case.rows for case in both), strict=True))
    s0 = np.stack([case.s0 for case in both])
    used = np.array([len(p) for p in parents], np.int32)
    return both, parents, (*rows, s0, depth, path, used)


@pytest.mark.parametrize("name", [name for name in DELTA_SCAN if name != "sequential"])
def test_every_form_behind_the_door_takes_two_requests(platform, name):
    both, parents, args = two_requests(np.random.default_rng(25), ROWS)
    o = np.asarray(run_rows(name, *args))
    for request, (case, up) in enumerate(zip(both, parents, strict=True)):
        outs, _ = plain_steps(case, up, buckets(platform)[0])
        found = o[request, : len(up)]
        assert relative_error(found, outs) <= TOLERANCE
        assert same_bits(found, outs) == DELTA_SCAN[name].exact


def test_commit_of_two_requests_equals_plain_steps(platform):
    both, parents, args = two_requests(np.random.default_rng(26), ROWS)
    nodes = [len(parents[0]) - 1, len(parents[1]) // 2]
    lines = [path_to(up, node) for up, node in zip(parents, nodes, strict=True)]
    path = np.stack([padded(line, ROWS) for line in lines])
    count = np.array([len(line) for line in lines], np.int32)
    s = np.asarray(jax.jit(delta_commit)(*args[1:6], path, count))
    for request, (case, up) in enumerate(zip(both, parents, strict=True)):
        _, states = plain_steps(case, up, buckets(platform)[0])
        assert same_bits(s[request], states[nodes[request]])


def test_random_trees_are_of_all_shapes():
    rng = np.random.default_rng(27)
    shapes = [random_parents(rng, 16) for _ in range(50)]
    chains = sum(all(b - a == 1 for a, b in pairwise(up)) for up in shapes)
    deepest = {max(depths(up)) for up in shapes}
    assert 0 < chains < 25
    assert len(deepest) > 5
