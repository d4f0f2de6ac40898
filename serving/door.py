"""The outermost layer: request ids, limits on the head, and no exception past it."""

from __future__ import annotations

import logging
import re
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving.errors import ApiError, as_api_error

log = logging.getLogger("tandem.serving")

MAX_HEAD_BYTES = 64 << 10  # request line and headers together
MAX_HEADERS = 256
_SAFE_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}", re.ASCII)


class Door:
    """ASGI middleware around the whole app."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; every answer carries `X-Request-Id`."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(Headers(scope=scope).get("x-request-id", ""))
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        try:
            _check_head(scope)
            await self._app(scope, receive, send_with_id)
        except ClientDisconnect:
            log.info("499 request %s: the client has left", request_id)
        except Exception as error:
            answer = as_api_error(error)
            if answer.status >= 500:
                log.exception("request %s failed", request_id)
            if started:
                raise
            await answer.response()(scope, receive, send_with_id)


def _request_id(wanted: str) -> str:
    """The client's own id if it is harmless in logs and headers, else a new one."""
    return wanted if _SAFE_ID.fullmatch(wanted) else f"req_{uuid.uuid4().hex}"


def _check_head(scope: Scope) -> None:
    size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    size += sum(len(name) + len(value) for name, value in scope["headers"])
    if size > MAX_HEAD_BYTES or len(scope["headers"]) > MAX_HEADERS:
        raise ApiError(431, "the request's headers are too large", headers={"Connection": "close"})
