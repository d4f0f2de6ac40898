"""The response that follows a job: server-sent events, or one JSON object at the end.

Both watch the connection, because frameworks notice a client that left only while they send.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from serving.answers import AnswerFormat
from serving.errors import ApiError, as_api_error
from serving.jobs import Cancelled, Failed, Finished, Job, Round
from serving.schemas import GenerationRequest
from serving.settings import Settings
from serving.tally import Tally, usage
from serving.transcript import Transcript
from serving.worker import EngineWorker

log = logging.getLogger("tandem.serving")

_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)
_DONE = b"data: [DONE]\n\n"
_KEEP_ALIVE = b": keep-alive\n\n"


class ClientGoneError(Exception):
    """Nobody reads this answer any more."""


def frame(data: dict[str, Any]) -> bytes:
    """One server-sent event."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return b"data: " + text.encode() + b"\n\n"


class Answer(Response):
    """Sends the rounds of a submitted job, and cancels it when the client leaves."""

    def __init__(
        self,
        job: Job,
        worker: EngineWorker,
        *,
        shape: AnswerFormat,
        request: GenerationRequest,
        settings: Settings,
    ):
        super().__init__()
        self._job = job
        self._worker = worker
        self._shape = shape
        self._request = request
        self._settings = settings
        self._tally = Tally()
        skip_special = request.skip_special_tokens is not False
        self._transcripts = [
            Transcript(worker.model.tokenizer, task.prompt_ids, skip_special=skip_special)
            for task in job.tasks
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer; raises ApiError while its status is still open."""
        watcher = asyncio.create_task(self._watch(receive))
        try:
            if self._request.stream:
                await self._send_stream(send)
            else:
                await (await self._whole())(scope, receive, send)
        except ClientGoneError:
            log.info("499 the client has left")
        finally:
            watcher.cancel()
            self._worker.cancel(self._job)

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._worker.cancel(self._job)

    async def _rounds(self, silence_s: float | None = None) -> AsyncIterator[list[Round]]:
        """The rounds that have come, until the last; none of them after `silence_s` of waiting."""
        while True:
            items = await self._job.take(silence_s)
            rounds = [item for item in items if isinstance(item, Round)]
            if rounds or not items:
                yield rounds
            # A cancellation comes from the event loop and may lie before the engine's last round.
            for item in items:
                match item:
                    case Finished():
                        return
                    case Failed():
                        raise as_api_error(item.error)
                    case Cancelled():
                        raise ClientGoneError

    async def _whole(self) -> Response:
        async for rounds in self._rounds():
            for item in rounds:
                self._tally.add(item.event)
                self._transcripts[item.index].add(item.event)
        choices = [transcript.choice() for transcript in self._transcripts]
        return JSONResponse(
            self._shape.whole(choices, usage=self._usage(), tandem=self._tally.report())
        )

    async def _send_stream(self, send: Send) -> None:
        started = False
        try:
            async with aclosing(self._rounds(self._settings.keep_alive_s)) as batches:
                async for rounds in batches:
                    if not started:  # from here on the status is 200
                        start = {"type": "http.response.start", "status": 200}
                        await self._send(send, start | {"headers": list(_HEADERS)})
                        started = True
                    # One write for all, so that a client that lags catches up in one step.
                    frames = b"".join(map(self._frames, rounds))
                    await self._write(send, frames if rounds else _KEEP_ALIVE)
            last = self._usage_frame()
        except ApiError as error:
            if not started:
                raise
            last = frame(error.envelope)
        except asyncio.CancelledError:  # the server stops, and its grace is over
            if started:
                last = frame(ApiError(503, "the server is stopping").envelope)
                await self._write(send, last + _DONE, more_body=False)
            raise
        await self._write(send, last + _DONE, more_body=False)

    def _frames(self, item: Round) -> bytes:
        """The chunks of one round: opening, text, closing, as far as it has them."""
        index, event = item.index, item.event
        transcript = self._transcripts[index]
        chunks = []
        if not transcript.has_begun:
            chunks.append(self._shape.opening(index, self._job.tasks[index].prompt_ids))
        text = transcript.add(event)
        self._tally.add(event)
        if text or (event.tokens and self._shape.shows_ids):
            chunks.append(self._shape.piece(index, text, event.tokens, None))
        frames = [self._chunk(chunk) for chunk in chunks if chunk is not None]
        if event.finish_reason:
            is_last = index == len(self._transcripts) - 1
            report = {"tandem": self._tally.report()} if is_last else {}
            closing = self._shape.piece(index, "", (), event.finish_reason)
            frames.append(self._chunk(closing, **report))
        return b"".join(frames)

    def _chunk(self, choice: dict[str, Any], **more: Any) -> bytes:
        if self._request.shows_usage:
            more["usage"] = self._usage() if self._request.shows_usage_always else None
        return frame(self._shape.wrap([choice], is_chunk=True, **more))

    def _usage_frame(self) -> bytes:
        if not self._request.shows_usage:
            return b""
        return frame(self._shape.wrap([], is_chunk=True, usage=self._usage()))

    def _usage(self) -> dict[str, Any]:
        return usage((task.prompt_ids for task in self._job.tasks), self._tally)

    async def _write(self, send: Send, body: bytes, *, more_body: bool = True) -> None:
        if body:
            message = {"type": "http.response.body", "body": body, "more_body": more_body}
            await self._send(send, message)

    async def _send(self, send: Send, message: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(self._settings.send_timeout_s):
                await send(message)
        except TimeoutError:
            raise ClientGoneError from None
