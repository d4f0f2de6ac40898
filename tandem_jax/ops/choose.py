"""Choosing an implementation by name, with a reason for each one that was passed over."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tandem_jax.errors import ConfigError


@dataclass(frozen=True)
class Implementation:
    """One way to compute an op."""

    where: str  # "module:function" that computes it
    why_not: Callable[[str], str]  # platform -> reason it cannot run there, "" if it can
    exact: bool  # rows equal plain decoding bit for bit


@dataclass(frozen=True)
class Choice:
    """What was chosen and why the others were not; shown by `Engine.describe()`."""

    op: str  # name of the op
    name: str  # the chosen implementation
    exact: bool  # whether the chosen one is bitwise
    passed_over: tuple[tuple[str, str], ...]  # (name, reason) of the others


def choose(
    op: str, table: Mapping[str, Implementation], platform: str, wanted: str | None = None
) -> Choice:
    """The wanted implementation, or the first of `table` that runs on `platform`.

    Raises ConfigError if the wanted one is unknown or cannot run there, or if none can.
    """
    reasons = {name: impl.why_not(platform) for name, impl in table.items()}
    if wanted is not None and wanted not in table:
        raise ConfigError(f"{op}: no implementation {wanted!r}", hint=f"one of {', '.join(table)}")
    if wanted is not None and reasons[wanted]:
        raise ConfigError(f"{op}: {wanted!r} cannot run here: {reasons[wanted]}")
    usable = [name for name in table if not reasons[name]]
    if not usable:
        told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise ConfigError(f"{op}: no implementation runs on {platform} ({told})")
    name = wanted or usable[0]
    rest = tuple(
        (n, reasons[n] or _why_later(impl, table[name], wanted))
        for n, impl in table.items()
        if n != name
    )
    return Choice(op, name, table[name].exact, rest)


def _why_later(other: Implementation, chosen: Implementation, wanted: str | None) -> str:
    """Why a usable implementation was passed over."""
    if wanted is not None:
        return f"{wanted!r} was asked for"
    if chosen.exact and not other.exact:
        return "equals plain decoding up to rounding only"
    return "comes later in the table"
