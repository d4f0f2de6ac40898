"""The recursive block inverse, and why the doubling product is not used."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pallas_kernels.delta_scan.inverse import unit_lower_inverse
from tests.contracts.cases import delta_case

TOLERANCE = 1e-5  # of float32 against float64, entries of the true inverse are about 1


def system(case):
    """A [H, T, T] float32 of the UT form: beta_t exp(G_t - G_j) (k_t . k_j) below the diagonal."""
    gates = np.cumsum(case.g.astype(np.float64), axis=0)
    decay = np.exp(np.minimum(gates[:, None] - gates[None, :], 0.0))
    a = np.einsum("thk,jhk->htj", case.k, case.k) * decay.transpose(2, 0, 1)
    a *= case.beta.T[:, :, None]
    return np.tril(a, -1).astype(np.float32)


def true_inverse(a):
    return np.linalg.inv(np.eye(a.shape[-1]) + a.astype(np.float64))


@jax.jit
def doubling_product(a):
    """(I - A)(I + A^2)(I + A^4)...: exact on paper, since A^T = 0."""
    mm = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
    eye = jnp.broadcast_to(jnp.eye(a.shape[-1], dtype=a.dtype), a.shape)
    product, power, reach = eye - a, mm(a, a), 2
    while reach < a.shape[-1]:
        product, power, reach = mm(product, eye + power), mm(power, power), 2 * reach
    return product


@pytest.mark.parametrize("size", [1, 2, 4, 8, 32, 64])
@pytest.mark.parametrize("correlated", [False, True], ids=["random", "correlated"])
def test_inverse_against_float64(platform, size, correlated):
    a = system(delta_case(np.random.default_rng(size), size, key=64, correlated=correlated))
    found = np.asarray(jax.jit(unit_lower_inverse)(a))
    assert np.abs(found - true_inverse(a)).max() <= TOLERANCE
    assert np.array_equal(np.triu(found, 1), np.zeros_like(found))


def test_the_doubling_product_fails_on_correlated_keys(platform):
    case = delta_case(np.random.default_rng(0), 64, key=64, correlated=True)
    cosines = np.einsum("thk,jhk->htj", case.k, case.k)[:, *np.tril_indices(64, -1)]
    assert 0.85 < cosines.mean() < 0.95
    a = system(case)
    wanted = true_inverse(a)
    assert np.abs(wanted).max() < 2
    assert np.abs(np.asarray(doubling_product(a)) - wanted).max() > 1e3
    assert np.abs(np.asarray(jax.jit(unit_lower_inverse)(a)) - wanted).max() <= TOLERANCE


def test_the_doubling_product_is_right_on_random_keys(platform):
    a = system(delta_case(np.random.default_rng(1), 64, key=64))
    assert np.abs(np.asarray(doubling_product(a)) - true_inverse(a)).max() <= 1e-4


def test_entries_on_and_above_the_diagonal_are_ignored(platform):
    rng = np.random.default_rng(2)
    a = rng.standard_normal((3, 8, 8)).astype(np.float32) / 4
    inverse = jax.jit(unit_lower_inverse)
    full = np.asarray(inverse(a))
    assert full.shape == (3, 8, 8)
    assert np.array_equal(full, np.asarray(inverse(np.tril(a, -1))))


def test_other_sizes_are_refused():
    with pytest.raises(ValueError, match="power of two, not 6 rows"):
        unit_lower_inverse(jnp.zeros((6, 6)))


@pytest.mark.parametrize("batch", [(), (1,), (2, 3), (2, 1, 3)])
def test_any_number_of_batch_axes(batch):
    a = np.tril(np.random.default_rng(7).standard_normal((*batch, 8, 8)), -1).astype(np.float32)
    inverse = np.asarray(jax.jit(unit_lower_inverse)(a))
    wanted = np.linalg.inv(np.eye(8) + a.astype(np.float64))
    np.testing.assert_allclose(inverse, wanted, rtol=1e-4, atol=1e-4)
