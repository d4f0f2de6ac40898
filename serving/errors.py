"""Every failure as OpenAI's error envelope; the client's input is never echoed."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from tandem_jax.errors import ContextLengthError, RequestError

_TYPES = {
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


class ApiError(Exception):
    """An answer that is an error; becomes the envelope, in or outside a stream."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
        extra: dict[str, Any] | None = None,
    ):
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.headers = headers or {}
        self.extra = extra or {}  # further keys of the envelope

    @property
    def envelope(self) -> dict[str, Any]:
        """The body: `{"error": {message, type, param, code, ...}}`."""
        fallback = "server_error" if self.status >= 500 else "invalid_request_error"
        error = {
            "message": str(self),
            "type": _TYPES.get(self.status, fallback),
            "param": self.param,
            "code": self.code,
        }
        return {"error": error | self.extra}

    def response(self) -> JSONResponse:
        """The whole answer."""
        return JSONResponse(self.envelope, self.status, self.headers)


def bad_request(message: str, param: str | None = None, **more: Any) -> ApiError:
    """A 400 that names the field at fault."""
    return ApiError(400, message, param=param, **more)


def not_ready(state: str) -> ApiError:
    """A 503 while the model is loading or after the engine thread has ended."""
    headers = {"Retry-After": "5"} if state == "loading" else {}
    return ApiError(503, f"the model is not available: {state}", headers=headers)


def as_api_error(error: Exception) -> ApiError:
    """What the client is told about an exception; causes of our own stay in the log."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, RequestError):
        message = f"{error} ({error.hint})" if error.hint else str(error)
        extra = {}
        if isinstance(error, ContextLengthError):
            extra = {"n_prompt_tokens": error.n_prompt_tokens, "n_ctx": error.n_ctx}
        return bad_request(message, error.param, code=error.code, extra=extra)
    return ApiError(500, "the server failed on this request; its log has the cause")


async def answer_api_error(request: Request, error: Exception) -> JSONResponse:
    """Exception handler for ApiError and RequestError."""
    return as_api_error(error).response()


async def answer_http_exception(request: Request, error: HTTPException) -> JSONResponse:
    """Exception handler for the framework's own 404 and 405."""
    message = HTTPStatus(error.status_code).phrase.lower()
    headers = dict(error.headers or {})
    return ApiError(error.status_code, message, headers=headers).response()
