"""Measuring code follows JAX's usual promotion rules, like the training code that it runs."""

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def usual_promotion():
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield
