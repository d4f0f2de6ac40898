"""Gated DeltaNet over tree rows: one op, three reference forms.

`walk` is what verifies: bit-equal to one-token steps. `wy` computes all rows at once and is its
comparison. `sequential` takes chains only and is the oracle of the tests.
"""

import jax
import jax.numpy as jnp
from jax import lax

from pallas_kernels.delta_scan import reference, walk, wy
from tandem_jax.ops.choose import Implementation

DELTA_SCAN = {
    "walk": Implementation(
        where="pallas_kernels.delta_scan.walk:walk", why_not=lambda platform: "", exact=True
    ),
    "wy": Implementation(
        where="pallas_kernels.delta_scan.wy:tree_wy", why_not=lambda platform: "", exact=False
    ),
    "sequential": Implementation(
        where="pallas_kernels.delta_scan.reference:sequential",
        why_not=lambda platform: "takes chains only: it is the oracle of the tests",
        exact=False,
    ),
}

delta_chunks = wy.chunked
delta_sequential = reference.sequential


def delta_rows(
    name: str,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    g: jax.Array,
    beta: jax.Array,
    s0: jax.Array,
    depth: jax.Array,
    path: jax.Array,
    rows: jax.Array,
) -> jax.Array:
    """Outputs of the tree rows of B requests.

    q, k [B, T, H, K], v [B, T, H, V], g, beta [B, T, H], s0 [B, H, K, V] float32; depth [B, T],
    path [B, T, T] (row of the ancestor at each depth, within the request), rows [B] int32.
    Returns [B, T, H, V] float32. Requests run one after the other, each through the same code.
    """

    def one(xs):
        q, k, v, g, beta, s0, depth, path, rows = xs
        if name == "walk":
            return walk.walk(q, k, v, g, beta, s0, depth, rows)
        size = depth.shape[0]
        on_path = jnp.arange(size, dtype=jnp.int32)[None, :] <= depth[:, None]
        hits = path[:, :, None] == jnp.arange(size, dtype=jnp.int32)[None, None, :]
        return wy.tree_wy(q, k, v, g, beta, s0, jnp.any(hits & on_path[:, :, None], axis=1))[0]

    return lax.map(one, (q, k, v, g, beta, s0, depth, path, rows))


def delta_commit(
    k: jax.Array,
    v: jax.Array,
    g: jax.Array,
    beta: jax.Array,
    s0: jax.Array,
    path: jax.Array,
    count: jax.Array,
) -> jax.Array:
    """States after the accepted paths; arrays as in `delta_rows`, path [B, T], count [B] int32.

    Always the walk, so a committed state equals plain decoding's whichever form verified.
    Returns [B, H, K, V] float32.
    """
    return lax.map(lambda xs: walk.walk_path(*xs), (k, v, g, beta, s0, path, count))
