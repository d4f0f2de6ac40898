"""A drafter that follows a script, for tests that need one exact pattern of rounds."""

from collections.abc import Sequence

from tandem_jax.drafters.protocol import TruthDrafter
from tandem_jax.tree import DraftTree


class ScriptedDrafter(TruthDrafter):
    """Proposes chains of scripted lengths, each right up to a scripted number of tokens.

    `counts` and `rights` are repeated for ever, one entry a round: counts=(3, 0, 2, 0, 0, 4) drafts
    three tokens, declines, drafts two, ...; rights=(1,) makes all but the first token wrong, None
    makes all right. Near the end of the truth the chains get shorter. `wants` says, in the same
    way, in which rounds a drafter that listens to a head asks for its draft.
    """

    name = "scripted"

    def __init__(
        self,
        *,
        counts: Sequence[int],
        rights: Sequence[int | None] = (None,),
        wants: Sequence[bool] = (True,),
        vocab_size: int,
    ) -> None:
        super().__init__(vocab_size=vocab_size)
        self._counts = tuple(counts)
        self._rights = tuple(rights)
        self._wants = tuple(wants)
        self.drafted: list[int] = []  # tokens drafted in each round since the reset

    def reset(self, prompt_ids: Sequence[int], *, truth: Sequence[int] | None = None) -> None:
        super().reset(prompt_ids, truth=truth)
        self.drafted.clear()

    def propose(self, anchor: int, max_nodes: int, max_depth: int) -> DraftTree | None:
        turn = len(self.drafted)
        count = min(self._counts[turn % len(self._counts)], max_nodes, max_depth)
        right = self._rights[turn % len(self._rights)]
        tokens = self.upcoming(anchor, count)
        self.drafted.append(len(tokens))
        if not tokens:
            return None
        if right is not None:
            tokens[right:] = [(token + 1) % self._vocab_size for token in tokens[right:]]
        return DraftTree.chain(anchor, tokens, source="wrong" if right == 0 else "half-right")

    @property
    def wants_head(self) -> bool:
        turn = len(self.drafted) - 1
        return super().wants_head and self._wants[turn % len(self._wants)]
