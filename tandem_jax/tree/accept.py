"""The greedy accept walk, on the device and without a data-dependent loop.

A node is accepted if its parent is and the parent's pick is the node's token. Rows are in
pre-order and siblings differ in their tokens, so the accepted nodes form one path from the root;
the pick of its last node is the bonus token. Source: spec of tree speculation, greedy case.
"""

import jax
import jax.numpy as jnp


def accepted_path(
    token: jax.Array, parent: jax.Array, rows: jax.Array, pick: jax.Array, limit: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The accepted path of each request.

    token, parent, pick [B, T] int32 (a row's token, its parent's row, the model's pick after it);
    rows [B] int32 rows in use; limit [B] int32 most nodes to accept, at least 1.
    Returns (path [B, T] accepted rows from the root down, zeros behind; count [B]; bonus [B]).
    """
    t = token.shape[1]
    line = jnp.arange(t, dtype=jnp.int32)[None]
    up = jnp.maximum(parent, 0)
    matches = (token == jnp.take_along_axis(pick, up, 1)) | (line == 0)
    ok = matches & (line < rows[:, None])
    hop = up
    for _ in range(max(t - 1, 1).bit_length()):
        ok = ok & jnp.take_along_axis(ok, hop, 1)
        hop = jnp.take_along_axis(hop, hop, 1)
    place = jnp.cumsum(ok.astype(jnp.int32), axis=1) - 1
    ok = ok & (place < limit[:, None])
    count = jnp.sum(ok.astype(jnp.int32), axis=1)
    target = jnp.where(ok, place, t)
    lanes = jnp.broadcast_to(line, ok.shape)
    batch = jnp.arange(token.shape[0], dtype=jnp.int32)[:, None]
    path = jnp.zeros_like(token).at[batch, target].set(lanes, mode="drop")
    last = jnp.take_along_axis(path, jnp.maximum(count - 1, 0)[:, None], 1)
    bonus = jnp.take_along_axis(pick, last, 1)[:, 0]
    return path, count, bonus
