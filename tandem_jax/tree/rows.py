"""Draft trees as the device sees them: one int32 array per round in, flat row tables inside.

Host packs, device unpacks. Layout of one request's line, with T rows and N pages:

    slot, rows in use, committed length, most nodes to accept, draft behind the round |
    tokens T | parents T | depth T | path T*T (row of the ancestor at each depth) | page list N
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from tandem_jax.tree.draft_tree import DraftTree

HEADER = 5  # values in front of a request's line
TILE = 8  # rows of a reference tile; buckets are multiples of it


@dataclass(frozen=True)
class Seat:
    """Where one request of a pass lives."""

    slot: int  # slot of its recurrent state
    length: int  # committed tokens already forwarded = position of the tree's root
    limit: int  # most nodes to accept this round, the root included
    pages: np.ndarray  # int32 [N], its page list
    draft: bool = True  # the draft head, if there is one, guesses what follows this round


def line_size(rows: int, pages: int) -> int:
    """Values of one request's line for T = `rows` and N = `pages`."""
    return HEADER + 3 * rows + rows * rows + pages


def pack_trees(trees: Sequence[DraftTree], seats: Sequence[Seat], rows: int) -> np.ndarray:
    """One line per request: int32 [B, 5 + 3T + T*T + N]. Trees have at most `rows` nodes."""
    lines = []
    for tree, seat in zip(trees, seats, strict=True):
        n = len(tree.tokens)
        line = np.zeros(line_size(rows, len(seat.pages)), np.int32)
        line[:HEADER] = seat.slot, n, seat.length, seat.limit, seat.draft
        table = line[HEADER : HEADER + 3 * rows].reshape(3, rows)
        table[0, :n], table[1, :n], table[2, :n] = tree.tokens, tree.parents, tree.depth
        path = line[HEADER + 3 * rows : HEADER + 3 * rows + rows * rows].reshape(rows, rows)
        path[:n, :n] = np.maximum(tree.path_table(), 0)
        line[line_size(rows, 0) :] = seat.pages
        lines.append(line)
    return np.stack(lines)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RowTable:
    """The rows of a pass, request by request; R = B * T."""

    token: jax.Array  # [R] int32
    position: jax.Array  # [R] int32, committed length + depth
    length: jax.Array  # [R] int32, committed tokens of the row's request
    request: jax.Array  # [R] int32, 0..B-1
    path: jax.Array  # [R, T] int32, row (0..R-1) of the ancestor at each depth up to its own
    parent: jax.Array  # [B, T] int32, -1 for the root, within the request
    depth: jax.Array  # [B, T] int32, 0 for the root
    local_path: jax.Array  # [B, T, T] int32, `path` within the request
    rows: jax.Array  # [B] int32, rows in use
    slots: jax.Array  # [B] int32
    start: jax.Array  # [B] int32, committed length
    limit: jax.Array  # [B] int32, most nodes to accept
    draft: jax.Array  # [B] int32, 1 where the draft head guesses what follows
    pages: jax.Array  # [B, N] int32
    used_tiles: jax.Array  # int32 scalar, tiles of eight rows up to the last one in use

    @property
    def shape(self) -> tuple[int, int]:
        """(B, T)."""
        return self.depth.shape


def unpack_trees(packed: jax.Array, rows: int) -> RowTable:
    """The tables of a packed pass; packed [B, 5 + 3T + T*T + N] int32, T = `rows`."""
    b = packed.shape[0]
    slots, used, start, limit, draft = (packed[:, i] for i in range(HEADER))
    table = packed[:, HEADER : HEADER + 3 * rows].reshape(b, 3, rows)
    path = packed[:, HEADER + 3 * rows : HEADER + 3 * rows + rows * rows].reshape(b, rows, rows)
    offset = (jnp.arange(b, dtype=jnp.int32) * rows)[:, None]
    last = jnp.max(jnp.arange(b, dtype=jnp.int32) * rows + used)
    return RowTable(
        token=table[:, 0].reshape(-1),
        position=(start[:, None] + table[:, 2]).reshape(-1),
        length=jnp.repeat(start, rows),
        request=jnp.repeat(jnp.arange(b, dtype=jnp.int32), rows),
        path=(path + offset[:, :, None]).reshape(-1, rows),
        parent=table[:, 1],
        depth=table[:, 2],
        local_path=path,
        rows=used,
        slots=slots,
        start=start,
        limit=limit,
        draft=draft,
        pages=packed[:, line_size(rows, 0) :],
        used_tiles=(last + TILE - 1) // TILE,
    )


def chain_table(
    token: jax.Array, start: jax.Array, count: jax.Array, pages: jax.Array, slots: jax.Array
) -> RowTable:
    """Tables of B chains built on the device: token [B, T], start, count, slots [B], pages [B, N].

    Row i of a request continues row i - 1; rows past the count are not in use.
    """
    b, t = token.shape
    line = jnp.arange(t, dtype=jnp.int32)
    depth = jnp.broadcast_to(line[None], (b, t))
    local = jnp.broadcast_to(line[None, None], (b, t, t))
    offset = jnp.arange(b, dtype=jnp.int32) * t
    return RowTable(
        token=token.reshape(-1),
        position=(start[:, None] + depth).reshape(-1),
        length=jnp.repeat(start, t),
        request=jnp.repeat(jnp.arange(b, dtype=jnp.int32), t),
        path=(local + offset[:, None, None]).reshape(-1, t),
        parent=depth - 1,
        depth=depth,
        local_path=local,
        rows=count,
        slots=slots,
        start=start,
        limit=count,
        draft=jnp.zeros_like(count),
        pages=pages,
        used_tiles=(jnp.max(offset + count) + TILE - 1) // TILE,
    )
