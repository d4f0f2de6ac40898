"""The drafter that is right for half of its line, for tests of partial acceptance."""

from collections.abc import Sequence
from random import Random

from tandem_jax.drafters.protocol import TruthDrafter
from tandem_jax.drafters.wrong import other_token
from tandem_jax.errors import ConfigError
from tandem_jax.tree import DraftTree

# The decoy beside a right token scores higher, so the accepted path is never the first branch.
_DECOY_PROB = 0.5
_LINE_PROB = 0.45


class HalfRightDrafter(TruthDrafter):
    """A line whose first half (rounded up) is the truth and whose rest is wrong.

    Room left by the line goes to wrong siblings that outrank the right tokens, from the root
    down. Declines once the truth is used up.
    """

    name = "half-right"

    def reset(self, prompt_ids: Sequence[int], *, truth: Sequence[int] | None = None) -> None:
        """Start a request; raises ConfigError without a truth."""
        if truth is None:
            raise ConfigError(
                "the drafter half-right needs the text that plain decoding writes",
                hint="decode the request with the drafter none first and pass its tokens",
            )
        super().reset(prompt_ids, truth=truth)

    def propose(self, anchor: int, max_nodes: int, max_depth: int) -> DraftTree | None:
        # Two thirds for the line leaves one decoy for each of its right tokens.
        truth = self.upcoming(anchor, min(max_depth, (2 * max_nodes + 2) // 3))
        if not truth or max_nodes < 1:
            return None
        n_right = (len(truth) + 1) // 2
        n_decoys = min(max_nodes - len(truth), n_right)
        rng = Random(self.round_seed())
        tokens, parents, scores = [anchor], [-1], [1.0]
        tip = 0
        for level, right in enumerate(truth):
            score = scores[tip]
            wrong = other_token(rng, self._vocab_size, (right,))
            if level < n_decoys:
                tokens.append(wrong)
                parents.append(tip)
                scores.append(score * _DECOY_PROB)
            tokens.append(right if level < n_right else wrong)
            parents.append(tip)
            scores.append(score * _LINE_PROB)
            tip = len(tokens) - 1
        return DraftTree.from_parents(tokens, parents, scores=scores, source="half-right")
