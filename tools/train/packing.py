"""Rows that never idle: each feeds a prompt, writes an answer, and takes the next prompt.

One `lax.scan` step a token for all rows. A row feeds its prompt, then its own picks until a stop
token, the prompt's limit or a loop, then <|endoftext|>; there its document ends and its state is
reset.
Letters: R rows, T tokens of a row, M prompts.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tools.train.decode import State, decode_step, empty_state, grown
from tools.train.repeats import LONGEST_PERIOD, allowed_repeats
from tools.train.shapes import ModelShape

TEMPERATURE = 0.7
SAMPLED_SHARE = 0.15  # of the rows; prompts come to rows in random order
STAGES = 4  # a row is written in so many parts, each with a larger cache
SHORTEST_LIMIT, LONGEST_LIMIT = 128, 384  # new tokens of a prompt
PATIENCE = 8  # tokens of a loop after which an answer is closed


@dataclass(frozen=True)
class Plan:
    """What one batch of rows does; static for the compiler."""

    shape: ModelShape
    rows: int
    length: int  # tokens of a row that are fed
    stops: tuple[int, ...]  # picks after which the answer is closed
    end: int  # <|endoftext|>
    dtype: jnp.dtype

    @property
    def sampled(self) -> int:
        """Rows, the first ones, that sample at TEMPERATURE; the others are greedy."""
        return round(SAMPLED_SHARE * self.rows)

    def stages(self) -> list[tuple[int, int]]:
        """Return (first place, end) of each part of a row."""
        bounds = [round(self.length * at / STAGES) for at in range(STAGES + 1)]
        return [pair for pair in pairwise(bounds) if pair[1] > pair[0]]


class Prompts(NamedTuple):
    """All prompts, on the device, in the order in which they are taken."""

    tokens: jax.Array  # [N] uint16, one after the other
    first: jax.Array  # [M] int32, place of a prompt's first token
    size: jax.Array  # [M] int32, tokens of a prompt
    limit: jax.Array  # [M] int32, new tokens to write at most


class Carry(NamedTuple):
    """Where every row stands."""

    state: State
    token: jax.Array  # [R] int32, to feed next
    begin: jax.Array  # [R] bool, it is the first of its document
    number: jax.Array  # [R] int32, prompt of the row
    fed: jax.Array  # [R] int32, prompt tokens taken
    new: jax.Array  # [R] int32, tokens written in this document
    recent: jax.Array  # [R 32] int32, tokens of the document before `token`, newest first, or -1
    repeats: jax.Array  # [R 32] int32, last tokens that equal those 1, 2, ... 32 before them
    taken: jax.Array  # [] int32, prompts taken by all rows


def load_prompts(path: Path, seed: int) -> tuple[Prompts, np.ndarray, list[str]]:
    """Return (prompts shuffled by seed, family [M] of each, names of the families)."""
    file, rng = np.load(path), np.random.default_rng(seed)
    starts = file["starts"].astype(np.int32)
    order = rng.permutation(len(starts) - 1)
    limit = rng.integers(SHORTEST_LIMIT, LONGEST_LIMIT + 1, len(order))
    arrays = (file["tokens"], starts[:-1][order], np.diff(starts)[order], limit.astype(np.int32))
    return Prompts(*map(jnp.asarray, arrays)), file["family"][order], file["family_names"].tolist()


def first_carry(plan: Plan, prompts: Prompts, taken) -> Carry:
    """Return rows that stand before the first token of the next R prompts."""
    rows, zero = plan.rows, jnp.zeros(plan.rows, jnp.int32)
    number = (taken + jnp.arange(rows, dtype=jnp.int32)) % len(prompts.first)
    state = empty_state(plan.shape, rows, plan.stages()[0][1], plan.dtype)
    token = prompts.tokens[prompts.first[number]].astype(jnp.int32)
    no_repeats = jnp.zeros((rows, LONGEST_PERIOD), jnp.int32)
    return Carry(state, token, jnp.ones(rows, bool), number, zero + 1, zero, no_repeats - 1,
                 no_repeats, jnp.asarray(taken + rows, jnp.int32))


def _pick(logits, key, sampled: int):
    """Return [R] picks: greedy, but drawn at TEMPERATURE in the first `sampled` rows."""
    best = jnp.argmax(logits, -1).astype(jnp.int32)
    if not sampled:
        return best
    drawn = jax.random.categorical(key, logits[:sampled] / TEMPERATURE)
    return best.at[:sampled].set(drawn.astype(jnp.int32))


def _advance(carry: Carry, pick, prompts: Prompts, plan: Plan):
    """Return (carry with the next tokens, written [R]) after picks [R] behind the fed tokens."""
    ended = carry.token == plan.end
    asks = ~ended & (carry.fed < prompts.size[carry.number])
    answers = ~ended & ~asks
    stopped = jnp.isin(carry.token, jnp.asarray(plan.stops)) & (carry.new > 0)
    loops = jnp.any(carry.repeats >= jnp.asarray(allowed_repeats()) + PATIENCE, 1)
    closes = answers & (stopped | loops | (carry.new >= prompts.limit[carry.number]))
    written = answers & ~closes
    number = (carry.taken + jnp.cumsum(ended) - 1) % len(prompts.first)
    number = jnp.where(ended, number, carry.number).astype(jnp.int32)
    fed = jnp.where(ended, 0, carry.fed)
    # A prompt that holds <|endoftext|> never comes: prompts are parts of one document.
    given = prompts.tokens[jnp.minimum(prompts.first[number] + fed, len(prompts.tokens) - 1)]
    token = jnp.where(written, pick, jnp.where(closes, plan.end, given.astype(jnp.int32)))
    recent = jnp.concatenate([carry.token[:, None], carry.recent[:, :-1]], 1)
    recent = jnp.where(ended[:, None], -1, recent)
    repeats = jnp.where(recent == token[:, None], carry.repeats + 1, 0)
    return Carry(carry.state, token, ended, number, fed + (ended | asks),
                 jnp.where(ended, 0, carry.new + written), recent, repeats,
                 carry.taken + jnp.sum(ended, dtype=jnp.int32)), written


def _stage(weights, carry: Carry, prompts: Prompts, key, *, plan: Plan, first: int, last: int):
    """Feed the tokens at places first..last; return (carry, (next token, written, prompt))."""
    def step(carry, at):
        logits, state = decode_step(weights, carry.state, carry.token, carry.begin, at, plan.shape)
        pick = _pick(logits, jax.random.fold_in(key, at), plan.sampled)
        carry, written = _advance(carry._replace(state=state), pick, prompts, plan)
        return carry, (carry.token.astype(jnp.uint16), written, carry.number)

    return jax.lax.scan(step, carry, jnp.arange(first, last, dtype=jnp.int32))


class Writer:
    """Compiled stages; writes one batch of rows at a time."""

    def __init__(self, plan: Plan, weights: dict, prompts: Prompts) -> None:
        self.plan, self.weights, self.prompts = plan, weights, prompts
        self.begin = jax.jit(partial(first_carry, plan))
        self.grow = jax.jit(grown, static_argnums=1)
        key = jax.random.key(0)
        carry = jax.eval_shape(self.begin, prompts, jnp.int32(0))
        lowered = []
        for first, last in plan.stages():
            carry = jax.eval_shape(partial(self._grown, places=last), carry)
            stage = jax.jit(partial(_stage, plan=plan, first=first, last=last), donate_argnums=1)
            lowered.append(stage.lower(weights, carry, prompts, key))
            carry = jax.eval_shape(stage, weights, carry, prompts, key)[0]
        with ThreadPoolExecutor() as pool:  # XLA compiles outside Python's lock
            self.stages = list(pool.map(lambda stage: stage.compile(), lowered))

    def _grown(self, carry: Carry, places: int) -> Carry:
        return carry._replace(state=self.grow(carry.state, places))

    def scratch_bytes(self) -> int:
        """Return the largest memory of a stage: arguments and scratch."""
        found = [stage.memory_analysis() for stage in self.stages]
        return max(x.argument_size_in_bytes + x.temp_size_in_bytes for x in found)

    def batch(self, taken: int, key) -> tuple:
        """Start one batch; return device arrays (tokens, written, prompt) [T+1 R], prompts taken.
        """
        carry = self.begin(self.prompts, jnp.int32(taken))
        parts = [(carry.token[None].astype(jnp.uint16), jnp.zeros((1, self.plan.rows), bool),
                  carry.number[None])]
        for stage, (_, last) in zip(self.stages, self.plan.stages(), strict=True):
            carry, part = stage(self.weights, self._grown(carry, last), self.prompts, key)
            parts.append(part)
        return (*(jnp.concatenate(part) for part in zip(*parts, strict=True)), carry.taken)
