"""uvicorn's httptools protocol with the limits that it lacks.

httptools itself accepts a head of any size and waits for it for ever; h11 is no alternative: it
answers requests whose Content-Length and Transfer-Encoding contradict each other.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from serving.door import MAX_HEAD_BYTES
from serving.errors import ApiError

HEAD_TIMEOUT_S = 10.0


class GuardedHttpProtocol(HttpToolsProtocol):
    """One connection; refuses heads that are too large or too slow."""

    head_timeout_s = HEAD_TIMEOUT_S

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None  # None: no head is being read
        self._answering: Any = None  # the cycle whose app is running

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start the clock of the first head."""
        super().connection_made(transport)
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the running request too: the base class knows only the last pipelined one."""
        self._end_head()
        super().connection_lost(exc)
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()

    def data_received(self, data: bytes) -> None:
        """Count the bytes of a head that is still incomplete."""
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_timer is not None and self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(431, "the request's headers are too large")

    def on_message_begin(self) -> None:
        """Start the clock of the next head on a connection that is kept open."""
        super().on_message_begin()
        if self._head_timer is None:
            self._begin_head()

    def on_headers_complete(self) -> None:
        """Stop the clock; sizes of complete heads are checked by the Door."""
        self._end_head()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP with the envelope."""
        self._refuse(400, "the bytes are not a valid HTTP request")

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def _begin_head(self) -> None:
        self._head_bytes = 0
        self._head_timer = self.loop.call_later(self.head_timeout_s, self._head_too_slow)

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_too_slow(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()

    def _refuse(self, status: int, message: str) -> None:
        if self.transport.is_closing():
            return
        body = json.dumps(ApiError(status, message).envelope).encode()
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
