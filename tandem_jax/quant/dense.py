"""Unquantised weights: float32 or bfloat16, in the order the checkpoint has them."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Dense:
    """One matrix, or a stack of equal ones that a scan cuts into single ones."""

    w: jax.Array  # [..., N, K] float32 or bfloat16, rows are outputs

    def matmul(self, x: jax.Array) -> jax.Array:
        """x [R, K] -> [R, N] float32; products in the weight's dtype, sums in float32."""
        return lax.dot_general(
            x.astype(self.w.dtype),
            self.w,
            (((1,), (1,)), ((), ())),
            precision=lax.Precision.HIGHEST,
            preferred_element_type=jnp.float32,
        )

    @property
    def n_params(self) -> int:
        """Number of weights."""
        return self.w.size
