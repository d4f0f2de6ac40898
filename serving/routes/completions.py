"""POST /v1/completions."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from serving.answers import CompletionFormat
from serving.errors import bad_request
from serving.front import Front
from serving.schemas import CompletionRequest
from tandem_jax.text import Tokenizer

router = APIRouter()


@router.post("/v1/completions")
async def completions(request: Request) -> Response:
    """Continue one or several prompts, texts or token ids, one choice for each."""
    front: Front = request.app.state.front
    fields = await front.read(request, "completions", CompletionRequest)
    if not 1 <= len(fields.prompts) <= front.settings.max_prompts:
        raise bad_request(f"send 1 to {front.settings.max_prompts} prompts", "prompt")
    ids = await asyncio.to_thread(_encode, front.worker.model.tokenizer, fields)
    return front.answer(CompletionFormat, fields, ids, param="prompt")


def _encode(tokenizer: Tokenizer, fields: CompletionRequest) -> list[list[int]]:
    parse_special = bool(fields.parse_special)
    return [
        tokenizer.encode(prompt, parse_special=parse_special) if isinstance(prompt, str) else prompt
        for prompt in fields.prompts
    ]
