"""The exact tree form: walk the nodes depth first and apply the one-token update to each.

Rows are in depth-first pre-order, so when a node is reached the state of its parent is the last
one stored at the parent's depth: a stack of states indexed by depth is all the memory a tree
needs. Every row runs the same update on the state that plain decoding would hold, so its result
has the same bits (design law 2), and a commit is the same walk over the accepted path (law 3).

The loops run to a count known only at run time. That is on purpose: a loop of constant length
may be unrolled or merged with its surroundings, and then the compiler contracts the update's
multiplies and adds differently in one bucket than in another.
"""

import jax
import jax.numpy as jnp
from jax import lax

from pallas_kernels.delta_scan.reference import delta_read, delta_update


def walk(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    g: jax.Array,
    beta: jax.Array,
    s0: jax.Array,
    depth: jax.Array,
    rows: jax.Array,
) -> jax.Array:
    """Outputs of one request's tree rows.

    q, k [T, H, K], v [T, H, V], g, beta [T, H], s0 [H, K, V]: float32 as in `delta_update`;
    depth [T] int32, 0 for the root; rows: int32 scalar, rows in use (the others return zeros).
    Returns o [T, H, V] float32.
    """
    stack = jnp.zeros((q.shape[0] + 1, *s0.shape), s0.dtype).at[0].set(s0)

    def body(i, carry):
        stack, out = carry
        s = delta_update(stack[depth[i]], k[i], v[i], g[i], beta[i])
        return stack.at[depth[i] + 1].set(s), out.at[i].set(delta_read(s, q[i]))

    return lax.fori_loop(0, rows, body, (stack, jnp.zeros_like(v)))[1]


def walk_path(
    k: jax.Array,
    v: jax.Array,
    g: jax.Array,
    beta: jax.Array,
    s0: jax.Array,
    path: jax.Array,
    count: jax.Array,
) -> jax.Array:
    """The state after the first `count` nodes of a path: what a commit keeps.

    Arrays as in `walk`; path [T] int32, row of each node from the root down; count: int32 scalar.
    Returns the new state [H, K, V] float32.
    """

    def body(i, s):
        row = path[i]
        return delta_update(s, k[row], v[row], g[row], beta[row])

    return lax.fori_loop(0, count, body, s0)
