"""Several drafters at once, their trees merged."""

from collections.abc import Sequence

from tandem_jax.drafters.dflash2 import DFlash2Drafter
from tandem_jax.drafters.lookup import LookupDrafter
from tandem_jax.drafters.mtp import MtpDrafter
from tandem_jax.drafters.protocol import Drafter, HeadDraft, Lattice
from tandem_jax.tree import DraftTree


class CombinedDrafter(Drafter):
    """Merges the chain of the draft head with the lookup tree and keeps the best nodes.

    The head is the block drafter where one is loaded, else the model's own; the other one hears
    nothing and declines. A node that head and lookup propose counts as the head's. A fixed node
    budget decides, no prices.
    """

    name = "auto"
    uses_model_head = True
    uses_draft_model = True

    def __init__(self, parts: Sequence[Drafter] | None = None) -> None:
        default = (DFlash2Drafter(), MtpDrafter(), LookupDrafter())
        self._parts = default if parts is None else tuple(parts)

    def reset(self, prompt_ids: Sequence[int], *, truth: Sequence[int] | None = None) -> None:
        for part in self._parts:
            part.reset(prompt_ids, truth=truth)

    def observe(self, tokens: Sequence[int], head: HeadDraft | Lattice | None) -> None:
        for part in self._parts:
            part.observe(tokens, head)

    def propose(self, anchor: int, max_nodes: int, max_depth: int) -> DraftTree | None:
        merged: DraftTree | None = None
        for part in self._parts:
            tree = part.propose(anchor, max_nodes, max_depth)
            if tree is not None:
                merged = tree if merged is None else merged.merge(tree)
        return None if merged is None else merged.best_nodes(max_nodes)
