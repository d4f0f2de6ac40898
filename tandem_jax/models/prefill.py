"""One prefill chunk of one request: many tokens at once, DeltaNet in chunks, causal attention.

Chunks start on the page grid, so a chunk's arithmetic depends on the prompt up to its end and on
nothing that follows: a resume on the grid equals a cold prefill (design law 4).
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import lax

from tandem_jax.models import attention, delta_net
from tandem_jax.models.config import HybridConfig
from tandem_jax.models.hybrid import HybridWeights, visit_layers
from tandem_jax.models.mlp import mlp
from tandem_jax.models.norms import centred_norm
from tandem_jax.ops.delta_scan import delta_chunks
from tandem_jax.ops.plan import Plan
from tandem_jax.ops.tree_attention import prefill_attention
from tandem_jax.state.model_state import DeltaState, KvCache, ModelState


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Chunk:
    """A stretch of one prompt."""

    token: jax.Array  # [C] int32, zeros behind the count
    count: jax.Array  # int32 scalar, tokens in use
    start: jax.Array  # int32 scalar, position of the first one, a multiple of the page
    slot: jax.Array  # int32 scalar
    pages: jax.Array  # [N] int32, page list of the slot

    @property
    def position(self) -> jax.Array:
        """[C] int32."""
        return self.start + jnp.arange(self.token.shape[0], dtype=jnp.int32)


def write_page(cache: KvCache, k: jax.Array, v: jax.Array, chunk: Chunk) -> KvCache:
    """Put a chunk's rows k, v [L, C, G, D] at the head of its page."""
    page = chunk.pages[chunk.start // cache.k.shape[2]]
    zero = jnp.int32(0)

    def put(pool, rows):
        at = (zero, page, zero, zero, zero)
        return lax.dynamic_update_slice(pool, rows[:, None].astype(pool.dtype), at)

    return KvCache(put(cache.k, k), put(cache.v, v))


def _delta_layer(cfg: HybridConfig, chunk: Chunk):
    """The DeltaNet layer as `visit_layers` calls it; inputs are (s0 [H, K, V], tail [W-1, C])."""
    shape, rows = cfg.delta, chunk.token.shape[0]
    live = jnp.arange(rows, dtype=jnp.int32) < chunk.count

    def layer(w, mlp_w, x, inputs):
        s0, tail = inputs
        m, z, g, beta = delta_net.delta_inputs(w, x, cfg.eps)
        history = jnp.concatenate([tail, m])
        window = [lax.slice_in_dim(history, j, j + rows) for j in range(shape.taps)]
        q, k, v = delta_net.split_heads(shape, delta_net.short_conv(w.conv, window))
        q, k = (delta_net.serve_value_heads(shape, a) for a in (q, k))
        g, beta = (jnp.where(live[:, None], a, 0.0) for a in (g, beta))
        o, s = delta_chunks(q, k, v, g, beta, s0)
        x = mlp(mlp_w, delta_net.delta_output(w, x, o, z, cfg.eps), cfg.eps)
        return x, (s, lax.dynamic_slice_in_dim(history, chunk.count, shape.taps - 1))

    return layer


def prefill_chunk(
    cfg: HybridConfig,
    plan: Plan,
    weights: HybridWeights,
    state: ModelState,
    chunk: Chunk,
    taps: tuple[int, ...] = (),
) -> tuple[jax.Array, ModelState, jax.Array | None]:
    """Forward a chunk; returns (hidden [C, D] after the final norm, new state, taps [n, C, D]).

    `taps` names the layers whose entering rows come back (see `visit_layers`), None without any.
    A chunk at position 0 starts from an empty state whatever the slot held before.
    """
    fresh = chunk.start == 0
    s0 = jnp.where(fresh, 0.0, state.delta.s[:, chunk.slot])
    tail = state.delta.conv[:, chunk.slot]
    tail = jnp.where(fresh, jnp.zeros_like(tail), tail)

    def attention_layer(w, mlp_w, x, index):
        q, gate, k, v = attention.attention_inputs(cfg.attention, w, x, chunk.position, cfg.eps)
        o = prefill_attention(q, k, v, state.kv.k, state.kv.v, index, chunk.pages, chunk.start)
        return mlp(mlp_w, attention.attention_output(w, x, o, gate), cfg.eps), (k, v)

    x, (s, tail), (k, v), kept = visit_layers(
        cfg,
        plan,
        weights,
        weights.embed[chunk.token],
        _delta_layer(cfg, chunk),
        attention_layer,
        (s0, tail),
        taps,
    )
    # Always 0, but known only after the last layer: a write that might run before a read of the old
    # cache would make XLA copy it, and old versions drop an optimization_barrier too early.
    late = jnp.minimum(jnp.argmax(x[0]).astype(jnp.int32), 0)
    kv = write_page(state.kv, k, v, replace(chunk, pages=chunk.pages + late))
    hidden = centred_norm(x, weights.norm, cfg.eps).astype(x.dtype)
    delta = DeltaState(
        state.delta.s.at[:, chunk.slot].set(s), state.delta.conv.at[:, chunk.slot].set(tail)
    )
    return hidden, replace(state, delta=delta, kv=kv), kept
