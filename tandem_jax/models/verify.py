"""One forward for rows: verify (B requests, T tree rows), and commit what was accepted.

Plain decoding is the tree that has only its root; there is no second decode path.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import lax

from tandem_jax.models import attention, delta_net
from tandem_jax.models.config import HybridConfig
from tandem_jax.models.hybrid import HybridWeights, final_rows, visit_layers
from tandem_jax.models.mlp import mlp
from tandem_jax.ops.delta_scan import delta_commit, delta_rows
from tandem_jax.ops.plan import Plan
from tandem_jax.ops.rows import row_tiles
from tandem_jax.ops.tree_attention import tree_attention
from tandem_jax.state.model_state import DeltaState, KvCache, ModelState, scatter_rows
from tandem_jax.tree.rows import RowTable


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class DeltaRows:
    """What a DeltaNet layer computed for the rows of a pass and a commit needs again."""

    m: jax.Array  # [L, R, C] activation dtype, rows before the convolution
    k: jax.Array  # [L, R, Hk, K] float32
    v: jax.Array  # [L, R, H, V] float32
    g: jax.Array  # [L, R, H] float32
    beta: jax.Array  # [L, R, H] float32


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PassRows:
    """The uncommitted outcome of a verify: rows beside the state, which it did not touch."""

    delta: DeltaRows
    k: jax.Array  # [L, R, G, D] activation dtype, attention keys
    v: jax.Array  # [L, R, G, D] activation dtype, attention values
    taps: jax.Array | None  # [n, R, D] activation dtype, residual rows for a drafter


def conv_columns(cfg: HybridConfig, tree: RowTable) -> jax.Array:
    """Where each row's convolution window lies, oldest first: int32 [R, W].

    Columns count the B * (W - 1) entry-state rows first and then the R rows of the pass.
    """
    keep = cfg.delta.taps - 1
    b = tree.shape[0]
    level = tree.depth.reshape(-1)[:, None] + jnp.arange(-keep, 1, dtype=jnp.int32)[None]
    node = jnp.take_along_axis(tree.path, jnp.maximum(level, 0), 1)
    entry = tree.request[:, None] * keep + keep + level
    return jnp.where(level >= 0, b * keep + node, entry)


def _delta_layer(cfg: HybridConfig, plan: Plan, tree: RowTable, columns: jax.Array):
    """The DeltaNet layer as `visit_layers` calls it; inputs are (s0 [B, H, K, V], tail)."""
    shape, (b, t) = cfg.delta, tree.shape

    def tiles(f, *xs):
        return row_tiles(f, xs, tile=plan.tile, used_tiles=tree.used_tiles)

    def layer(w, mlp_w, x, inputs):
        s0, tail = inputs
        m, z, g, beta = tiles(lambda x: delta_net.delta_inputs(w, x, cfg.eps), x)
        rows = jnp.concatenate([tail.reshape(-1, tail.shape[-1]), m])

        def conv(at):
            window = [rows[at[:, j]] for j in range(shape.taps)]
            return delta_net.split_heads(shape, delta_net.short_conv(w.conv, window))

        q, k, v = tiles(conv, columns)
        wide_q, wide_k = (delta_net.serve_value_heads(shape, a) for a in (q, k))
        args = (a.reshape(b, t, *a.shape[1:]) for a in (wide_q, wide_k, v, g, beta))
        walked = (s0, tree.depth, tree.local_path, tree.rows)
        o = delta_rows(plan.delta_scan.name, *args, *walked).reshape(v.shape)

        def back(x, o, z):
            return (mlp(mlp_w, delta_net.delta_output(w, x, o, z, cfg.eps), cfg.eps),)

        return tiles(back, x, o, z)[0], DeltaRows(m, k, v, g, beta)

    return layer


def _attention_layer(cfg: HybridConfig, plan: Plan, tree: RowTable, kv: KvCache):
    """The attention layer as `visit_layers` calls it."""

    def tiles(f, *xs):
        return row_tiles(f, xs, tile=plan.tile, used_tiles=tree.used_tiles)

    def layer(w, mlp_w, x, index):
        def front(x, position):
            return attention.attention_inputs(cfg.attention, w, x, position, cfg.eps)

        q, gate, k, v = tiles(front, x, tree.position)
        where = (tree.pages, tree.position, tree.length, tree.request, tree.path, tree.used_tiles)
        o = tree_attention(q, k, v, kv.k, kv.v, index, *where, tile=plan.tile)

        def back(x, o, gate):
            return (mlp(mlp_w, attention.attention_output(w, x, o, gate), cfg.eps),)

        return tiles(back, x, o, gate)[0], (k, v)

    return layer


def verify_rows(
    cfg: HybridConfig,
    plan: Plan,
    weights: HybridWeights,
    state: ModelState,
    tree: RowTable,
    taps: tuple[int, ...] = (),
) -> tuple[jax.Array, jax.Array, PassRows]:
    """Forward the rows of a pass without touching the state; `taps` as in `visit_layers`.

    Returns (hidden [R, D] after the final norm, logits [R, vocab] float32, the rows' outcome).
    Rows not in use hold zeros or repeat meaningless values; no row reads them.
    """
    delta_layer = _delta_layer(cfg, plan, tree, conv_columns(cfg, tree))
    attention_layer = _attention_layer(cfg, plan, tree, state.kv)
    entry = (state.delta.s[:, tree.slots], state.delta.conv[:, tree.slots])
    layers = (delta_layer, attention_layer, entry, taps)
    x, delta, (k, v), kept = visit_layers(cfg, plan, weights, weights.embed[tree.token], *layers)
    hidden, logits = row_tiles(
        lambda x: final_rows(cfg, weights, x), (x,), tile=plan.tile, used_tiles=tree.used_tiles
    )
    return hidden, logits, PassRows(delta, k, v, kept)


def commit(
    cfg: HybridConfig,
    state: ModelState,
    rows: PassRows,
    tree: RowTable,
    path: jax.Array,
    count: jax.Array,
) -> ModelState:
    """Keep the accepted path and nothing else; with a shorter path this is the rollback.

    path [B, T] int32 accepted rows of each request from the root down, count [B] int32. Caches
    of draft heads are left as they were. Returns the new state; slots outside the pass are
    untouched.
    """
    b, t = tree.shape
    keep = cfg.delta.taps - 1
    s0 = state.delta.s[:, tree.slots]

    def one_layer(_, xs):
        s0, d = xs
        k = delta_net.serve_value_heads(cfg.delta, d.k)
        args = (a.reshape(b, t, *a.shape[1:]) for a in (k, d.v, d.g, d.beta))
        return None, delta_commit(*args, s0, path, count)

    _, s = lax.scan(one_layer, None, (s0, rows.delta))

    def along_path(a):
        a = a.reshape(a.shape[0], b, t, *a.shape[2:])
        index = path.reshape(1, b, t, *(1,) * (a.ndim - 3))
        return jnp.take_along_axis(a, index, axis=2)

    history = jnp.concatenate([state.delta.conv[:, tree.slots], along_path(rows.delta.m)], axis=2)
    last = count[:, None] + jnp.arange(keep, dtype=jnp.int32)[None]
    tail = jnp.take_along_axis(history, last[None, :, :, None], axis=2)
    delta = DeltaState(
        state.delta.s.at[:, tree.slots].set(s), state.delta.conv.at[:, tree.slots].set(tail)
    )
    fresh = (along_path(rows.k), along_path(rows.v))
    kv = scatter_rows(state.kv, *fresh, tree.pages, tree.start, count)
    return replace(state, delta=delta, kv=kv)
