"""What every drafter is asked, and when.

    reset(prompt) -> observe(first token) -> propose -> observe(committed) -> propose -> ...

A drafter can only cost speed, never change the text: verification decides what is kept.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tandem_jax.drafters.lattice import Lattice
from tandem_jax.tree import DraftTree


@dataclass(frozen=True, eq=False)
class HeadDraft:
    """The guess of the model's own head, computed on the device beside the round it follows.

    A block drafter's guess is a `Lattice` instead.
    """

    tokens: np.ndarray  # [K] int32, guessed tokens; the first one comes right after the anchor
    probs: np.ndarray  # [K] float32, the head's probability of each given the ones before
    second: np.ndarray | None = None  # [K] int32, the head's second choice at each step, if kept
    second_probs: np.ndarray | None = None  # [K] float32, the head's probability of those

    def __post_init__(self) -> None:
        if self.tokens.ndim != 1 or self.tokens.shape != self.probs.shape:
            raise ValueError(
                f"head draft of {self.tokens.shape} tokens and {self.probs.shape} probabilities"
            )

    @classmethod
    def of_pairs(cls, tokens: np.ndarray, probs: np.ndarray) -> "HeadDraft":
        """Draft of the two best tokens of each step [K, 2], best first; the best ones chain."""
        return cls(tokens[:, 0], probs[:, 0], tokens[:, 1], probs[:, 1])


@dataclass(frozen=True)
class RoundTime:
    """What a round that ran cost, for drafters that weigh prices."""

    rows: int  # tree rows verified, the anchor included
    is_chain: bool  # the tree was a chain (or the anchor alone)
    length: int  # tokens committed before the round, its anchor included
    ms: float  # from the dispatch to the end of the read, milliseconds
    drafted: bool  # the head drafted behind it


@dataclass(frozen=True)
class DrafterSetup:
    """What a drafter may need to know when it is built."""

    vocab_size: int  # token ids lie in [0, vocab_size)
    seed: int = 0  # start of the random guesses


class Drafter(ABC):
    """Proposes draft trees for one request at a time."""

    name: ClassVar[str]  # as in the DRAFTERS table
    uses_model_head: ClassVar[bool] = False  # wants a HeadDraft with what it observes
    uses_draft_model: ClassVar[bool] = False  # wants a Lattice, from a block drafter
    needs_truth: ClassVar[bool] = False  # wants the plain text first, for tests of the engine
    takes_all_rows: ClassVar[bool] = False  # sizes its trees itself, up to the rows that compile

    @classmethod
    def build(cls, setup: DrafterSetup) -> "Drafter":
        """Drafter with default options; classes that need the setup override this."""
        return cls()

    @abstractmethod
    def reset(self, prompt_ids: Sequence[int], *, truth: Sequence[int] | None = None) -> None:
        """Forget the last request and start one with this prompt.

        `truth` is what plain decoding writes after the prompt, given when `needs_truth`.
        """

    @abstractmethod
    def observe(self, tokens: Sequence[int], head: HeadDraft | Lattice | None) -> None:
        """Take in newly committed tokens, the last of which is the next anchor.

        Called for every committed token: the first one, which prefill picks, and those of
        rounds without a proposal too. `head` continues after the last token, if there is one.
        """

    @abstractmethod
    def propose(self, anchor: int, max_nodes: int, max_depth: int) -> DraftTree | None:
        """Tree of 1 to `max_nodes` drafted nodes, at most `max_depth` deep, or None to decline.

        `anchor` is the last committed token. Raises ValueError when it is not the last one
        observed.
        """

    def measured(self, time: RoundTime) -> None:  # noqa: B027  (most drafters weigh no prices)
        """Hear what a round cost; called before its tokens are observed.

        Not called for a round that compiled something first: its time says nothing about the next.
        """

    @property
    def wants_head(self) -> bool:
        """Whether the head shall draft behind the round about to run; asked after `propose`.

        The head only syncs its cache when nobody listens, which costs next to nothing.
        """
        return self.uses_model_head or self.uses_draft_model


class TruthDrafter(Drafter):
    """A drafter that knows the right answer, to be right or wrong on purpose."""

    needs_truth = True

    def __init__(self, *, vocab_size: int, seed: int = 0) -> None:
        self._vocab_size = vocab_size
        self._seed = seed
        self._truth: list[int] = []
        self._committed: list[int] = []  # tokens observed since the reset

    @classmethod
    def build(cls, setup: DrafterSetup) -> "TruthDrafter":
        return cls(vocab_size=setup.vocab_size, seed=setup.seed)

    def reset(self, prompt_ids: Sequence[int], *, truth: Sequence[int] | None = None) -> None:
        self._truth[:] = [] if truth is None else [int(token) for token in truth]
        self._committed.clear()

    def observe(self, tokens: Sequence[int], head: HeadDraft | Lattice | None) -> None:
        self._committed.extend(int(token) for token in tokens)

    def upcoming(self, anchor: int, length: int) -> list[int]:
        """The next `length` tokens of the truth, fewer near its end."""
        if self._committed:
            check_anchor(anchor, self._committed)
        start = len(self._committed)
        return self._truth[start : start + length]

    def round_seed(self) -> int:
        """Seed of this round's guesses: equal requests are drafted equally."""
        return self._seed * 0x9E3779B1 + len(self._committed)


def check_anchor(anchor: int, tokens: Sequence[int]) -> None:
    """Raise ValueError unless `anchor` is the last of the observed tokens."""
    if not tokens or tokens[-1] != anchor:
        last = tokens[-1] if tokens else "nothing"
        raise ValueError(f"anchor {anchor}, but {last} was observed last: a token was not observed")
