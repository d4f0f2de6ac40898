"""The drafter that is wrong on every token, for tests of losslessness."""

from collections.abc import Container
from random import Random

from tandem_jax.drafters.protocol import TruthDrafter
from tandem_jax.tree import DraftTree


class WrongDrafter(TruthDrafter):
    """Claims certainty for a chain in which every token differs from the truth.

    Where no truth is known (none given, or past its end) the tokens are random.
    """

    name = "wrong"

    def propose(self, anchor: int, max_nodes: int, max_depth: int) -> DraftTree | None:
        length = min(max_nodes, max_depth)
        if length < 1:
            return None
        truth = self.upcoming(anchor, length)
        rng = Random(self.round_seed())
        tokens = [
            other_token(rng, self._vocab_size, truth[level : level + 1]) for level in range(length)
        ]
        return DraftTree.chain(anchor, tokens, source="wrong")


def other_token(rng: Random, vocab_size: int, avoid: Container[int]) -> int:
    """Random token outside `avoid`; raises ValueError when `avoid` covers the vocabulary."""
    start = rng.randrange(vocab_size)
    for step in range(vocab_size):
        token = (start + step) % vocab_size
        if token not in avoid:
            return token
    raise ValueError(f"all {vocab_size} tokens of the vocabulary are to be avoided")
