"""What `tandem serve` runs."""

from __future__ import annotations

import logging
import socket
import sys
from typing import Any

import uvicorn

import tandem_jax
from serving.app import create_app
from serving.protocol import GuardedHttpProtocol
from serving.settings import Settings
from serving.worker import EngineWorker
from tandem_jax.errors import ConfigError

log = logging.getLogger("tandem.serving")

_POLL_S = 0.2


def serve(settings: Settings) -> None:
    """Take the address, load the model, then listen until a stop signal.

    Raises ConfigError if the address cannot be had, and what loading raises.
    """

    def load() -> Any:
        return tandem_jax.LLM(
            settings.model,
            drafter=settings.drafter,
            draft_model=settings.draft_model,
            tap=settings.tap,
            policy=settings.policy,
            prices=settings.prices,
            corpus=settings.corpus,
            suffix_store=settings.suffix_store,
            suffix_store_readonly=settings.suffix_store_readonly,
            learned=settings.learned,
            warmup="lazy" if settings.warmup == "lazy" else True,
            max_context=settings.max_context,
            dtype=settings.dtype,
            node_budget=settings.node_budget,
            progress=worker.follow,
        )

    worker = EngineWorker(load, max_queue=settings.max_queue)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s:     %(message)s")
    with bind(settings.host, settings.port) as listener:
        log.info("loading %s", settings.model)
        worker.start()
        _wait(worker)
        log.info("serving http://%s:%d/v1", *listener.getsockname()[:2])
        uvicorn.Server(server_config(worker, settings)).run(sockets=[listener])


def bind(host: str, port: int) -> socket.socket:
    """A socket on the address that does not listen yet; raises ConfigError if it is taken."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {host} port {port}: {error.strerror or error}",
            hint="stop the program that uses it, or choose another --port",
        ) from error
    return listener


def server_config(worker: EngineWorker, settings: Settings) -> uvicorn.Config:
    """uvicorn's options: httptools with our limits, uvloop where it exists."""
    return uvicorn.Config(
        create_app(worker, settings),
        host=settings.host,
        port=settings.port,
        http=GuardedHttpProtocol,
        loop="asyncio" if sys.platform == "win32" else "uvloop",
        ws="none",
        lifespan="on",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=settings.shutdown_grace_s,
    )


def _wait(worker: EngineWorker) -> None:
    """Wait in short steps, so that Ctrl-C works while the model loads."""
    while True:
        try:
            worker.wait_until_loaded(_POLL_S)
        except TimeoutError:
            if worker.state != "loading":
                raise
        else:
            return
