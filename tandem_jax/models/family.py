"""What a family tells the loader: its config reader and where each weight lives on disk."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tandem_jax.errors import ConfigError
from tandem_jax.models.config import HybridConfig


@dataclass(frozen=True)
class Leaf:
    """One field of the weights: its tensors on disk and what becomes of them."""

    field: str  # path in the weights dataclass, for example "delta.qkv"
    names: tuple[str, ...]  # canonical tensor names, one per stacked layer (or a single one)
    shape: tuple[int, ...]  # of each tensor on disk
    matrix: bool  # True: a linear weight that goes through a weight format
    stacked: bool  # True: the field has a leading layer axis
    float32: bool = False  # True: kept in float32 whatever the activation dtype
    flat: bool = False  # True: a singleton middle axis on disk is dropped

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape of one layer in memory."""
        return (self.shape[0], *self.shape[2:]) if self.flat else self.shape


@dataclass(frozen=True)
class Family:
    """A model family; MODELS points at one per architecture name."""

    read_config: Callable[[dict], HybridConfig]  # strict: unknown keys raise ConfigError
    leaves: Callable[[HybridConfig], Iterator[Leaf]]  # every weight of the model


class StrictReader:
    """Takes keys out of a raw config one by one; what is left over at the end is an error."""

    def __init__(self, raw: dict, where: str):
        self._left = dict(raw)
        self._where = where

    def take(self, key: str, kind: type | tuple[type, ...], default=...):
        """The value of `key`, which must be of `kind`; without a default it must be present."""
        value = self._left.pop(key, default)
        if value is ...:
            raise ConfigError(f"{self._where} has no key {key!r}")
        wrong = value is not default and not isinstance(value, kind)
        if wrong or (isinstance(value, bool) and kind is int):
            raise ConfigError(f"{self._where}: {key} has the value {value!r} of a wrong type")
        return value

    def size(self, key: str, default=...) -> int:
        """The value of `key`, an integer of at least 1."""
        value = self.take(key, int, default)
        if value < 1:
            raise ConfigError(f"{self._where}: {key} must be at least 1, not {value}")
        return value

    def positive(self, key: str, default=...) -> float:
        """The value of `key`, a number above 0."""
        value = self.take(key, (int, float), default)
        if isinstance(value, bool) or not 0 < value < float("inf"):
            raise ConfigError(f"{self._where}: {key} must be a number above 0, not {value!r}")
        return float(value)

    def demand(self, key: str, allowed: tuple, default=...) -> None:
        """`key` must hold one of the values this engine implements."""
        value = self.take(key, object, default)
        if value not in allowed:
            told = " or ".join(map(repr, allowed))
            raise ConfigError(f"{self._where}: {key} = {value!r} is not supported, only {told}")

    def finish(self, ignored: dict[str, str]) -> None:
        """Raise ConfigError naming every key that was neither taken nor on the ignored list."""
        unknown = sorted(set(self._left) - set(ignored))
        if unknown:
            raise ConfigError(
                f"{self._where} has unknown keys: {', '.join(unknown)}",
                hint="the model may be of a newer family than this version reads",
            )
