"""The chain of the model's own multi-token-prediction head."""

from collections import deque
from collections.abc import Sequence

import numpy as np

from tandem_jax.drafters.protocol import Drafter, HeadDraft, Lattice
from tandem_jax.tree import DraftTree


class MtpDrafter(Drafter):
    """Proposes the head's chain, scored with the running product of its probabilities.

    Declines while there is no head draft: a checkpoint without the head, or a round whose
    dispatch did not run it.
    """

    name = "mtp"
    uses_model_head = True

    def __init__(self) -> None:
        self._latest: deque[HeadDraft | None] = deque(maxlen=1)

    def reset(self, prompt_ids: Sequence[int], *, truth: Sequence[int] | None = None) -> None:
        self._latest.clear()

    def observe(self, tokens: Sequence[int], head: HeadDraft | Lattice | None) -> None:
        # A draft belongs to one anchor: when a round brings none, the old one is stale.
        self._latest.append(head if isinstance(head, HeadDraft) else None)

    def propose(self, anchor: int, max_nodes: int, max_depth: int) -> DraftTree | None:
        head = self._latest[0] if self._latest else None
        length = min(max_nodes, max_depth)
        if head is None or length < 1 or head.tokens.size == 0:
            return None
        # A probability rounded up past one must not make a path rise.
        probs = np.minimum(head.probs[:length].astype(np.float32), np.float32(1.0))
        scores = np.cumprod(probs, dtype=np.float32).tolist()
        return DraftTree.chain(anchor, head.tokens[:length].tolist(), scores=scores, source="mtp")
