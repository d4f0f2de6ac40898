"""GET /health."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from serving.front import Front

router = APIRouter()


@router.get("/health")
async def health(request: Request) -> JSONResponse:
    """200 while the engine thread can answer, else 503; with the length of the queue."""
    front: Front = request.app.state.front
    state = front.worker.state
    body = {"status": "ok" if state == "ready" else state, **front.worker.counts}
    return JSONResponse(body, 200 if state == "ready" else 503)
