"""Lookup over the request's own text: what followed the last words when they came before."""

from collections.abc import Sequence
from heapq import heappop, heappush

from tandem_jax.drafters.ngrams import MAX_ORDER, NgramIndex
from tandem_jax.drafters.protocol import Drafter, HeadDraft, Lattice, check_anchor
from tandem_jax.tree import DraftTree

_MAX_DEPTH = 16


class LookupDrafter(Drafter):
    """Votes among the continuations of the longest n-gram that ends the text (orders 2 to 8).

    Each earlier place gives one vote to what followed it there. A child's score is
        p(parent) * votes(child) / (votes(parent) + alpha),
    so a single witness decays by 1/(1 + alpha) a level. At most `branch_top_k` children a node;
    the tree keeps its best nodes within the budget and is declined when its scores sum to less
    than `min_expected`. Formula and defaults: the TandemLLM project's published description.
    """

    name = "lookup"

    def __init__(
        self,
        *,
        min_order: int = 2,
        alpha: float = 0.6,
        branch_top_k: int = 3,
        min_expected: float = 0.2,
    ) -> None:
        if not 2 <= min_order <= MAX_ORDER:
            raise ValueError(f"min_order {min_order} is not in [2, {MAX_ORDER}]")
        self._min_order = min_order
        self._alpha = alpha
        self._branch_top_k = branch_top_k
        self._min_expected = min_expected
        self._index = NgramIndex()

    def reset(self, prompt_ids: Sequence[int], *, truth: Sequence[int] | None = None) -> None:
        self._index.rebuild(prompt_ids)

    def observe(self, tokens: Sequence[int], head: HeadDraft | Lattice | None) -> None:
        self._index.extend(tokens)

    def propose(self, anchor: int, max_nodes: int, max_depth: int) -> DraftTree | None:
        check_anchor(anchor, self._index.tokens)
        _, places = self._index.longest_match(self._min_order)
        if not places:
            return None
        tree = self._grow(anchor, places, max_nodes, min(max_depth, _MAX_DEPTH))
        if tree.n_draft == 0 or tree.expected_accepted < self._min_expected:
            return None
        return tree

    def _grow(self, anchor: int, places: list[int], max_nodes: int, max_depth: int) -> DraftTree:
        """Tree of the `max_nodes` best-scored continuations of the text at `places`."""
        tokens, parents, scores, depths = [anchor], [-1], [1.0], [0]
        # (-score, order of arrival, parent, token, places that follow the token)
        heap: list[tuple[float, int, int, int, list[int]]] = []
        node, arrivals = 0, 0
        while True:
            if depths[node] < max_depth:
                for token, followers in self._ballot(places):
                    share = len(followers) / (len(places) + self._alpha)
                    heappush(heap, (-scores[node] * share, arrivals, node, token, followers))
                    arrivals += 1
            if not heap or len(tokens) > max_nodes:
                break
            negative_score, _, parent, token, places = heappop(heap)
            node = len(tokens)
            tokens.append(token)
            parents.append(parent)
            scores.append(-negative_score)
            depths.append(depths[parent] + 1)
        return DraftTree.from_parents(tokens, parents, scores=scores, source="lookup")

    def _ballot(self, places: list[int]) -> list[tuple[int, list[int]]]:
        """The most voted next tokens, newest first on ties, each with the places behind it."""
        text = self._index.tokens
        followers: dict[int, list[int]] = {}
        for place in places:
            if place < len(text):
                followers.setdefault(text[place], []).append(place + 1)
        ranked = sorted(followers.items(), key=lambda item: -len(item[1]))
        return ranked[: self._branch_top_k]
