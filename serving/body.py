"""Reading a JSON body from a client that may send anything."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

from starlette.requests import Request

from serving.errors import ApiError, bad_request

_DISCARD_S = 5.0


async def read_json(request: Request, limit_bytes: int) -> dict[str, Any]:
    """The body as an object; of doubled keys the last one counts.

    Raises ApiError: 413 beyond `limit_bytes`, else 400.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise bad_request("the content type must be application/json")
    try:
        text = (await _read_bytes(request, limit_bytes)).decode("utf-8")
    except UnicodeDecodeError:
        raise bad_request("the body is not valid UTF-8") from None
    return parse_object(text)


def parse_object(text: str) -> dict[str, Any]:
    """Parse one JSON object; numbers that are not finite are refused with their field's name."""
    odd: list[float] = []

    def number(digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            odd.append(value)
        return value

    try:
        raw = json.loads(text, parse_float=number, parse_constant=number)
    except RecursionError:
        raise bad_request("the body is nested too deeply") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise bad_request(f"the body is not valid JSON ({place})") from None
    except ValueError:  # the interpreter's limit on the digits of an integer
        raise bad_request("the body holds a number that is too long") from None
    if not isinstance(raw, dict):
        raise bad_request("the body must be a JSON object")
    if odd:
        fields = (field for field, value in raw.items() if not _is_finite(value))
        raise bad_request("a number in the body is not finite", next(fields, "")[:64] or None)
    return raw


def _is_finite(value: Any) -> bool:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, float) and not math.isfinite(item):
            return False
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return True


async def _read_bytes(request: Request, limit_bytes: int) -> bytes:
    declared = request.headers.get("content-length", "")
    body = bytearray()
    if not declared.isdigit() or int(declared) <= limit_bytes:
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit_bytes:
                break
        else:
            return bytes(body)
    await _discard(request, 4 * limit_bytes)
    raise ApiError(
        413,
        f"the body is larger than {limit_bytes} bytes",
        headers={"Connection": "close"},
    )


async def _discard(request: Request, most_bytes: int) -> None:
    """Let a client finish sending: one that is still writing would not read the answer."""
    try:
        async with asyncio.timeout(_DISCARD_S):
            async for chunk in request.stream():
                most_bytes -= len(chunk)
                if most_bytes < 0:
                    return
    except TimeoutError:
        return
