"""No drafting: every round is plain decoding."""

from collections.abc import Sequence

from tandem_jax.drafters.protocol import Drafter, HeadDraft, Lattice


class NoneDrafter(Drafter):
    """Declines every round."""

    name = "none"

    def reset(self, prompt_ids: Sequence[int], *, truth: Sequence[int] | None = None) -> None:
        """Nothing to remember."""

    def observe(self, tokens: Sequence[int], head: HeadDraft | Lattice | None) -> None:
        """Nothing to learn."""

    def propose(self, anchor: int, max_nodes: int, max_depth: int) -> None:
        return None
