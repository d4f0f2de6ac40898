"""Judges a drafter on held-out rows and fits the temperature of its lattice."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from tools.train.drafter_data import GeneratedRows
from tools.train.drafter_loop import DrafterPlan, read_rows
from tools.train.drafter_loss import accepted_tokens, sample_anchors, true_path_scores
from tools.train.drafter_model import (
    block_hidden,
    candidates,
    context_of,
    lattice_scores,
    walk,
)

TEMPERATURES = np.geomspace(0.25, 4.0, 161)
ROWS = 4  # rows judged at one time


@partial(jax.jit, static_argnames=("plan", "anchors"))
def _judge_rows(params, target, tokens, written, index, key, *, plan: DrafterPlan, anchors: int):
    """Return sums by slot (valid, right at once, right among k), acceptance, true-path scores."""
    s = plan.shape
    (embed, head, taps), batch = read_rows(plan, target, tokens, written, index)
    tokens, segments, _ = batch
    at, targets, valid = sample_anchors(key, *batch, anchors=anchors, slots=s.slots)
    anchor = jnp.take_along_axis(tokens, at, 1)
    ctx = context_of(params, s, taps)
    hidden = block_hidden(params, s, embed, ctx, segments[:, :-1], anchor, at)[:, :, 1:]
    cand, unary = candidates(params, s, head, hidden)
    hit = cand == targets[..., None]
    chosen = walk(lattice_scores(params, s, hidden, anchor, cand, unary))
    walked = jnp.take_along_axis(cand, chosen[..., None], -1)[..., 0]
    previous = jnp.concatenate([anchor[..., None], targets[..., :-1]], -1)
    scores = true_path_scores(params, hidden, previous, cand, unary)
    among = jnp.any(hit, -1) & valid
    # A path stays in the lattice up to its first true token that is no candidate.
    reached = jnp.cumprod(among, -1).astype(bool)
    counts = jnp.stack([jnp.sum(x, (0, 1)) for x in (valid, valid & hit[..., 0], among)])
    accepted = jnp.stack([accepted_tokens(walked == targets, valid),
                          accepted_tokens(hit[..., 0], valid)])
    anchors_used = jnp.sum(valid[..., 0])
    return counts, accepted * anchors_used, anchors_used, scores, jnp.argmax(hit, -1), reached


@jax.jit
def _nats(scores, label, temperature):
    logits = scores / temperature
    right = jnp.take_along_axis(logits, label[..., None], -1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, -1) - right)


def fit_temperature(scores: np.ndarray, label: np.ndarray) -> tuple[float, list[float]]:
    """Return the T that minimises the nats of `label` [M] under softmax(scores [M k] / T).

    The second result is [nats at 1, nats at T]. The grid's step is 1.7 %.
    """
    nats = [float(_nats(scores, label, jnp.float32(t))) for t in TEMPERATURES]
    best = int(np.argmin(nats))
    return float(TEMPERATURES[best]), [nats[int(np.argmin(np.abs(TEMPERATURES - 1)))], nats[best]]


def judge(params: dict, plan: DrafterPlan, target: dict, data: GeneratedRows, *,
          anchors: int = 128, limit: int = 512) -> dict:
    """Return held-out figures and the fitted "temperature" (at most `limit` rows are read).

    Acceptance here is a mean over anchors drawn evenly; a served round starts behind a miss and
    accepts less.
    """
    first, last = data.training, min(len(data.tokens), data.training + limit)
    sums, scores, labels = None, [], []
    for start in range(first, last, ROWS):
        index = np.minimum(np.arange(start, start + ROWS), last - 1).astype(np.int32)
        *part, score, label, reached = jax.device_get(_judge_rows(
            params, target, data.tokens, data.written, index, jax.random.key(start),
            plan=plan, anchors=anchors))
        sums = part if sums is None else [a + b for a, b in zip(sums, part, strict=True)]
        scores.append(score[reached])
        labels.append(label[reached])
    (valid, right, among), accepted, used = sums
    temperature, nats = fit_temperature(np.concatenate(scores), np.concatenate(labels))
    walked, plain = (accepted / max(1, used)).tolist()

    def by_slot(counts):
        return [round(float(x), 4) for x in counts / np.maximum(valid, 1)]

    return {"anchors": int(used), "accepted": round(walked, 4), "accepted_plain": round(plain, 4),
            "recall_at_1": by_slot(right), f"recall_at_{plan.shape.top_k}": by_slot(among),
            "temperature": temperature, "lattice_nats": [round(x, 4) for x in nats],
            "lattice_slots": sum(map(len, labels))}
