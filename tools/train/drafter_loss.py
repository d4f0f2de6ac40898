"""Losses of the DFlash2 drafter: the head's next tokens, and the selector's choice among k.

Letters as in drafter_model: B rows, T tokens, N anchors, L slots, D width, V vocabulary, k.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from tools.train.drafter_model import (
    block_hidden,
    context_of,
    head_logits,
    lattice_scores,
    pair_scores,
    top_ids,
    walk,
)
from tools.train.drafter_shapes import DrafterShape

ROWS_PER_CHUNK = 4  # rows whose logits exist at one time
SMOOTHING = 0.5  # a of D-PACE (arXiv 2605.18810): p' = (1 - a) p + a
FIGURE_SHARE = 4  # one anchor of so many is walked for the progress figures


@dataclass(frozen=True)
class Objective:
    """What the training step minimises."""

    anchors: int  # N, blocks of a row
    weights: str  # "dpace" | "exp": how slots count
    gamma: float  # decay of "exp" weights in slots


def sample_anchors(key, tokens, segments, written, *, anchors: int, slots: int):
    """Draw distinct anchors of each row, and what their blocks must predict.

    tokens, segments, written [B T+1]. An anchor's next token was written by the target and lies in
    the anchor's document. Returns at [B N], targets [B N L] and valid [B N L] (false from the
    document's end, the row's end or a given token on; all false where a row has too few anchors).
    """
    length = tokens.shape[1] - 1
    fits = written[:, 1:] & (segments[:, 1:] == segments[:, :-1])
    noise = jnp.where(fits, jax.random.uniform(key, fits.shape), -1.0)
    at = jax.lax.top_k(noise, anchors)[1]
    index = at[..., None] + 1 + jnp.arange(slots)
    flat = jnp.minimum(index, length).reshape(len(at), -1)
    own = jnp.take_along_axis(segments, at, 1)[..., None]

    def pick(values):
        return jnp.take_along_axis(values, flat, 1).reshape(index.shape)

    good = pick(written) & (pick(segments) == own) & (index <= length)
    return at, pick(tokens), jnp.cumprod(good, -1).astype(bool)


def slot_weights(objective: Objective, probability, valid):
    """Return detached weights [... L] of slots, 0 where not valid.

    "exp": exp(-(l - 1) / gamma). "dpace": the sum of prefix products of the smoothed probability
    [... L] of the true token from slot l on, the gradient of the smoothed accepted length.
    """
    if objective.weights == "exp":
        weights = jnp.exp(-jnp.arange(valid.shape[-1]) / objective.gamma)
    else:
        smooth = ((1 - SMOOTHING) * probability + SMOOTHING) * valid
        prefix = jnp.cumprod(smooth, -1)
        weights = jnp.cumsum(prefix[..., ::-1], -1)[..., ::-1]
    return jax.lax.stop_gradient(weights * valid)


def true_path_scores(p, hidden, previous, cand, unary):
    """Return selector scores [... L k] of candidates behind the true predecessors [... L]."""
    return unary + pair_scores(p, hidden, previous[..., None], cand)[..., 0, :]


def _slot_losses(p, s: DrafterShape, head, hidden, previous, targets):
    """Return head nats and selector nats [b N L] with candidates [b N L k] and their logits."""
    # The recomputation in the backward pass keeps the candidates, so it sorts nothing.
    policy = jax.checkpoint_policies.save_only_these_names("candidates")

    @partial(jax.checkpoint, policy=policy)
    def losses(selector, hidden, previous, targets):
        logits, wanted = head_logits(head, hidden), targets[..., None]
        cand = checkpoint_name(top_ids(jax.lax.stop_gradient(logits), s.top_k)[1], "candidates")
        # A comparison instead of a gather: its gradient melts into the softmax's.
        true = jnp.where(jnp.arange(logits.shape[-1]) == wanted, logits, 0)
        nats = jax.nn.logsumexp(logits, -1) - jnp.sum(true, -1)
        missing = ~jnp.any(cand == wanted, -1, keepdims=True)
        choice = jnp.where(missing & (jnp.arange(s.top_k) == s.top_k - 1), wanted, cand)
        # Pair scores of the whole vocabulary: the codebook's gradient is then one matrix product
        # and not a million rows added to the few most frequent tokens.
        r = jnp.matmul(hidden.astype(jnp.float32), selector["hidden"])
        pairs = jnp.einsum("...r,vr->...v", selector["predecessor"][previous] * r,
                           selector["successor"])
        scores = jnp.take_along_axis(logits + pairs, choice, -1)
        right = jnp.sum(jnp.where(choice == wanted, scores, 0), -1)
        unary = jax.lax.stop_gradient(jnp.take_along_axis(logits, cand, -1))
        return nats, jax.nn.logsumexp(scores, -1) - right, cand, unary

    return losses(p["selector"], hidden, previous, targets)


def slot_losses(p, s: DrafterShape, head, hidden, previous, targets):
    """Return what `_slot_losses` returns for slots [B N L D], a few rows at a time."""
    rows = len(hidden)
    size = next(size for size in range(min(ROWS_PER_CHUNK, rows), 0, -1) if rows % size == 0)
    shaped = jax.tree.map(lambda x: x.reshape(rows // size, size, *x.shape[1:]),
                          (hidden, previous, targets))
    out = jax.lax.map(lambda chunk: _slot_losses(p, s, head, *chunk), shaped)
    return jax.tree.map(lambda x: x.reshape(rows, *x.shape[2:]), out)


def accepted_tokens(match, valid):
    """Return the mean of accepted prefix + 1 over anchors that have a target; match [B N L]."""
    length = 1 + jnp.sum(jnp.cumprod(match & valid, -1), -1)
    real = valid[..., 0]
    return jnp.sum(length * real) / jnp.maximum(jnp.sum(real), 1)


def _figures(p, s: DrafterShape, hidden, anchor_token, cand, unary, targets, valid):
    """Return accepted tokens of the selector's walk and of the plain argmax, on some anchors."""
    some = max(1, cand.shape[1] // FIGURE_SHARE)
    hidden, anchor_token, cand, unary, targets, valid = jax.lax.stop_gradient(
        tuple(x[:, :some] for x in (hidden, anchor_token, cand, unary, targets, valid)))
    walked = walk(lattice_scores(p, s, hidden, anchor_token, cand, unary))
    walked = jnp.take_along_axis(cand, walked[..., None], -1)[..., 0]
    return (accepted_tokens(walked == targets, valid),
            accepted_tokens(cand[..., 0] == targets, valid))


def drafter_loss(p, s: DrafterShape, target, batch, key, selector_weight, *, objective: Objective):
    """Return the loss and [head nats, selector nats, accepted by walk, accepted by argmax].

    target = (embed [V D], head [V D], taps [n B T D]); batch = (tokens, segments, written), each
    [B T+1]; the nats are weighted means over slots, the accepted tokens count the bonus token.
    """
    embed, head, taps = target
    tokens, segments, written = batch
    at, targets, valid = sample_anchors(key, tokens, segments, written,
                                        anchors=objective.anchors, slots=s.slots)
    anchor_token = jnp.take_along_axis(tokens, at, 1)
    ctx = context_of(p, s, taps)
    hidden = block_hidden(p, s, embed, ctx, segments[:, :-1], anchor_token, at)[:, :, 1:]
    previous = jnp.concatenate([anchor_token[..., None], targets[..., :-1]], -1)
    nats, choice_nats, cand, unary = slot_losses(p, s, head, hidden, previous, targets)
    weights = slot_weights(objective, jnp.exp(-nats), valid)
    total = jnp.maximum(jnp.sum(weights), 1e-6)
    base, choice = jnp.sum(weights * nats) / total, jnp.sum(weights * choice_nats) / total
    walked, plain = _figures(p, s, hidden, anchor_token, cand, unary, targets, valid)
    return base + selector_weight * choice, jnp.stack([base, choice, walked, plain])
