"""Drafters: guesses about the next tokens, from the host's side and without jax."""

from importlib import import_module

from tandem_jax.drafters.lattice import Lattice
from tandem_jax.drafters.protocol import Drafter, DrafterSetup, HeadDraft, RoundTime
from tandem_jax.errors import ConfigError

# Name as users type it -> "module:class".
DRAFTERS = {
    "none": "tandem_jax.drafters.none:NoneDrafter",
    "wrong": "tandem_jax.drafters.wrong:WrongDrafter",
    "half-right": "tandem_jax.drafters.half_right:HalfRightDrafter",
    "random": "tandem_jax.drafters.random_tree:RandomTreeDrafter",
    "lookup": "tandem_jax.drafters.lookup:LookupDrafter",
    "mtp": "tandem_jax.drafters.mtp:MtpDrafter",
    "dflash2": "tandem_jax.drafters.dflash2:DFlash2Drafter",
    "auto": "tandem_jax.drafters.combined:CombinedDrafter",
}

__all__ = [
    "DRAFTERS",
    "Drafter",
    "DrafterSetup",
    "HeadDraft",
    "Lattice",
    "RoundTime",
    "drafter_class",
    "make_drafter",
]


def drafter_class(name: str) -> type[Drafter]:
    """Class behind a drafter's name; raises ConfigError with the known names."""
    if name not in DRAFTERS:
        raise ConfigError(
            f"unknown drafter {name!r}", hint=f"choose one of: {', '.join(sorted(DRAFTERS))}"
        )
    module, _, attribute = DRAFTERS[name].partition(":")
    return getattr(import_module(module), attribute)


def make_drafter(name: str, *, vocab_size: int, seed: int = 0) -> Drafter:
    """Drafter of that name for a model with `vocab_size` tokens; raises ConfigError.

    `seed` matters to the drafters that guess at random.
    """
    return drafter_class(name).build(DrafterSetup(vocab_size=vocab_size, seed=seed))
