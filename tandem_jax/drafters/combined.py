"""Several drafters at once, their trees merged."""

from collections.abc import Sequence

from tandem_jax.drafters.lookup import LookupDrafter
from tandem_jax.drafters.mtp import MtpDrafter
from tandem_jax.drafters.protocol import Drafter, HeadDraft
from tandem_jax.tree import DraftTree


class CombinedDrafter(Drafter):
    """Merges the model head's chain with the lookup tree and keeps the best nodes.

    A node that both propose counts as the head's. A fixed node budget decides, no prices.
    """

    name = "auto"
    uses_model_head = True

    def __init__(self, parts: Sequence[Drafter] | None = None) -> None:
        self._parts = (MtpDrafter(), LookupDrafter()) if parts is None else tuple(parts)

    def reset(self, prompt_ids: Sequence[int], *, truth: Sequence[int] | None = None) -> None:
        for part in self._parts:
            part.reset(prompt_ids, truth=truth)

    def observe(self, tokens: Sequence[int], head: HeadDraft | None) -> None:
        for part in self._parts:
            part.observe(tokens, head)

    def propose(self, anchor: int, max_nodes: int, max_depth: int) -> DraftTree | None:
        merged: DraftTree | None = None
        for part in self._parts:
            tree = part.propose(anchor, max_nodes, max_depth)
            if tree is not None:
                merged = tree if merged is None else merged.merge(tree)
        return None if merged is None else merged.best_nodes(max_nodes)
