"""A block drafter from its checkpoint directory onto the device, checked against its target.

As with the target, everything that can be wrong is found in the headers, before any device memory
is used. `loading` does the reading; this file knows where shipped drafters are and what must fit.
"""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from tandem_jax.drafters import DRAFTERS, drafter_class
from tandem_jax.errors import ConfigError
from tandem_jax.loading import (
    SHIPPED,
    Progress,
    check_leaves,
    load_fields,
    open_directory,
    shipped_path,
    user_errors,
)
from tandem_jax.models import DRAFT_MODELS
from tandem_jax.models.config import DFlashConfig, HybridConfig
from tandem_jax.models.dflash2 import DraftModel
from tandem_jax.models.dflash2_weights import assemble_draft, draft_leaves

# Name -> rows of its block; of one target, the one that is taken without prices comes first.
SHIPPED_DRAFTERS = {"mini-b16": 16, "mini-b8": 8, "nano-b8": 8}


@dataclass(frozen=True)
class OpenedDrafter:
    """A drafter whose headers are read and fit the target; nothing of it is on the device."""

    checkpoint: object  # checkpoints.Checkpoint
    config: DFlashConfig
    warnings: tuple[str, ...]  # lines a user should see

    @property
    def name(self) -> str:
        """Name of its directory."""
        return self.checkpoint.path.resolve().name

    def load(self, dtype: str = "float32", progress: Progress | None = None) -> DraftModel:
        """Read the weights in `dtype`; progress("load drafter", done, total) after each field."""

        def told(phase: str, done: int, total: int) -> None:
            if progress is not None:
                progress(f"{phase} drafter", done, total)

        fields = load_fields(self.checkpoint, draft_leaves(self.config), dtype, told)
        return DraftModel(self.config, assemble_draft(fields))


def default_drafter(target: Path, block: int | None = None) -> Path | None:
    """The drafter that ships for a shipped target (its directory), None for any other target.

    Of several, the one of `block` rows if there is one.
    """
    for name in SHIPPED:
        if target.resolve() == shipped_path(name).resolve():
            own = [d for d in SHIPPED_DRAFTERS if d.startswith(f"{name}-")]
            own.sort(key=lambda d: SHIPPED_DRAFTERS[d] != block)
            paths = (shipped_path(d) for d in own)
            return next((path for path in paths if path.is_dir()), None)
    return None


def drafter_for(
    name: str,
    draft_model: str | Path | None,
    target_path: Path,
    target: HybridConfig,
    *,
    dtype: str | None = None,
    tap: str | None = None,
    block: int | None = None,
) -> OpenedDrafter | None:
    """The draft model for a drafter's name: the one asked for, else the one that ships.

    `block`: rows of the block that is preferred where several ship.

    None if the drafter wants none, or could use one and there is none. Raises ConfigError for a
    draft model or a tap that nobody would use, and for a drafter that cannot do without.
    """
    kind = drafter_class(name)
    if draft_model is not None and not kind.uses_draft_model:
        able = [name for name in DRAFTERS if drafter_class(name).uses_draft_model]
        raise ConfigError(
            f"the drafter {name!r} uses no draft model, but {str(draft_model)!r} was given",
            hint=f"choose the drafter {' or '.join(map(repr, able))}",
        )
    if draft_model is None and kind.uses_draft_model:
        draft_model = default_drafter(target_path, block)
    if draft_model is not None:
        return open_drafter(draft_model, target, dtype, tap=tap)
    hint = "name one: draft_model=..., or --draft-model on the command line"
    if kind.uses_draft_model and not kind.uses_model_head:
        raise ConfigError(
            f"the drafter {name!r} needs a draft model, and none ships for {target_path.name!r}",
            hint=hint,
        )
    if tap is not None:
        raise ConfigError(f"tap = {tap!r} was given, but no draft model", hint=hint)
    return None


def resolve_drafter(drafter: str | Path) -> Path:
    """A directory as given, or the shipped drafter of that name ("mini-b16", "nano-b8", ...)."""
    if str(drafter) in SHIPPED_DRAFTERS and not Path(drafter).exists():
        path = shipped_path(str(drafter))
        if not path.is_dir():
            raise ConfigError(
                f"the shipped drafter {drafter!r} is not part of this installation",
                hint="pass the directory of a drafter's checkpoint",
            )
        return path
    return Path(drafter)


def open_drafter(
    drafter: str | Path, target: HybridConfig, dtype: str | None = None, *, tap: str | None = None
) -> OpenedDrafter:
    """Read and check a drafter's headers against the target.

    `tap` ("output" or "entry") overrides what the checkpoint says about its taps; `dtype` is that
    of the weights once loaded. Raises CheckpointError or ConfigError that names the field at fault.
    """
    with user_errors():
        opened = open_directory(resolve_drafter(drafter))
        config = _reader(opened.config)(opened.config, target, tap=tap)
        warnings = [*opened.warnings, *check_leaves(opened, draft_leaves(config), dtype)]
    return OpenedDrafter(opened, config, tuple(f"drafter: {line}" for line in warnings))


def _reader(raw: dict):
    """The config reader of a drafter's architecture, by the table DRAFT_MODELS."""
    names = raw.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    if not isinstance(name, str) or name not in DRAFT_MODELS:
        raise ConfigError(
            f"the architecture {name!r} is no drafter",
            hint=f"supported drafters: {', '.join(sorted(DRAFT_MODELS))}",
        )
    module, _, attribute = DRAFT_MODELS[name].partition(":")
    return getattr(import_module(module), attribute)
