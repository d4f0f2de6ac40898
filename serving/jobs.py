"""One request on its way through the engine, and the bridge its results cross."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tandem_jax.sampling.params import SamplingParams


@dataclass(frozen=True, slots=True)
class PromptTask:
    """One prompt of a request."""

    prompt_ids: tuple[int, ...]  # [T] at least one id
    params: SamplingParams  # with max_tokens set


@dataclass(frozen=True, slots=True)
class Round:
    """One round of one prompt."""

    index: int  # which of the request's prompts
    event: Any  # tandem_jax.RoundEvent


@dataclass(frozen=True, slots=True)
class Finished:
    """Every prompt has its finish reason; nothing follows."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The engine raised; nothing follows."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The client has left; nothing follows."""


Item = Round | Finished | Failed | Cancelled


class Job:
    """A request's prompts, and the way back for their rounds.

    The engine thread never waits for a client: it leaves items in a list, which the request's own
    limit of tokens bounds (each round holds at least one), and the event loop takes all at once.
    """

    def __init__(self, tasks: Sequence[PromptTask], loop: asyncio.AbstractEventLoop):
        self.tasks = tuple(tasks)
        self._loop = loop
        self._lock = threading.Lock()
        self._items: list[Item] = []
        self._arrived = asyncio.Event()
        self._cancelled = threading.Event()

    @property
    def is_cancelled(self) -> bool:
        """Whether the rest of the work is wanted by nobody."""
        return self._cancelled.is_set()

    def emit(self, item: Item) -> None:
        """Hand one item to the event loop; called in the engine thread."""
        with self._lock:
            self._items.append(item)
        try:
            self._loop.call_soon_threadsafe(self._arrived.set)
        except RuntimeError:  # the loop has been closed, and the client's connection with it
            self._cancelled.set()

    def cancel(self) -> None:
        """Tell the engine to stop, and whoever waits in `take` that nothing more comes."""
        if not self.is_cancelled:
            self._cancelled.set()
            self.emit(Cancelled())

    async def take(self, timeout_s: float | None = None) -> list[Item]:
        """All items since the last call, in order; empty if none came within `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    await self._arrived.wait()
                    self._arrived.clear()
                    with self._lock:
                        taken, self._items = self._items, []
                    if taken:
                        return taken
        except TimeoutError:
            return []
