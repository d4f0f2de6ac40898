"""Training by the clock on generated rows: shared by the drafters and the MTP refit.

A run lasts a number of seconds, compilation excluded, or a number of steps. Its state is saved
every minute; a resumed run goes on at the second at which the saved one stood.
"""

import math
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tools.train.loop import SAVE_EVERY_S, SAY_EVERY_S, WARM_UP_STEPS, save_state

CURVE_POINTS = 300
READ_BEHIND = 2  # figures are read this many steps late, so that the device stays busy


@dataclass(frozen=True)
class Clock:
    """How long a run lasts and how fast it learns."""

    seconds: float  # length of the run; with max_steps the steps are counted instead
    max_steps: int | None
    peak: float  # learning rate after the warm-up

    def share(self, seconds: float, step: int) -> float:
        """Return the part of the run that is over, 0 to 1."""
        done = seconds / self.seconds if self.max_steps is None else step / self.max_steps
        return min(1.0, done)

    def rate(self, share: float, step: int) -> float:
        """Warm-up by steps, then a cosine to zero by the clock."""
        warm = WARM_UP_STEPS if self.max_steps is None else min(WARM_UP_STEPS, self.max_steps // 10)
        return self.peak * min(1.0, (step + 1) / (warm + 1)) * (1 + math.cos(math.pi * share)) / 2


@dataclass(frozen=True)
class Job:
    """One kind of training step and what it needs.

    step(params, state, frozen, rows, key, knobs) -> (params, state, figures [len(names)]) is
    jitted and donates params and state.
    """

    step: Callable
    frozen: tuple  # arrays that stay on the device and do not change
    rows: Callable[[int], np.ndarray]  # step -> row numbers [B]
    knobs: Callable[[float, int, dict], dict]  # (share, step, latest figures) -> scalars
    names: tuple[str, ...]  # of the figures
    tokens_per_step: int
    seed: int


def new_content(params: dict, optimizer: optax.GradientTransformation, names) -> dict:
    """Return the saved state of a run that has not begun."""
    return {"params": params, "state": optimizer.init(params), "step": 0, "seconds": 0.0,
            "curve": np.zeros((0, 1 + len(names)), np.float32)}


def _compile(job: Job, arguments: tuple, say):
    started = time.monotonic()
    step = job.step.lower(*arguments).compile()
    analysis = step.memory_analysis()
    size = f"{analysis.temp_size_in_bytes / 2**30:.1f} GiB" if analysis else "unknown"
    say(f"compiled in {time.monotonic() - started:.1f} s, scratch memory {size}")
    return step


class _Figures:
    """Figures of past steps; the newest few are still on the device."""

    def __init__(self, job: Job, curve: np.ndarray, say):
        self.job, self.say = job, say
        self.curve, self.pending, self.latest = list(curve), [], {}
        self.said, self.begun, self.steps = time.monotonic(), time.monotonic(), 0

    def note(self, step: int, share: float, figures: jax.Array) -> None:
        """Queue a step's figures; read an older step's, and print them when it is time."""
        self.pending.append((step, figures))
        self.steps += 1
        if len(self.pending) <= READ_BEHIND:
            return
        self._read()
        if time.monotonic() - self.said > SAY_EVERY_S or self.steps in (10, 50):
            self.said = time.monotonic()
            rate = self.job.tokens_per_step * self.steps / (self.said - self.begun)
            text = " ".join(f"{name} {value:.3f}" for name, value in self.latest.items())
            self.say(f"{share:6.1%} step {step} {text} {rate / 1e3:.0f}k tokens/s")

    def _read(self) -> None:
        step, figures = self.pending.pop(0)
        values = np.asarray(figures, np.float32)
        self.latest = dict(zip(self.job.names, values.tolist(), strict=True))
        self.curve.append(np.concatenate([[step], values]))

    def drained(self) -> np.ndarray:
        """Read what is still pending; return [steps, 1 + figures]: step number, then figures."""
        while self.pending:
            self._read()
        return np.array(self.curve, np.float32).reshape(len(self.curve), 1 + len(self.job.names))


def train_by_clock(job: Job, content: dict, clock: Clock, state_path: Path, *, say=print) -> dict:
    """Train from `content` to the end of the clock; return the final content, arrays on device."""
    params, state = jax.tree.map(jnp.asarray, (content["params"], content["state"]))
    step, before = int(content["step"]), float(content["seconds"])
    key = jax.random.key(job.seed)
    run = _compile(job, (params, state, job.frozen, job.rows(0), key, job.knobs(0.0, 0, {})), say)
    figures = _Figures(job, content["curve"], say)
    begun = saved = time.monotonic()

    def now():
        return before + time.monotonic() - begun

    def as_content():
        return {"params": params, "state": state, "step": step, "seconds": now(),
                "curve": figures.drained()}

    while (share := clock.share(now(), step)) < 1.0:
        knobs = {**job.knobs(share, step, figures.latest),
                 "rate": np.float32(clock.rate(share, step))}
        params, state, found = run(params, state, job.frozen, job.rows(step),
                                   jax.random.fold_in(key, step), knobs)
        step += 1
        figures.note(step, share, found)
        if time.monotonic() - saved > SAVE_EVERY_S:
            saved = time.monotonic()
            save_state(state_path, as_content())
    jax.block_until_ready(params)
    save_state(state_path, as_content())
    return as_content()


def curves(job: Job, content: dict) -> dict[str, list[float]]:
    """Return about CURVE_POINTS averaged points of each figure by name, with their steps."""
    curve = np.asarray(content["curve"])
    parts = np.array_split(curve, min(len(curve), CURVE_POINTS)) if len(curve) else []
    means = np.array([part.mean(0) for part in parts]).reshape(len(parts), 1 + len(job.names))
    return {name: [round(float(value), 4) for value in means[:, at]]
            for at, name in enumerate(("step", *job.names))}


def norm_of(tree) -> jax.Array:
    """Return the Euclidean norm of all leaves together."""
    return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)))


def provenance() -> dict[str, str]:
    """Return the versions and the device that a run's figures depend on."""
    return {"python": platform.python_version(), "jax": jax.__version__,
            "numpy": np.__version__, "optax": optax.__version__,
            "device": jax.devices()[0].device_kind}
