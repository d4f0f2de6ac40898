"""The gated delta rule, one token at a time: the formula every other form is tested against.

Source: Gated DeltaNet as the Qwen3.5 family uses it. Per value head, with state S [K, V]:

    S <- exp(g) S;   u = beta (v - S^T k);   S <- S + k (x) u;   o = S^T q
"""

import jax
import jax.numpy as jnp
from jax import lax


def delta_update(
    s: jax.Array, k: jax.Array, v: jax.Array, g: jax.Array, beta: jax.Array
) -> jax.Array:
    """The state after one token: decay, read, correct, write.

    s [H, K, V] float32; k [H, K] float32 unit key; v [H, V] float32; g [H] float32 log decay,
    <= 0; beta [H] float32 write strength in (0, 1). Returns the new s.
    """
    s = s * jnp.exp(g)[:, None, None]
    u = beta[:, None] * (v - jnp.sum(s * k[:, :, None], axis=1))
    return s + k[:, :, None] * u[:, None, :]


def delta_read(s: jax.Array, q: jax.Array) -> jax.Array:
    """o = S^T q: s [H, K, V], q [H, K] float32 scaled unit query -> [H, V]."""
    return jnp.sum(s * q[:, :, None], axis=1)


def sequential(
    q: jax.Array, k: jax.Array, v: jax.Array, g: jax.Array, beta: jax.Array, s0: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """A chain of tokens by the recurrence: the oracle.

    q, k [T, H, K]; v [T, H, V]; g, beta [T, H]; s0 [H, K, V]; all float32.
    Returns (o [T, H, V], state after the last token [H, K, V]).
    """

    def body(s, row):
        s = delta_update(s, *row[1:])
        return s, delta_read(s, row[0])

    s, o = lax.scan(body, s0, (q, k, v, g, beta))
    return o, s
