"""The chain of a block drafter: the greedy walk through its lattice."""

import logging
from collections import deque
from collections.abc import Sequence

from tandem_jax.drafters.lattice import Lattice
from tandem_jax.drafters.protocol import Drafter, HeadDraft
from tandem_jax.tree import DraftTree

log = logging.getLogger("tandem_jax")


class DFlash2Drafter(Drafter):
    """Proposes the selector's walk, cut to the budget; for DFlash v1 the best token of each slot.

    Declines while there is no lattice and when its scores are not finite; the first such lattice
    of a request is told in the log.
    """

    name = "dflash2"
    uses_draft_model = True

    def __init__(self) -> None:
        self._latest: deque[Lattice | None] = deque(maxlen=1)
        self.broken = 0  # lattices of this request that were not finite

    def reset(self, prompt_ids: Sequence[int], *, truth: Sequence[int] | None = None) -> None:
        self._latest.clear()
        self.broken = 0

    def observe(self, tokens: Sequence[int], head: HeadDraft | Lattice | None) -> None:
        # A lattice belongs to one anchor: when a round brings none, the old one is stale.
        lattice = head if isinstance(head, Lattice) else None
        if lattice is not None and not lattice.is_finite:
            if not self.broken:
                log.warning("the drafter's scores are not finite: it proposes nothing")
            self.broken += 1
            lattice = None
        self._latest.append(lattice)

    def propose(self, anchor: int, max_nodes: int, max_depth: int) -> DraftTree | None:
        lattice = self._latest[0] if self._latest else None
        length = min(max_nodes, max_depth)
        if lattice is None or length < 1:
            return None
        return lattice.greedy_chain(anchor, length)
