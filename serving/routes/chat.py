"""POST /v1/chat/completions."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from serving.answers import ChatFormat
from serving.front import Front
from serving.schemas import ChatRequest

router = APIRouter()


@router.post("/v1/chat/completions")
async def chat_completions(request: Request) -> Response:
    """Answer a conversation, streamed or whole."""
    front: Front = request.app.state.front
    fields = await front.read(request, "chat", ChatRequest)
    # Rendering and encoding a long conversation would block every other stream.
    ids = await asyncio.to_thread(
        front.worker.model.encode_chat, fields.messages, **fields.template_variables
    )
    return front.answer(ChatFormat, fields, [ids], param="messages")
