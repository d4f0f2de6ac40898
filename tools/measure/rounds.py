"""Rounds against a fixed reference: what a drafter's proposals would have saved.

The reference is the text that the target writes. Its first token comes from prefill and is the
first anchor; a round at anchor i accepts the longest prefix of the proposal that equals the
reference, adds the target's own token, and ends at anchor i + accepted + 1. Letters: N anchors
(all reference tokens but the last), L slots of a proposal, k candidates of a slot.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tandem_jax.drafters.protocol import Drafter


@dataclass(frozen=True)
class Proposals:
    """What a drafter proposes behind every anchor of one reference."""

    chain: np.ndarray  # [N L] int, the tokens it drafts
    candidates: np.ndarray  # [N L k] int, its k best tokens of each slot, best first


@dataclass(frozen=True)
class Tally:
    """Counts over rounds and anchors; tallies add up."""

    committed: int  # tokens that rounds committed, the target's own included
    rounds: int
    accepted: np.ndarray  # [L] rounds that accepted slot l
    reached: np.ndarray  # [L] rounds whose slot l lies inside the reference
    first: np.ndarray  # [L] anchors at which slot l's best candidate is right
    among: np.ndarray  # [L] anchors at which slot l's candidates hold the right token
    anchors: np.ndarray  # [L] anchors whose slot l lies inside the reference

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(a + b for a, b in zip(vars(self).values(), vars(other).values(),
                                             strict=True)))

    @property
    def tokens_per_round(self) -> float:
        """Committed tokens a round, the target's own included."""
        return self.committed / max(1, self.rounds)


def empty_tally(slots: int) -> Tally:
    """Return the tally of nothing."""
    return Tally(0, 0, *(np.zeros(slots, np.int64) for _ in range(5)))


def upcoming(reference: Sequence[int], slots: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the true tokens [N L] behind every anchor, and which of them exist [N L] bool."""
    tokens = np.asarray(reference, np.int64)
    index = np.arange(max(0, len(tokens) - 1))[:, None] + 1 + np.arange(slots)
    valid = index < len(tokens)
    return tokens[np.where(valid, index, 0)], valid


def accepted_lengths(chain: np.ndarray, reference: Sequence[int]) -> np.ndarray:
    """Return [N] accepted drafts of chains [N L] behind every anchor."""
    truth, valid = upcoming(reference, chain.shape[1])
    return np.cumprod((chain == truth) & valid, 1).sum(1)


def walk_rounds(accepted, length: int) -> list[tuple[int, int]]:
    """Return (anchor, accepted drafts) of each round; accepted(anchor) asks for one.

    `length` counts the reference's tokens; nothing behind its end is counted.
    """
    rounds, anchor = [], 0
    while anchor < length - 1:
        count = min(int(accepted(anchor)), length - 1 - anchor)
        rounds.append((anchor, count))
        anchor += min(count + 1, length - 1 - anchor)
    return rounds


def _by_slot(rounds: list[tuple[int, int]], length: int, slots: int):
    slot = np.arange(1, slots + 1)
    anchors, counts = np.array(rounds, np.int64).reshape(-1, 2).T
    return ((counts[:, None] >= slot).sum(0), (anchors[:, None] + slot < length).sum(0))


def tally_proposals(proposals: Proposals, reference: Sequence[int]) -> Tally:
    """Return the rounds that the chains would take, and the recall at every anchor."""
    slots = proposals.chain.shape[1]
    if len(reference) < 2:
        return empty_tally(slots)
    lengths = accepted_lengths(proposals.chain, reference)
    rounds = walk_rounds(lengths.__getitem__, len(reference))
    truth, valid = upcoming(reference, slots)
    hit = (proposals.candidates == truth[..., None]) & valid[..., None]
    return Tally(len(reference) - 1, len(rounds), *_by_slot(rounds, len(reference), slots),
                 hit[..., 0].sum(0), hit.any(-1).sum(0), valid.sum(0))


def tally_drafter(drafter: Drafter, prompt: Sequence[int], reference: Sequence[int], *,
                  max_nodes: int, max_depth: int) -> Tally:
    """Replay a drafter of the engine that sees tokens only; recall is not counted."""
    drafter.reset(prompt)
    drafter.observe(reference[:1], None)
    tally = empty_tally(max_depth)
    if len(reference) < 2:
        return tally
    seen = 1

    def accepted(anchor: int) -> int:
        nonlocal seen
        drafter.observe(reference[seen:anchor + 1], None)
        seen = anchor + 1
        tree = drafter.propose(reference[anchor], max_nodes, max_depth)
        return 0 if tree is None else tree.accepted_against(reference[anchor + 1:])

    rounds = walk_rounds(accepted, len(reference))
    by_slot = _by_slot(rounds, len(reference), max_depth)
    return Tally(len(reference) - 1, len(rounds), *by_slot, tally.first, tally.among, tally.anchors)
