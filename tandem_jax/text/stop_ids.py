"""Which token ids end an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tandem_jax.errors import CheckpointError


def stop_token_ids(
    generation_config: Mapping[str, Any] | None, config: Mapping[str, Any]
) -> tuple[int, ...]:
    """The checkpoint's end ids: `generation_config.json` first, else `config.json`.

    `config.json` alone often lists only the end of a document, which never ends a chat turn, so it
    is read only when the generation config names none. Raises CheckpointError for other shapes.
    """
    text_config = config.get("text_config") or {}
    sources = (
        ("generation_config.json", generation_config or {}),
        ("config.json", config),
        ("config.json text_config", text_config),
    )
    for where, source in sources:
        value = source.get("eos_token_id")
        if value is not None:
            return _as_ids(value, where)
    return ()


def _as_ids(value: Any, where: str) -> tuple[int, ...]:
    ids = value if isinstance(value, list) else [value]
    if not all(type(token) is int and token >= 0 for token in ids):
        raise CheckpointError(
            f"{where}: eos_token_id must be an id or a list of ids, not {value!r}",
            hint="copy generation_config.json from the original checkpoint",
        )
    return tuple(dict.fromkeys(ids))
