"""Runs the target for the gates: greedy answers, bits per byte, logit gaps, KL. Needs jax."""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from tools.measure.common import Target, padded, read_lines
from tools.train.batches import PRETRAINING_MIX
from tools.train.evaluate import held_out
from tools.train.generate import STOPS, greedy_references
from tools.train.model import forward, logits_of
from tools.train.run import token_ids
from tools.train.shapes import ModelShape
from tools.train.sources import SOURCES
from tools.train.tokenizer import load_tokenizer

CHATS = ("chat", "tools", "json", "edit", "copy")
TEXTS = ("prose", "code")
QUOTES = "workloads/quote_verbatim"
NEW_TOKENS = 320  # of an answer; the longest right one has 260
GAP_EDGES = (0.0, *(2.0**power for power in range(-9, 4)))
ROWS = 2  # rows whose logits exist at one time
EXACT = ("prose", "code", "chat")  # the exactness set


def read_sets(sets: Path, limit: int | None = None) -> dict[str, list[dict]]:
    """Return the items of every set that the gates use, the references as "reference"."""
    found = {name: read_lines(sets / f"{name}.jsonl", limit) for name in (*TEXTS, *CHATS)}
    quotes = read_lines(sets / f"{QUOTES}.jsonl", limit)
    return {**found, QUOTES: [{**row, "reference": row["real"]} for row in quotes]}


def answers(target: Target, items: dict[str, list[dict]]) -> dict[str, list[list[int]]]:
    """Return the greedy answers of every item, up to and with a stop token, as one batch."""
    tokenizer = load_tokenizer(target.folder / "tokenizer.json")
    stops = tuple(tokenizer.token_to_id(text) for text in STOPS)
    found = iter(greedy_references(target.params, [row["ids"] for rows in items.values()
                                                   for row in rows], NEW_TOKENS,
                                   shape=target.shape, stops=stops))
    return {name: [next(found) for _ in rows] for name, rows in items.items()}


def group_of(source: str) -> str:
    """Return the training group of a held-out source."""
    known = {row.name: row.group for row in SOURCES}
    return known.get(source, "synthetic")


def bits_per_byte(target: Target, data: Path, dtype, *, limit: int, length: int = 1024,
                  rows: int = 32) -> dict:
    """Return {"sources", "groups", "mix"}: held-out bits per byte; `data` holds shards/.

    A group's figure is the mean of its sources by tokens; the mix weighs groups as pretraining
    does (PRETRAINING_MIX).
    """
    ids = token_ids(load_tokenizer(target.folder / "tokenizer.json"))
    table = held_out(target.params, data / "shards", shape=target.shape, ids=ids, dtype=dtype,
                     limit=limit, length=length, rows=rows)
    groups = {}
    for group in PRETRAINING_MIX:
        own = [row for source, row in table.items() if group_of(source) == group]
        if own:
            groups[group] = float(np.average([row["bits_per_byte"] for row in own],
                                             weights=[row["tokens"] for row in own]))
    mix = np.average(list(groups.values()), weights=[PRETRAINING_MIX[group] for group in groups])
    return {"sources": {source: row["bits_per_byte"] for source, row in table.items()},
            "groups": {group: round(value, 4) for group, value in groups.items()},
            "mix": round(float(mix), 4)}


@partial(jax.jit, static_argnames=("shape",))
def _compare(params, other, tokens, *, shape: ModelShape):
    """Return (gap of the two best logits, nats of KL(params || other)), [B T] float32."""
    def logits(tree):
        hidden = forward(tree, tokens, jnp.zeros_like(tokens), shape, dtype=jnp.float32,
                         remat=False)
        return logits_of(tree, hidden)

    own = logits(params)
    best = jax.lax.top_k(own.reshape(-1, own.shape[-1]), 2)[0].reshape(*own.shape[:-1], 2)
    if other is None:
        return best[..., 0] - best[..., 1], jnp.zeros(own.shape[:-1])
    p, q = jax.nn.log_softmax(own), jax.nn.log_softmax(logits(other))
    return best[..., 0] - best[..., 1], jnp.sum(jnp.exp(p) * (p - q), -1)


def gaps_and_divergence(target: Target, other: Target | None, items: dict, found: dict) -> dict:
    """Return {"gaps", "kl"?} over the target's own answers to the exactness set, in float32."""
    rows = [(row["ids"], answer) for name in EXACT
            for row, answer in zip(items[name], found[name], strict=True) if answer]
    tokens = padded([prompt + answer for prompt, answer in rows], 64)
    gaps, nats = [], []
    with jax.default_matmul_precision("highest"):
        for start in range(0, len(rows), ROWS):
            index = np.minimum(np.arange(start, start + ROWS), len(rows) - 1)
            part = jax.device_get(_compare(target.params, None if other is None else other.params,
                                           jnp.asarray(tokens[index]), shape=target.shape))
            for at, (prompt, answer) in enumerate(rows[start:start + ROWS]):
                inside = slice(len(prompt) - 1, len(prompt) + len(answer) - 1)
                gaps.append(part[0][at, inside])
                nats.append(part[1][at, inside])
    gaps, nats = np.concatenate(gaps), np.concatenate(nats)
    counts = np.histogram(gaps, [*GAP_EDGES, np.inf])[0]
    out = {"gaps": {"edges": list(GAP_EDGES), "counts": counts.tolist(),
                    "smallest": float(gaps.min()), "positions": len(gaps)}}
    if other is not None:
        out["kl"] = {"mean_nats": round(float(nats.mean()), 6),
                     "largest_nats": round(float(nats.max()), 6), "other": other.folder.name}
    return out
