"""Compiled steps by bucket: built before use, counted, kept between runs of the program."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from tandem_jax.config import EngineConfig
from tandem_jax.engine.steps import StepOptions, compiled, prefill_step, round_step
from tandem_jax.env import cache_dir
from tandem_jax.models.config import HybridConfig
from tandem_jax.ops.plan import Plan
from tandem_jax.tree.rows import line_size

Key = tuple[str, int, int]  # ("round", requests, tree rows) or ("prefill", 1, tokens)


def keep_executables() -> None:
    """Let JAX keep compiled modules on disk, unless the program chose a place already."""
    if jax.config.jax_compilation_cache_dir is None:
        jax.config.update("jax_compilation_cache_dir", str(cache_dir()))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)


@dataclass(frozen=True)
class Shapes:
    """What the steps of one engine are specialised to."""

    model: HybridConfig
    engine: EngineConfig
    plan: Plan
    options: StepOptions

    def packed_size(self, key: Key) -> tuple[int, ...]:
        """Shape of the packed int32 argument of a step."""
        kind, requests, size = key
        pages = self.engine.pages_per_slot
        if kind == "round":
            return requests, line_size(size, pages)
        return (4 + size + pages,)


class Executables:
    """The compiled steps of one engine; a missing one is compiled on first use and counted."""

    def __init__(self, shapes: Shapes, weights, state):
        self.shapes = shapes
        self.built: dict[Key, Callable] = {}  # every executable there is, by bucket
        self.seconds: dict[Key, float] = {}  # what building each took
        self._abstract = jax.tree.map(
            lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), (weights, state)
        )

    def get(self, key: Key) -> Callable:
        """The executable of a bucket: call it with (weights, state, packed)."""
        if key not in self.built:
            self.built[key] = self._compile(key)
        return self.built[key]

    def build(self, keys: list[Key], progress: Callable[[str, int, int], None] | None) -> None:
        """Compile all of `keys`, two at a time; progress("compile", done, total)."""
        missing = [key for key in keys if key not in self.built]
        with ThreadPoolExecutor(max_workers=2) as pool:
            for done, (key, step) in enumerate(
                zip(missing, pool.map(self._compile, missing), strict=True), start=1
            ):
                self.built[key] = step
                if progress is not None:
                    progress("compile", done, len(missing))

    def _compile(self, key: Key) -> Callable:
        started = time.perf_counter()
        kind, _, size = key
        step = round_step if kind == "round" else prefill_step
        shapes = self.shapes
        jitted = compiled(step, shapes.model, shapes.plan, size, shapes.options)
        packed = jax.ShapeDtypeStruct(shapes.packed_size(key), jnp.int32)
        executable = jitted.lower(*self._abstract, packed).compile()
        self.seconds[key] = time.perf_counter() - started
        return executable


def pack_chunk(
    slot: int, start: int, tokens: np.ndarray, upcoming: int, size: int, pages: np.ndarray
) -> np.ndarray:
    """The packed argument of `prefill_step`; `upcoming` is -1 behind the last chunk."""
    packed = np.zeros(4 + size + len(pages), np.int32)
    packed[:4] = slot, start, len(tokens), upcoming
    packed[4 : 4 + len(tokens)] = tokens
    packed[4 + size :] = pages
    return packed
