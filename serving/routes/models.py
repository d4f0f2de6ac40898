"""GET /v1/models and /v1/models/{id}."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from serving.front import Front

router = APIRouter()


@router.get("/v1/models")
async def list_models(request: Request) -> dict[str, Any]:
    """The one model this server has."""
    return {"object": "list", "data": [_card(request.app.state.front)]}


@router.get("/v1/models/{name:path}")
async def get_model(request: Request, name: str) -> dict[str, Any]:
    """The model by its exact name, else 404."""
    front: Front = request.app.state.front
    front.check_model(name)
    return _card(front)


def _card(front: Front) -> dict[str, Any]:
    model = front.worker.model
    return {
        "id": front.model_name,
        "object": "model",
        "created": front.started_at,
        "owned_by": "tandem-jax",
        "max_model_len": model.max_context,
        "meta": {"n_vocab": model.vocab_size, "drafter": model.drafter_name},
    }
