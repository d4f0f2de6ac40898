"""The chunk form used for training equals the recurrence, with correlated keys too."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tools.train.delta_rule import chunk_delta_rule, sequential_delta_rule, unit_lower_inverse


def _inputs(seed, correlation, beta_logit, rows=2, length=192, heads=3, width=32):
    rng = np.random.default_rng(seed)

    def unit(x):
        return x / np.linalg.norm(x, axis=-1, keepdims=True)

    shared = rng.standard_normal((rows, 1, heads, width))
    shape = (rows, length, heads, width)
    k = unit(correlation * unit(shared) + (1 - correlation) * unit(rng.standard_normal(shape)))
    q = unit(rng.standard_normal(shape)) * width**-0.5
    v = rng.standard_normal(shape)
    g = -np.exp(rng.uniform(-8, 0, shape[:3]))
    beta = 1 / (1 + np.exp(-beta_logit - rng.standard_normal(shape[:3])))
    state = rng.standard_normal((rows, heads, width, width))
    return [jnp.asarray(x, jnp.float32) for x in (q, k, v, g, beta, state)]


@pytest.mark.parametrize(("correlation", "beta_logit"), [(0.0, 0.0), (0.5, 2.0), (0.75, 3.5)])
def test_chunks_equal_the_recurrence(correlation, beta_logit):
    inputs = _inputs(7, correlation, beta_logit)
    out, state = sequential_delta_rule(*inputs)
    chunk_out, chunk_state = jax.jit(
        partial(chunk_delta_rule, precision=jax.lax.Precision.HIGHEST))(*inputs)
    for mine, true in ((chunk_out, out), (chunk_state, state)):
        error = jnp.linalg.norm(mine - true) / jnp.linalg.norm(true)
        assert float(error) < 1e-5


def test_gradients_equal_the_recurrence():
    inputs = _inputs(3, 0.5, 2.0, rows=1, length=128, heads=2, width=16)

    def score(rule):
        def value(*arguments):
            out, state = rule(*arguments)
            return jnp.sum(jnp.sin(out)) + jnp.sum(jnp.cos(state))
        return jax.jit(jax.grad(value, argnums=tuple(range(6))))(*inputs)

    for mine, true in zip(score(chunk_delta_rule), score(sequential_delta_rule), strict=True):
        assert float(jnp.linalg.norm(mine - true) / jnp.linalg.norm(true)) < 1e-4


def test_inverse_of_a_badly_conditioned_block():
    a = jnp.tril(jnp.full((64, 64), 0.95, jnp.float32), -1)
    inverse = np.asarray(jax.jit(unit_lower_inverse)(a), np.float64)
    product = inverse @ (np.eye(64) + np.asarray(a, np.float64))
    np.testing.assert_allclose(product, np.eye(64), atol=1e-5)
