"""Which drafters an engine can feed, and what to say about those it cannot."""

from tandem_jax.drafters import drafter_class
from tandem_jax.engine.engine import Engine
from tandem_jax.errors import ConfigError


def head_warnings(name: str, has_head: bool, has_draft: bool) -> tuple[str, ...]:
    """What to say if a drafter has neither an MTP head nor a draft model to listen to.

    Raises ConfigError for the drafter that has nothing else to draft from.
    """
    kind = drafter_class(name)
    if not kind.uses_model_head or has_head or (kind.uses_draft_model and has_draft):
        return ()
    if not kind.uses_draft_model:
        raise _headless(name)
    return ("the checkpoint has no MTP head: only the lookup drafter guesses",)


def refusal(engine: Engine, name: str) -> ConfigError | None:
    """Why a drafter cannot run on this engine, as an error; None if it can."""
    kind, options = drafter_class(name), engine.options
    fed = (kind.uses_draft_model and options.draft is not None) or (
        kind.uses_model_head and options.mtp_depth > 0
    )
    if fed or not (kind.uses_draft_model or kind.uses_model_head):
        return None
    if not kind.uses_model_head:
        return ConfigError(
            f"the drafter {name!r} needs a draft model, which this LLM was opened without",
            hint="open it with draft_model=...",
        )
    if engine.model.config.mtp:
        return ConfigError(
            f"the drafter {name!r} needs the MTP head, which this LLM was opened without",
            hint="open it with drafter='auto' or drafter='mtp', and no draft model",
        )
    # A drafter that may use either has a third part, which needs no head.
    return None if kind.uses_draft_model else _headless(name)


def _headless(name: str) -> ConfigError:
    return ConfigError(
        f"the drafter {name!r} needs an MTP head, and this checkpoint has none",
        hint="use drafter 'lookup' or 'auto'",
    )
