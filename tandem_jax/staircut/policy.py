"""A policy decides what a round drafts and how much of it is verified.

    reset(prompt) -> observe(first token) -> propose -> observe(round) -> propose -> ...

The tables of a policy (prices, calibrations, copy counts) outlive a request. What it decides costs
or saves time and never changes the text.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import ClassVar

from tandem_jax.drafters.lattice import Lattice
from tandem_jax.drafters.lookup import LookupDrafter, TextStore
from tandem_jax.drafters.protocol import HeadDraft
from tandem_jax.errors import ConfigError
from tandem_jax.staircut.copy_rate import Key
from tandem_jax.staircut.cut import SNAP
from tandem_jax.staircut.price_model import PriceModel
from tandem_jax.staircut.prices import PriceTable, preferred_head
from tandem_jax.tree import DraftTree

LOOKUP_ORDER = 3  # shortest match a policy's lookup takes; two tokens recur too often by chance

# Name as users type it -> "module:class".
POLICIES = {
    "staircut": "tandem_jax.staircut.router:StairCut",
    "length": "tandem_jax.staircut.length_router:LengthRouter",
    "fixed8": "tandem_jax.staircut.fixed:Fixed8",
    "fixed16": "tandem_jax.staircut.fixed:Fixed16",
    "mtp": "tandem_jax.staircut.mtp_cut:MtpStairCut",
    "none": "tandem_jax.staircut.none:PlainPolicy",
}


@dataclass(frozen=True)
class RoundInput:
    """What a policy may draw on in one round. Asking a head has its draft paid for."""

    anchor: int  # last committed token
    context: int  # committed tokens, the anchor included
    max_nodes: int  # most drafted nodes that can be verified
    max_depth: int  # most drafted tokens on a path that the request can still take
    wide: Callable[[], Lattice | None] = lambda: None  # lattice of the block drafter
    narrow: Callable[[], Lattice | None] = lambda: None  # lattice of a drafter of 7 slots
    mtp: Callable[[], HeadDraft | None] = lambda: None  # chain of the model's own head
    paid: bool = False  # the head has drafted already, asked or not: its cost is sunk
    backlog: int = 0  # rows of the context that the head has yet to read before it can draft
    prime_ms: float = 0.0  # what reading one of them costs


@dataclass(frozen=True)
class Decision:
    """What a round verifies, and why."""

    tree: DraftTree | None  # None for a plain step
    label: str = "plain"  # "head", "chain", "lookup", "merged", "deep" or "plain"
    head: str = ""  # "wide", "narrow" or "mtp" if that head's draft was asked for
    value: float = 0.0  # expected tokens a millisecond, 0 where no prices decided


@dataclass(frozen=True)
class Outcome:
    """How a round ended."""

    tokens: Sequence[int]  # committed tokens: the accepted ones and the model's own behind them
    rows: int = 0  # rows verified, the anchor included; 0 behind the prefill
    verify_ms: float | None = None  # measured verify and commit; None if it was not measured
    draft_ms: float | None = None  # measured draft; None if there was none or no measure of it


def policy_lookup(stores: Sequence[TextStore] = ()) -> LookupDrafter:
    """The lookup of a policy, with the stores it may copy from."""
    return LookupDrafter(min_order=LOOKUP_ORDER, stores=stores)


@dataclass(frozen=True)
class PolicySetup:
    """What policies are built from."""

    prices: PriceModel  # of verify
    draft_ms: Mapping[str, Mapping[int, float]] = field(default_factory=dict)  # head -> context: ms
    lookup: Callable[[], LookupDrafter] = policy_lookup  # makes a lookup drafter
    copy_prior: Mapping[Key, tuple[float, float]] = field(default_factory=dict)  # counted rates
    snap: Sequence[int] = SNAP  # node counts at which a cut may end
    head: str = "wide"  # block drafter that StairCut asks: "wide" or "narrow"


def setup_on(
    table: PriceTable | None,
    prices: PriceModel,
    *,
    lookup: Callable[[], LookupDrafter] = policy_lookup,
    copy_prior: Mapping[Key, tuple[float, float]] | None = None,
    head: str | None = None,
) -> PolicySetup:
    """The setup of a price table, None for none; `head` is the prices' choice unless given.

    Cuts may end where a bucket is full and at every count that was measured: between those the
    price is a guess, and a guess between two steps of a staircase is too low.
    """
    head = head or preferred_head(table)
    if table is None:
        return PolicySetup(prices, {}, lookup, copy_prior or {}, head=head)
    ends = {*SNAP, *(rows - 1 for rows in table.rows if rows > 1)}
    return PolicySetup(prices, table.draft, lookup, copy_prior or {}, tuple(sorted(ends)), head)


class Policy(ABC):
    """Decides round by round for one request at a time."""

    name: ClassVar[str]  # as in the POLICIES table
    heads: ClassVar[tuple[str, ...]] = ()  # heads it may ask: "wide", "narrow", "mtp"

    @abstractmethod
    def reset(self, prompt_ids: Sequence[int]) -> None:
        """Start a request: forget the text of the last one, keep what was learned."""

    @abstractmethod
    def propose(self, given: RoundInput) -> Decision:
        """What the next round verifies."""

    @abstractmethod
    def observe(self, outcome: Outcome) -> None:
        """Take in how the round ended; behind the prefill, the first token."""

    @property
    def wants_draft(self) -> bool:
        """Whether the head should draft behind the round just proposed, for the next one.

        An engine whose head drafts in the dispatch of the round before asks this in advance.
        """
        return bool(self.heads)

    def state(self) -> dict:
        """Everything learned, as plain data for JSON."""
        return {}

    def load_state(self, state: Mapping) -> None:
        """Go on from `state()`; raises ConfigError for the state of another policy."""
        if state:
            raise ConfigError(f"the policy {self.name!r} learns nothing, but a state was given")


def policy_class(name: str) -> type[Policy]:
    """Class behind a policy's name; raises ConfigError with the known names."""
    if name not in POLICIES:
        raise ConfigError(f"unknown policy {name!r}", hint=f"choose one of: {', '.join(POLICIES)}")
    module, _, attribute = POLICIES[name].partition(":")
    return getattr(import_module(module), attribute)


def make_policy(name: str, setup: PolicySetup) -> Policy:
    """Policy of that name; raises ConfigError."""
    return policy_class(name)(setup)


def load_parts(state: Mapping, parts: Mapping[str, object], name: str) -> None:
    """Give each part its piece of a saved state; raises ConfigError if it is not one of `name`.

    Each part has `load_dict`. Nothing is changed unless every piece can be read.
    """
    if not isinstance(state, Mapping) or set(state) != set(parts):
        raise ConfigError(
            f"this is no saved state of the policy {name!r}",
            hint=f"it must hold exactly: {', '.join(sorted(parts))}",
        )
    before = {key: part.to_dict() for key, part in parts.items()}
    try:
        for key, part in parts.items():
            part.load_dict(state[key])
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        for key, part in parts.items():
            part.load_dict(before[key])
        raise ConfigError(f"the saved state of {name!r} is damaged: {error}") from error
