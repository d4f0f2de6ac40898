"""The chunked UT form, which prefill runs, against the token-by-token recurrence."""

import jax
import numpy as np
import pytest

from pallas_kernels.delta_scan.reference import sequential
from pallas_kernels.delta_scan.wy import chunked
from tests.contracts.cases import delta_case, relative_error
from tests.laws.bits import same_bits

TOLERANCE = 5e-6  # relative to the largest value

run_chunked, run_sequential = jax.jit(chunked), jax.jit(sequential)


def float64_recurrence(case):
    """S <- e^g S; u = beta (v - S^T k); S <- S + k u^T; o = S^T q, in numpy."""
    s, outs = case.s0.astype(np.float64), []
    for q, k, v, g, beta in zip(*(x.astype(np.float64) for x in case.rows), strict=True):
        s = s * np.exp(g)[:, None, None]
        u = beta[:, None] * (v - np.einsum("hkv,hk->hv", s, k))
        s = s + k[:, :, None] * u[:, None, :]
        outs.append(np.einsum("hkv,hk->hv", s, q))
    return np.stack(outs), s


@pytest.mark.parametrize("n_tokens", [64, 192])
@pytest.mark.parametrize("correlated", [False, True], ids=["random", "correlated"])
def test_chunks_equal_the_recurrence(platform, n_tokens, correlated):
    case = delta_case(
        np.random.default_rng(n_tokens), n_tokens, key=64, value=32, correlated=correlated
    )
    wanted_o, wanted_s = float64_recurrence(case)
    for form in (run_sequential, run_chunked):
        o, s = form(*case.rows, case.s0)
        assert relative_error(o, wanted_o) <= TOLERANCE
        assert relative_error(s, wanted_s) <= TOLERANCE


def test_padding_leaves_the_state_alone(platform):
    case = delta_case(np.random.default_rng(5), 64, correlated=True)
    padded = tuple(x.copy() for x in case.rows)
    for x in padded[3:]:
        x[40:] = 0.0
    o, s = run_chunked(*padded, case.s0)
    wanted_o, wanted_s = run_sequential(*(x[:40] for x in case.rows), case.s0)
    assert relative_error(np.asarray(o)[:40], wanted_o) <= TOLERANCE
    assert relative_error(s, wanted_s) <= TOLERANCE
    # What the padding rows hold besides g = beta = 0 moves nothing by one bit.
    for x in padded[:3]:
        x[40:] = -3.0
    o_other, s_other = run_chunked(*padded, case.s0)
    assert same_bits(np.asarray(o)[:40], np.asarray(o_other)[:40])
    assert same_bits(s, s_other)


def test_a_chunk_does_not_see_what_follows(platform):
    case = delta_case(np.random.default_rng(6), 192)
    o, _ = run_chunked(*case.rows, case.s0)
    changed = tuple(x.copy() for x in case.rows)
    for x in changed[:3]:
        x[128:] = x[128:][::-1]
    o_changed, _ = run_chunked(*changed, case.s0)
    assert same_bits(np.asarray(o)[:128], np.asarray(o_changed)[:128])


def test_other_lengths_are_refused():
    case = delta_case(np.random.default_rng(7), 65)
    with pytest.raises(ValueError, match="65 tokens are not a multiple of the chunk of 64"):
        chunked(*case.rows, case.s0)
