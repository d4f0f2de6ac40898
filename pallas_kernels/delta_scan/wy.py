"""The gated delta rule with all rows at once: UT (WY) form under an ancestor mask.

With G_t the sum of g over the path to t, and j running over the proper ancestors of t:

    A[t, j] = beta_t exp(G_t - G_j) (k_t . k_j)
    u       = (I + A)^-1 [beta v - beta exp(G) (K S0)]
    o       = exp(G) (Q S0) + M u,   M[t, j] = exp(G_t - G_j) (q_t . k_j), j on the path incl. t
    S_path  = exp(G_last) S0 + sum over the path of exp(G_last - G_t) k_t (x) u_t

Equal to the walk in exact arithmetic only, so it is the comparison and the prefill form, and the
walk is what verifies. A chain is the tree whose ancestor mask is the lower triangle.
"""

import jax
import jax.numpy as jnp
from jax import lax

from pallas_kernels.delta_scan.inverse import unit_lower_inverse


def _einsum(spec: str, *xs: jax.Array) -> jax.Array:
    return jnp.einsum(spec, *xs, precision=lax.Precision.HIGHEST)


def _masked_decay(gates: jax.Array, mask: jax.Array) -> jax.Array:
    """exp(G_t - G_j) where mask[t, j], else 0; gates [H, T], mask [T, T] -> [H, T, T].

    The difference is masked before the exponential: off the path it has no upper bound.
    """
    gap = jnp.where(mask[None], gates[:, :, None] - gates[:, None, :], 0.0)
    return jnp.where(mask[None], jnp.exp(gap), 0.0)


def tree_wy(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    g: jax.Array,
    beta: jax.Array,
    s0: jax.Array,
    ancestors: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Outputs, pseudo-values and path gates of one request's tree rows.

    q, k [T, H, K], v [T, H, V], g, beta [T, H], s0 [H, K, V] float32; ancestors [T, T] bool,
    [t, j] = j is t or an ancestor of t. T is a power of two.
    Returns o [T, H, V], u [T, H, V], G [T, H].
    """
    strict = ancestors & ~jnp.eye(ancestors.shape[0], dtype=bool)
    gates = _einsum("tj,jh->ht", ancestors.astype(jnp.float32), g)
    grown = jnp.exp(gates).T[:, :, None]
    a = beta.T[:, :, None] * _masked_decay(gates, strict) * _einsum("thk,jhk->htj", k, k)
    rhs = beta[:, :, None] * (v - grown * _einsum("thk,hkv->thv", k, s0))
    u = _einsum("htj,jhv->thv", unit_lower_inverse(a), rhs)
    m = _masked_decay(gates, ancestors) * _einsum("thk,jhk->htj", q, k)
    o = grown * _einsum("thk,hkv->thv", q, s0) + _einsum("htj,jhv->thv", m, u)
    return o, u, gates.T


def path_state(
    k: jax.Array,
    u: jax.Array,
    gates: jax.Array,
    s0: jax.Array,
    on_path: jax.Array,
    last: jax.Array,
) -> jax.Array:
    """The state after a path, from the pseudo-values of `tree_wy`.

    k [T, H, K], u [T, H, V], gates [T, H], s0 [H, K, V] float32; on_path [T] bool; last: int32
    scalar, the path's last row. Returns [H, K, V].
    """
    top = gates[last]
    gap = jnp.where(on_path[:, None], top[None] - gates, 0.0)
    weight = jnp.where(on_path[:, None], jnp.exp(gap), 0.0)
    return jnp.exp(top)[:, None, None] * s0 + _einsum("thk,thv->hkv", weight[:, :, None] * k, u)


def chunked(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    g: jax.Array,
    beta: jax.Array,
    s0: jax.Array,
    *,
    chunk: int = 64,
) -> tuple[jax.Array, jax.Array]:
    """A long chain in chunks: what prefill runs.

    Arrays as in `tree_wy` with T a multiple of `chunk`. Rows with g = 0 and beta = 0 leave the
    state alone, which is how padding is written. Returns (o [T, H, V], final state [H, K, V]).
    """
    if q.shape[0] % chunk:
        raise ValueError(f"{q.shape[0]} tokens are not a multiple of the chunk of {chunk}")
    lower = jnp.tril(jnp.ones((chunk, chunk), bool))
    split = [x.reshape(-1, chunk, *x.shape[1:]) for x in (q, k, v, g, beta)]

    def body(s, rows):
        o, u, gates = tree_wy(*rows, s, lower)
        return path_state(rows[1], u, gates, s, lower[-1], jnp.int32(chunk - 1)), o

    s, o = lax.scan(body, s0, tuple(split))
    return o.reshape(v.shape), s
