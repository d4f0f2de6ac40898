"""The engine thread: it alone creates and calls the LLM, one request at a time, first come first.

Everything else of this room runs in the event loop or in helper threads and touches no device.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serving.errors import ApiError, not_ready
from serving.jobs import Failed, Finished, Job, PromptTask, Round
from tandem_jax.errors import RequestError, TandemError
from tandem_jax.text import Tokenizer

log = logging.getLogger("tandem.serving")

_IDLE_S = 1.0  # seconds without work after which missing buckets are compiled


class JobCancelledError(Exception):
    """Leaves the engine in the middle of a prefill that nobody waits for any more."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What the front may know of the model; nothing in it touches the device."""

    name: str
    tokenizer: Tokenizer
    encode_chat: Callable[..., list[int]]  # (messages, **template variables) -> ids
    max_context: int  # tokens of prompt and answer together
    vocab_size: int  # rows of the model's head
    drafter_name: str


class EngineWorker:
    """Owns the engine thread and the queue in front of it.

    `factory` builds the LLM inside the thread. Requests beyond `max_queue` waiting ones are
    refused with 429.
    """

    def __init__(self, factory: Callable[[], Any], *, max_queue: int = 64):
        self._factory = factory
        self._max_queue = max_queue
        self._waiting: deque[Job] = deque()
        self._running: Job | None = None
        self._changed = threading.Condition()
        self._is_closing = False
        self._loaded = threading.Event()
        self._load_error: Exception | None = None
        self._model: ModelInfo | None = None
        self._may_compile = True  # as far as is known, buckets are left to compile when idle
        self._thread = threading.Thread(target=self._main, name="tandem-engine", daemon=True)

    @property
    def state(self) -> str:
        """`loading`, `ready`, `failed` (the model could not be loaded) or `stopped`."""
        if self._load_error is not None:
            return "failed"
        if self._is_closing or (self._loaded.is_set() and not self._thread.is_alive()):
            return "stopped"
        return "ready" if self._loaded.is_set() else "loading"

    @property
    def model(self) -> ModelInfo:
        """The loaded model; raises ApiError 503 while there is none."""
        if self.state != "ready":
            raise not_ready(self.state)
        return self._model

    @property
    def counts(self) -> dict[str, int]:
        """How many requests run and wait."""
        with self._changed:
            return {"running": int(self._running is not None), "waiting": len(self._waiting)}

    def start(self) -> None:
        """Start loading; a second call does nothing."""
        if self._thread.ident is None:
            self._thread.start()

    def wait_until_loaded(self, timeout_s: float | None = None) -> None:
        """Block until the model is there; raises what the factory raised, or TimeoutError."""
        if not self._loaded.wait(timeout_s):
            raise TimeoutError("the model is still loading")
        if self._load_error is not None:
            raise self._load_error

    def follow(self, phase: str, done: int, total: int) -> None:
        """The LLM's `progress`: logs loading, and stops the prefill of a request that was left.

        Called in the engine thread; raises JobCancelledError through the LLM.
        """
        if self._running is not None and self._running.is_cancelled:
            raise JobCancelledError
        if done == total and not self._loaded.is_set():
            log.info("%s: %d of %d", phase, done, total)

    def submit(self, job: Job) -> None:
        """Put a request at the end of the queue; raises ApiError 429 or 503."""
        with self._changed:
            if self.state != "ready":
                raise not_ready(self.state)
            if len(self._waiting) >= self._max_queue:
                raise ApiError(
                    429,
                    f"{self._max_queue} requests are waiting already",
                    code="queue_full",
                    headers={"Retry-After": "1"},
                )
            self._waiting.append(job)
            self._changed.notify_all()

    def cancel(self, job: Job) -> None:
        """Drop a request, waiting or running; the engine leaves it within one round."""
        job.cancel()
        with self._changed:
            if job in self._waiting:
                self._waiting.remove(job)

    def close(self, timeout_s: float = 10.0) -> None:
        """Cancel everything and end the thread after the round it is in."""
        with self._changed:
            self._is_closing = True
            jobs = [*self._waiting, *([self._running] if self._running else [])]
            self._waiting.clear()
            self._changed.notify_all()
        for job in jobs:
            job.emit(Failed(not_ready("stopped")))
            job.cancel()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _main(self) -> None:
        try:
            llm = self._factory()
            self._model = _describe(llm)
        except Exception as error:
            if not isinstance(error, TandemError):
                log.exception("the model could not be loaded")
            self._load_error = error
            return
        finally:
            self._loaded.set()
        try:
            while (job := self._next(llm)) is not None:
                self._answer(llm, job)
        finally:
            llm.close()

    def _next(self, llm: Any) -> Job | None:
        with self._changed:
            self._running = None
            while not self._has_work(_IDLE_S if self._may_compile else None):
                # A second without work: compile a bucket that some answer may want.
                self._changed.release()
                try:
                    self._may_compile = llm.compile_one()
                finally:
                    self._changed.acquire()
            if self._is_closing:
                return None
            self._running = self._waiting.popleft()
            return self._running

    def _has_work(self, timeout_s: float | None) -> bool:
        """Wait for a request or the end; False if neither came in time. The lock is held."""
        return bool(
            self._changed.wait_for(lambda: self._waiting or self._is_closing, timeout=timeout_s)
        )

    def _answer(self, llm: Any, job: Job) -> None:
        try:
            for index, task in enumerate(job.tasks):
                if not job.is_cancelled:
                    _run_task(llm, job, index, task)
            # A cancelled job stops early: its own item says so, even if it comes a moment later.
            if not job.is_cancelled:
                job.emit(Finished())
        except JobCancelledError:
            log.info("left a prefill whose client has gone")
        except RequestError as error:
            job.emit(Failed(error))
        except Exception as error:
            log.exception("the engine failed on a request")
            job.emit(Failed(error))


def _run_task(llm: Any, job: Job, index: int, task: PromptTask) -> None:
    reason = None
    # Closing the generator is what frees the engine's slot, whatever ends the loop.
    with closing(llm.stream_ids(list(task.prompt_ids), task.params)) as events:
        for event in events:
            job.emit(Round(index, event))
            reason = event.finish_reason
            if job.is_cancelled:
                return
    if reason is None:
        raise RuntimeError("the engine ended an answer without a finish reason")


def _describe(llm: Any) -> ModelInfo:
    return ModelInfo(
        # A directory's own name is enough; where it lies is nobody's business.
        name=Path(llm.model_name).resolve().name,
        tokenizer=llm.tokenizer,
        encode_chat=llm.encode_chat,
        max_context=llm.max_context,
        vocab_size=llm.vocab_size,
        drafter_name=llm.drafter_name,
    )
