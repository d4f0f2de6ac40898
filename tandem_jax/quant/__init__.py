"""Weight formats behind one matmul door: layers call `linear` and never know the format."""

import jax

FORMATS = {"dense": "tandem_jax.quant.dense:Dense"}


def linear(x: jax.Array, weight) -> jax.Array:
    """x W^T for any format of FORMATS: x [R, K], weight of [N, K] -> [R, N] float32."""
    return weight.matmul(x)
