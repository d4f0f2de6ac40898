"""The ASGI app: routes, error handlers, and the worker's life."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.exceptions import HTTPException

from serving.door import Door
from serving.errors import ApiError, answer_api_error, answer_http_exception
from serving.front import Front
from serving.routes import chat, completions, health, models
from serving.settings import Settings
from serving.worker import EngineWorker
from tandem_jax.errors import RequestError


def create_app(worker: EngineWorker, settings: Settings) -> FastAPI:
    """The app in front of a worker, which it starts (unless it runs) and closes at its end."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        worker.start()
        yield
        # In a thread: closed connections still need the loop while the engine ends its round.
        await asyncio.to_thread(worker.close)

    app = FastAPI(
        title="Tandem-JAX",
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,  # the pages would load scripts from elsewhere
        redoc_url=None,
        openapi_url=None,  # bodies are read by hand, so the schema would say nothing of them
    )
    app.state.front = Front(settings, worker, started_at=int(time.time()))
    for route in (chat, completions, models, health):
        app.include_router(route.router)
    app.add_exception_handler(ApiError, answer_api_error)
    app.add_exception_handler(RequestError, answer_api_error)
    app.add_exception_handler(HTTPException, answer_http_exception)
    app.add_middleware(Door)
    return app
