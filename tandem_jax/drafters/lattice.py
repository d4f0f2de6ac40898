"""What a block drafter says in one pass: candidates for each slot, scored by their predecessor."""

from dataclasses import dataclass

import numpy as np

from tandem_jax.tree import DraftTree

GREEDY = "df2-greedy"  # source of the nodes on the greedy walk


@dataclass(frozen=True, eq=False)
class Lattice:
    """The candidates of L slots behind an anchor. Raises ValueError if the shapes do not agree."""

    cand: np.ndarray  # [L, k] int32, token ids, best first by the head alone
    scores: np.ndarray  # [L, k, k] float32, [l, p, c]: candidate c behind candidate p of slot l - 1
    temperature: float  # scores / temperature are the logits of a path's probability

    def __post_init__(self) -> None:
        slots, k = self.cand.shape
        if self.scores.shape != (slots, k, k) or slots < 1:
            raise ValueError(f"lattice of {self.cand.shape} candidates, {self.scores.shape} scores")

    @property
    def is_finite(self) -> bool:
        """False if a score is NaN or infinite: the drafter's weights are damaged."""
        return bool(np.isfinite(self.scores).all())

    def first(self, slots: int) -> "Lattice":
        """The lattice of the first `slots` slots, at least one."""
        if slots >= len(self.cand):
            return self
        return Lattice(self.cand[:slots], self.scores[:slots], self.temperature)

    def greedy_walk(self) -> np.ndarray:
        """Index [L] of the best candidate of each slot behind the one chosen before it.

        Every row of slot 0 stands for the anchor; the first one is read.
        """
        best = self.scores.argmax(axis=-1).tolist()
        walk, row = [], 0
        for slot in best:
            row = slot[row]
            walk.append(row)
        return np.array(walk)

    def path_probs(self, walk: np.ndarray) -> np.ndarray:
        """Probability [L] float32 of the walk up to each slot, at the lattice's temperature."""
        slots, before = np.arange(len(walk)), np.concatenate([[0], walk[:-1]])
        logits = self.scores[slots, before].astype(np.float64) / self.temperature
        logits -= logits.max(axis=-1, keepdims=True)
        own = logits[slots, walk] - np.log(np.exp(logits).sum(axis=-1))
        return np.exp(np.cumsum(own)).astype(np.float32)

    def greedy_chain(self, anchor: int, length: int) -> DraftTree:
        """The first `length` tokens of the greedy walk as a tree, scored with path probabilities.

        Takes a lattice whose scores are finite.
        """
        walk = self.greedy_walk()
        tokens = self.cand[np.arange(len(walk)), walk][:length].tolist()
        scores = self.path_probs(walk)[:length].tolist()
        return DraftTree.chain(anchor, tokens, scores=scores, source=GREEDY)
