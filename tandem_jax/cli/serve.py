"""`tandem serve`: the HTTP server, which lives in a room of its own."""

import importlib
from typing import Annotated

import typer

from tandem_jax.cli.options import (
    SHIPPED,
    CorpusOption,
    DrafterOption,
    DraftModelOption,
    LearnedOption,
    MaxContextOption,
    ModelArgument,
    PolicyOption,
    PricesOption,
    StoreOption,
    StoreReadonlyOption,
    TapOption,
)
from tandem_jax.errors import ConfigError

# By name, because arrows point down: `serving` imports tandem_jax, never the other way round.
SERVE, SETTINGS = "serving.cli:serve", "serving.settings:Settings"
WARMUPS = ("full", "lazy")
EXTRA = {"fastapi", "starlette", "uvicorn", "httptools", "uvloop", "pydantic"}

HostOption = Annotated[str, typer.Option("--host", help="Address to listen on.")]
PortOption = Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")]
WarmupOption = Annotated[
    str,
    typer.Option(
        "--warmup",
        help="full: compile every bucket before the first request; lazy: only those of plain "
        "steps, and the others in idle seconds.",
    ),
]
NameOption = Annotated[
    str | None, typer.Option("--served-name", help="Model name in requests; default: its own.")
]


def serve(
    model: ModelArgument = SHIPPED,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8000,
    drafter: DrafterOption = "auto",
    draft_model: DraftModelOption = None,
    tap: TapOption = None,
    policy: PolicyOption = "auto",
    prices: PricesOption = None,
    corpus: CorpusOption = None,
    suffix_store: StoreOption = None,
    suffix_store_readonly: StoreReadonlyOption = False,
    learned: LearnedOption = None,
    max_context: MaxContextOption = None,
    warmup: WarmupOption = "full",
    served_name: NameOption = None,
) -> None:
    """Serve a model over HTTP in the manner of the OpenAI API."""
    if warmup not in WARMUPS:
        raise ConfigError(f"unknown warm-up {warmup!r}", hint=f"choose {' or '.join(WARMUPS)}")
    settings = resolve(SETTINGS)(
        model=model,
        host=host,
        port=port,
        drafter=drafter,
        draft_model=draft_model,
        tap=tap,
        policy=policy,
        prices=prices,
        corpus=corpus,
        suffix_store=suffix_store,
        suffix_store_readonly=suffix_store_readonly,
        learned=learned,
        max_context=max_context,
        warmup=warmup,
        served_name=served_name,
    )
    resolve(SERVE)(settings)


def resolve(line: str):
    """The object that a `module:Attr` line names; raises `ConfigError` if the extra is missing."""
    module, name = line.split(":")
    room = module.split(".")[0]
    try:
        package = importlib.import_module(room)
        if getattr(package, "ROOM", None) != "tandem":
            raise ConfigError(
                f"the package {room} of another project hides ours: {package.__file__}",
                hint="remove it from the path, or install tandem-jax in its own environment",
            )
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        raise ConfigError(
            f"the server needs the package {error.name}",
            hint="pip install 'tandem-jax[serve]'",
        ) from error
