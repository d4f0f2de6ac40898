"""The training loop: a schedule by the clock, checkpoints every minute, progress lines."""

import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tools.train.batches import CHAT_MIX, PRETRAINING_MIX, Streams, TokenIds, draw_rows
from tools.train.fake_quant import fake_quant_params
from tools.train.loss import training_loss
from tools.train.model import init_params
from tools.train.optimizer import make_optimizer
from tools.train.shapes import ModelShape
from tools.train.sources import GROUPS

WARM_UP_STEPS = 100
# Shares of the time given, from which on: the rate falls and rows are long, rows are longest,
# chats are half of the mix, MTP counts less, weights are rounded to four bits in the forward.
DECAY_FROM, LAST_FROM, CHAT_FROM, MTP_FROM, FOUR_BIT_FROM = 0.75, 0.92, 0.85, 0.7, 0.93
SAVE_EVERY_S, SAY_EVERY_S = 60.0, 5.0


@dataclass(frozen=True)
class Plan:
    """What one training run does."""

    shape: ModelShape
    ids: TokenIds
    rows: int  # rows a step before the decay
    length: int  # tokens a row before the decay
    long_length: int  # tokens a row in the decay; rows shrink in proportion
    last_length: int  # tokens a row at the very end, likewise
    nvfp4: bool  # end with weights rounded to NVFP4 in the forward, as they will be shipped
    seconds: float  # wall-clock time, compilation excluded
    peak: float  # learning rate of the flat part
    optimizer: str  # "muon" | "adamw"
    dtype: jnp.dtype  # compute dtype
    remat: bool
    seed: int
    bytes_per_token: float  # for bits-per-byte in progress lines

    def shape_at(self, share: float) -> tuple[int, int]:
        """(rows, tokens a row) of a step at this share of the clock; tokens a step are constant."""
        long = self.last_length if share >= LAST_FROM else self.long_length
        length = long if share >= DECAY_FROM else self.length
        return self.rows * self.length // length, length


def schedule(share: float, step: int, peak: float) -> float:
    """Warm-up by steps, flat, then linear to zero over the last part of the clock (WSD)."""
    decay = min(1.0, max(0.0, (1.0 - share) / (1.0 - DECAY_FROM)))
    return peak * min(1.0, (step + 1) / WARM_UP_STEPS) * decay


def make_step(plan: Plan, rows: int, length: int):
    """Return the jitted step(params, state, tokens, starts, lengths, key, knobs)."""
    optimizer = make_optimizer(plan.optimizer)

    def loss(params, batch, knobs):
        if plan.nvfp4:
            params = fake_quant_params(params, knobs["four_bit"])
        return training_loss(params, batch, knobs["turn_weight"], knobs["mtp_weight"],
                             shape=plan.shape, ids=plan.ids, dtype=plan.dtype, remat=plan.remat)

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(params, state, tokens, starts, lengths, key, knobs):
        batch = draw_rows(tokens, starts, lengths, knobs["mix"], key, rows=rows, length=length)
        gradients, parts = jax.grad(loss, has_aux=True)(params, batch, knobs)
        updates, state = optimizer.update(gradients, state, params)
        updates = jax.tree.map(lambda u: -knobs["rate"] * u, updates)
        norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradients)))
        return optax.apply_updates(params, updates), state, jnp.stack([*parts, norm])

    return step


def knobs_at(share: float, step: int, peak: float) -> dict:
    """Return the step's settings: rate, group mix, weight of user turns, weight of MTP."""
    mix = CHAT_MIX if share >= CHAT_FROM else PRETRAINING_MIX
    return {"rate": np.float32(schedule(share, step, peak)),
            "mix": np.array([mix[group] for group in GROUPS], np.float32),
            "turn_weight": np.float32(0.0 if share >= CHAT_FROM else 1.0),
            "four_bit": np.float32(share >= FOUR_BIT_FROM),
            "mtp_weight": np.float32(0.1 if share >= MTP_FROM else 0.3)}


def save_state(path: Path, content: dict) -> None:
    """Write parameters, optimizer state and counters; the old file stays until the new is whole."""
    scratch = path.with_suffix(".part")
    with scratch.open("wb") as file:
        pickle.dump(jax.tree.map(np.asarray, content), file, protocol=5)
    scratch.replace(path)


def load_state(path: Path) -> dict:
    """Read what `save_state` wrote (our own file: never load one from elsewhere)."""
    with path.open("rb") as file:
        return pickle.load(file)


def _compile(plan: Plan, arguments: tuple, say) -> dict:
    """Compile the step for each shape of the schedule, side by side; (rows, length) -> step."""
    shapes = list(dict.fromkeys(plan.shape_at(share) for share in (0.0, DECAY_FROM, LAST_FROM)))
    started = time.monotonic()
    with ThreadPoolExecutor() as pool:  # XLA compiles outside Python's lock
        lowered = [make_step(plan, *pair).lower(*arguments) for pair in shapes]
        compiled = list(pool.map(lambda step: step.compile(), lowered))
    for shape, step in zip(shapes, compiled, strict=True):
        analysis = step.memory_analysis()
        size = f"{analysis.temp_size_in_bytes / 2**30:.1f} GiB" if analysis else "unknown"
        say(f"compiled {shape}, scratch memory {size}")
    say(f"compiled in {time.monotonic() - started:.1f} s")
    return dict(zip(shapes, compiled, strict=True))


class _Progress:
    """Reads figures two steps late, so that the device stays busy and the clock stays honest."""

    def __init__(self, plan: Plan, say):
        self.plan, self.say = plan, say
        self.pending, self.losses = [], []
        self.begun = self.said = time.monotonic()

    def seconds(self) -> float:
        """Seconds since the first step."""
        return time.monotonic() - self.begun

    def note(self, share: float, step: int, new_tokens: int, figures: jax.Array) -> None:
        """Queue the figures of a step; print an older step's when it is time."""
        self.pending.append(figures)
        if len(self.pending) <= 2:
            return
        loss, mtp, norm = np.asarray(self.pending.pop(0)).tolist()
        self.losses.append(loss)
        if time.monotonic() - self.said > SAY_EVERY_S or step in (10, 50):
            self.said = time.monotonic()
            rate = new_tokens / self.seconds()
            bits = loss / np.log(2) / self.plan.bytes_per_token
            self.say(f"{share:6.1%} step {step} loss {loss:.3f} ({bits:.3f} bits/byte) mtp "
                     f"{mtp:.3f} norm {norm:.2f} {rate / 1e3:.0f}k tokens/s")


def train(plan: Plan, streams: Streams, state_path: Path, *, resume: bool = False,
          max_steps: int | None = None, say=print) -> tuple[dict, dict]:
    """Train for plan.seconds (or max_steps) and return parameters and figures of the run."""
    params = init_params(jax.random.key(plan.seed), plan.shape)
    content = {"params": params, "state": make_optimizer(plan.optimizer).init(params),
               "step": 0, "tokens": 0}
    if resume:
        content = load_state(state_path)
    params, state = jax.tree.map(jnp.asarray, (content["params"], content["state"]))
    step = int(content["step"])
    old_tokens = tokens = int(content["tokens"])
    data = (streams.tokens, streams.starts.astype(np.int32), streams.lengths.astype(np.int32))
    key = jax.random.key(plan.seed + 1)
    compiled = _compile(plan, (params, state, *data, key, knobs_at(0.0, 0, plan.peak)), say)
    progress, share, saved = _Progress(plan, say), 0.0, 0.0
    while share < 1.0 and (max_steps is None or step < max_steps):
        now = progress.seconds()
        share = now / plan.seconds if max_steps is None else step / max_steps
        knobs = knobs_at(min(share, 1.0), step, plan.peak)
        run = compiled[plan.shape_at(min(share, 1.0))]
        params, state, figures = run(params, state, *data, jax.random.fold_in(key, step), knobs)
        step, tokens = step + 1, tokens + plan.rows * plan.length
        progress.note(share, step, tokens - old_tokens, figures)
        if now - saved > SAVE_EVERY_S:
            saved = now
            save_state(state_path, {"params": params, "state": state, "step": step,
                                    "tokens": tokens})
    jax.block_until_ready(params)
    seconds = progress.seconds()
    save_state(state_path, {"params": params, "state": state, "step": step, "tokens": tokens})
    return params, {"steps": step, "tokens": tokens, "seconds": round(seconds, 1),
                    "tokens_per_second": round((tokens - old_tokens) / seconds),
                    "losses": progress.losses}
