"""Draws training rows on the device from token streams that lie whole in its memory."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from tools.train.shards import read_stream
from tools.train.sources import GROUPS

PRETRAINING_MIX = {"docs": 0.24, "prose": 0.20, "python": 0.20, "systems": 0.07, "chat": 0.03,
                   "synthetic": 0.26}
CHAT_MIX = {"docs": 0.16, "prose": 0.14, "python": 0.13, "systems": 0.04, "chat": 0.03,
            "synthetic": 0.50}


@dataclass(frozen=True)
class TokenIds:
    """Ids the masks need."""

    end_of_text: int
    turn_start: int  # <|im_start|>
    turn_end: int  # <|im_end|>
    assistant: int  # the single token "assistant"


@dataclass(frozen=True)
class Streams:
    """All training tokens of the groups, one after the other."""

    tokens: jax.Array  # [N] uint16
    starts: np.ndarray  # [6] int, first token of each group
    lengths: np.ndarray  # [6] int, tokens of each group


def load_streams(folder: Path) -> Streams:
    """Read every group's training shards below `folder` onto the default device."""
    parts = [read_stream(folder, f"{group}.train") for group in GROUPS]
    lengths = np.array([len(part) for part in parts])
    return Streams(jnp.asarray(np.concatenate(parts)), np.cumsum(lengths) - lengths, lengths)


@partial(jax.jit, static_argnames=("rows", "length"))
def draw_rows(tokens, starts, lengths, mix, key, *, rows: int, length: int):
    """Return rows [B, T + 2] int32, each from a group drawn by `mix`, at a uniform offset."""
    group_key, offset_key = jax.random.split(key)
    group = jax.random.choice(group_key, len(starts), (rows,), p=mix)
    room = (lengths[group] - length - 2).astype(jnp.float32)
    offset = (jax.random.uniform(offset_key, (rows,)) * room).astype(jnp.int32)
    index = (starts[group] + offset)[:, None] + jnp.arange(length + 2)
    return tokens[index].astype(jnp.int32)


def segments_of(tokens, ids: TokenIds):
    """Number the documents of rows [B T]; an end-of-text token still belongs to its document."""
    ended = (tokens == ids.end_of_text).astype(jnp.int32)
    return jnp.cumsum(ended, 1) - ended


def assistant_tokens(tokens, segments, ids: TokenIds, turn_weight):
    """Weigh tokens [B T]: 1 in plain text and in assistant turns, `turn_weight` in other turns.

    An assistant turn counts from after its role line to its <|im_end|>.
    """
    at = jnp.arange(tokens.shape[1])
    opened = jax.lax.cummax(jnp.where(tokens == ids.turn_start, at, -1), axis=1)
    closed = jax.lax.cummax(jnp.where(tokens == ids.turn_end, at, -1), axis=1)
    where = jnp.maximum(opened, 0)
    known = (opened >= 0) & (jnp.take_along_axis(segments, where, 1) == segments)
    role = jnp.take_along_axis(tokens, jnp.minimum(where + 1, tokens.shape[1] - 1), 1)
    # The <|im_end|> itself is the last token of its turn; the newline behind it is not.
    inside = (closed < opened) | (closed == at)
    answer = (role == ids.assistant) & (at > opened + 2) & inside
    return jnp.where(known & ~answer, turn_weight, 1.0)
