"""Rounding of matrices to NVFP4 inside the training forward, with a straight-through gradient.

The values are bit for bit those that `checkpoints.nvfp4` stores and reads back: every step is a
comparison, a power of two or a product that is exact, so no compiler can round it differently.
"""

import jax
import jax.numpy as jnp
from jax import lax

from checkpoints.nvfp4 import (
    BORDERS,
    GROUP,
    MAGNITUDES,
    MIN_EXPONENT,
    SCALE_MAX,
    SCALE_MIN,
    SIXTH,
)

QUANTISED = frozenset(("qkv", "z", "out", "q", "k", "v", "o", "gate", "up", "down", "fc"))


def _power_of_two(exponent):
    """2**exponent as float32, for exponents of normal numbers."""
    return lax.bitcast_convert_type((exponent + 127) << 23, jnp.float32)


def _exponent(largest):
    """ceil(log2(largest / 2688)), the exponent of scale_2; 0 for 0."""
    bits = lax.bitcast_convert_type(largest, jnp.int32)
    # 2688 = 1.3125 * 2**11; 0x280000 is the mantissa of 1.3125.
    exponent = (bits >> 23) - 127 - 11 + ((bits & 0x7FFFFF) > 0x280000).astype(jnp.int32)
    return jnp.where(bits == 0, 0, jnp.maximum(exponent, MIN_EXPONENT))


def _round_e4m3(x):
    """x in [2**-9, 448] to the nearest e4m3, ties to even, in float32.

    Not a cast: some backends convert by way of float16 and round twice.
    """
    bits = lax.bitcast_convert_type(x, jnp.int32)
    bits = bits + 0x7FFFF + ((bits >> 20) & 1)  # three of 23 mantissa bits stay
    normal = lax.bitcast_convert_type((bits >> 20) << 20, jnp.float32)
    return jnp.where(x < 2.0**-6, jnp.round(x * 512.0) * (1 / 512), normal)


def _rounded(w):
    *lead, k, n = w.shape
    groups = w.reshape(*lead, k // GROUP, GROUP, n)
    size = jnp.abs(groups)
    exponent = _exponent(jnp.max(size, (-3, -2, -1), keepdims=True))
    largest = jnp.max(size, -2, keepdims=True)
    scale = jnp.clip(largest * _power_of_two(-exponent) * SIXTH, SCALE_MIN, SCALE_MAX)
    unit = _round_e4m3(scale) * _power_of_two(exponent)
    magnitude = jnp.zeros_like(size)
    for at, (border, tie_moves) in enumerate(BORDERS):
        limit = unit * border
        step = MAGNITUDES[at + 1] - MAGNITUDES[at]
        moved = size >= limit if tie_moves else size > limit
        magnitude = magnitude + jnp.where(moved, jnp.float32(step), jnp.float32(0))
    return jnp.copysign(magnitude * unit, groups).reshape(w.shape)


@jax.custom_vjp
def fake_quant(w):
    """Return w [..., K, N] float32 rounded to NVFP4, groups of 16 along K; its gradient is 1.

    One scale_2 for each matrix (the last two axes). K must be a multiple of 16.
    """
    return _rounded(w)


fake_quant.defvjp(lambda w: (_rounded(w), None), lambda _, gradient: (gradient,))


def fake_quant_params(params: dict, amount) -> dict:
    """Return the training tree as it will be stored: every quantised matrix and the head rounded.

    `amount` is a scalar, 0 (values unchanged) or 1 (exactly the stored values). The head [V, D]
    is a leaf of its own in the result, rounded along D from "head", or from "embed" if tied.
    """
    def choose(w):
        return jnp.where(amount > 0, fake_quant(w), w)

    def visit(tree):
        return {key: visit(value) if isinstance(value, dict)
                else choose(value) if key in QUANTISED else value for key, value in tree.items()}

    head = params["head"] if "head" in params else params["embed"]
    return {**visit(params), "head": choose(head.T).T}
