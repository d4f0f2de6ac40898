"""Losses of the demo model: next token, MTP and the z-loss that keeps logits small."""

import jax
import jax.numpy as jnp

from tools.train.batches import TokenIds, assistant_tokens, segments_of
from tools.train.model import forward, logits_of, mtp_forward
from tools.train.shapes import ModelShape

Z_WEIGHT = 1e-4
ROWS_PER_BLOCK = 16


def token_losses(params, hidden, targets):
    """Return (negative log likelihood, log partition) of targets [B T], float32, block by block."""
    @jax.checkpoint
    def block(inputs):
        logits = logits_of(params, inputs[0])
        partition = jax.nn.logsumexp(logits, -1)
        # A comparison instead of a gather: its gradient melts into the softmax's.
        wanted = jnp.arange(logits.shape[-1]) == inputs[1][..., None]
        return partition - jnp.sum(jnp.where(wanted, logits, 0), -1), partition

    rows = hidden.shape[0]
    size = min(ROWS_PER_BLOCK, rows)
    shaped = jax.tree.map(lambda x: x.reshape(rows // size, size, *x.shape[1:]), (hidden, targets))
    return jax.tree.map(lambda x: x.reshape(rows, -1), jax.lax.map(block, shaped))


def _mean(values, weights):
    return jnp.sum(values * weights) / jnp.maximum(jnp.sum(weights), 1.0)


def training_loss(params, rows, turn_weight, mtp_weight, *, shape: ModelShape, ids: TokenIds,
                  dtype, remat):
    """Return the loss of rows [B, T + 2] and (next-token nats, MTP nats)."""
    segments = segments_of(rows, ids)
    weights = assistant_tokens(rows, segments, ids, turn_weight)
    inputs, inside = rows[:, :-2], segments[:, :-2]
    hidden = forward(params, inputs, inside, shape, dtype=dtype, remat=remat)
    losses, partition = token_losses(params, hidden, rows[:, 1:-1])
    same = (segments[:, 1:-1] == inside).astype(jnp.float32)
    main = _mean(losses, weights[:, 1:-1] * same)
    ahead = mtp_forward(params, hidden, rows[:, 1:-1], inside, shape)
    mtp_losses, _ = token_losses(params, ahead, rows[:, 2:])
    mtp = _mean(mtp_losses, weights[:, 2:] * (segments[:, 2:] == inside))
    return main + Z_WEIGHT * jnp.mean(partition**2) + mtp_weight * mtp, (main, mtp)
