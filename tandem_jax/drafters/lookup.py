"""Lookup: what followed the last words when they came before, here or in stored text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Protocol

import numpy as np

from tandem_jax.drafters.ngrams import MAX_ORDER, NgramIndex
from tandem_jax.drafters.protocol import Drafter, HeadDraft, Lattice, check_anchor
from tandem_jax.tree import DraftTree
from tandem_jax.tree.draft_tree import SOURCE_CODE
from tandem_jax.tree.merge import NodeLists

_MAX_DEPTH = 16
_STORE_ORDER = MAX_ORDER  # tokens a match in stored text needs: shorter ones are mostly chance
_STORE_WEIGHT = 0.5  # vote of a place in stored text; a place in the request has 1
_DEEP_LINE, _DEEP_SHARE = 16, 0.5  # tokens and share of the vote that a deep line needs


class TextStore(Protocol):
    """Stored text that can be searched for the last words."""

    def continuations(
        self, suffix: Sequence[int], min_order: int, depth: int
    ) -> tuple[int, list[tuple[int, ...]]]:
        """Longest match of at least `min_order` tokens and up to `depth` tokens behind each place.

        suffix: the last tokens of the text, at most 8; returns (0, []) without a match.
        """


@dataclass(frozen=True)
class Match:
    """Where a lookup found its lines."""

    source: str  # "local" (the request), "corpus" (stored text) or "both"
    order: int  # tokens of the match
    local_order: int  # tokens of the longest match in the request itself, 0 for none


class LookupDrafter(Drafter):
    """Votes among the continuations of the longest n-gram that ends the text (orders 2 to 8).

    Each earlier place in the request gives one vote to what followed it there, each place in a
    store half a vote; only places of the longest match vote. A child's score is
        p(parent) * votes(child) / (votes(parent) + alpha),
    so a single witness decays by 1/(1 + alpha) a level, or, where a measured copy rate `rho` is
    given, p(parent) * rho * votes(child) / votes(parent). At most `branch_top_k` children a node;
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
        stores: Sequence[TextStore] = (),
    ) -> None:
        if not 2 <= min_order <= MAX_ORDER:
            raise ValueError(f"min_order {min_order} is not in [2, {MAX_ORDER}]")
        self._min_order = min_order
        self._alpha = alpha
        self._branch_top_k = branch_top_k
        self._min_expected = min_expected
        self._stores = tuple(stores)
        self._index = NgramIndex()
        self._votes: dict[tuple[int, ...], float] = {}
        self._match: list[Match | None] = [None]

    @property
    def match(self) -> Match | None:
        """The match of the last proposal, None if nothing matched."""
        return self._match[0]

    @property
    def top(self) -> tuple[int, ...]:
        """The heaviest continuation of the last proposal, also of a declined one; () for none."""
        return max(self._votes, key=self._votes.__getitem__, default=())

    @property
    def length(self) -> int:
        """Tokens of the request so far."""
        return len(self._index.tokens)

    def reset(self, prompt_ids: Sequence[int], *, truth: Sequence[int] | None = None) -> None:
        self._index.rebuild(prompt_ids)
        self._votes.clear()
        self._match[0] = None

    def observe(self, tokens: Sequence[int], head: HeadDraft | Lattice | None) -> None:
        self._index.extend(tokens)

    def propose(self, anchor: int, max_nodes: int, max_depth: int) -> DraftTree | None:
        return self.propose_tree(anchor, max_nodes, min(max_depth, _MAX_DEPTH))

    def propose_tree(
        self,
        anchor: int,
        max_nodes: int,
        max_depth: int,
        rho: Callable[[Match], float | None] | None = None,
    ) -> DraftTree | None:
        """The tree of `propose_nodes`."""
        nodes = self.propose_nodes(anchor, max_nodes, max_depth, rho)
        return None if nodes is None else DraftTree.of_lists(nodes)

    def propose_nodes(
        self,
        anchor: int,
        max_nodes: int,
        max_depth: int,
        rho: Callable[[Match], float | None] | None = None,
    ) -> NodeLists | None:
        """As `propose`, as nodes without order, and with a copy rate.

        `rho` maps the match to a rate, or to None where the decay should stand.
        """
        check_anchor(anchor, self._index.tokens)
        self._match[0] = self._search(max_depth)
        if self._match[0] is None:
            return None
        rate = None if rho is None else rho(self._match[0])
        nodes = self._grow(anchor, max_nodes, max_depth, rate)
        expected = sum(nodes.scores) - 1.0
        return nodes if len(nodes.tokens) > 1 and expected >= self._min_expected else None

    def deep_line(self, anchor: int, length: int) -> DraftTree | None:
        """One long line of up to `length` tokens, where the text has clearly turned into a copy.

        Needs a match of eight tokens in the request, and a heaviest continuation of at least 16
        tokens that has half of the vote. Every node has score 1.
        """
        check_anchor(anchor, self._index.tokens)
        match = self._match[0] = self._search(length)
        if match is None or match.local_order < MAX_ORDER or match.order != match.local_order:
            return None
        line = self.top
        if len(line) < _DEEP_LINE or self._votes[line] < _DEEP_SHARE * sum(self._votes.values()):
            return None
        return DraftTree.chain(anchor, line[:length], source="deep")

    def _search(self, depth: int) -> Match | None:
        """Collect the votes of the longest match: `self._votes` by continuation, newest first."""
        self._votes.clear()
        text = self._index.tokens
        local, places = self._index.longest_match(self._min_order)
        found = [
            store.continuations(text[-MAX_ORDER:], max(_STORE_ORDER, local), depth)
            for store in self._stores
        ]
        stored = max((order for order, _ in found), default=0)
        best = max(local, stored)
        if not best or depth < 1:
            return None
        votes = self._votes
        if local == best:
            for place in places:
                line = tuple(text[place : place + depth])
                votes[line] = votes.get(line, 0.0) + 1.0
        for order, lines in found:
            for line in lines if order == best else ():
                votes[line] = votes.get(line, 0.0) + _STORE_WEIGHT
        source = "both" if local == stored else "local" if local == best else "corpus"
        return Match(source, best, local)

    def _grow(self, anchor: int, max_nodes: int, max_depth: int, rate: float | None) -> NodeLists:
        """Nodes of the `max_nodes` best-scored continuations."""
        tokens, parents, scores, depths = [anchor], [-1], [1.0], [0]
        # (-score, order of arrival, parent, token, lines through the token, their weight)
        heap: list[tuple] = []
        lines = list(self._votes.items())
        node, arrivals, mass = 0, 0, sum(self._votes.values())
        while True:
            depth = depths[node]
            if depth < max_depth:
                share = scores[node] * rate / mass if rate else scores[node] / (mass + self._alpha)
                for token, through, weight in self._ballot(lines, depth, mass):
                    heappush(heap, (-share * weight, arrivals, node, token, through, weight))
                    arrivals += 1
            if not heap or len(tokens) > max_nodes:
                break
            negative_score, _, parent, token, lines, mass = heappop(heap)
            node = len(tokens)
            tokens.append(token)
            parents.append(parent)
            scores.append(-negative_score)
            depths.append(depths[parent] + 1)
        weights = np.array(scores, np.float32).tolist()
        source = [0] + [SOURCE_CODE["lookup"]] * (len(tokens) - 1)
        return NodeLists(tokens, parents, weights, source)

    def _ballot(self, lines: list, depth: int, mass: float) -> list[tuple[int, list, float]]:
        """The heaviest next tokens, newest first on ties: (token, lines through it, weight).

        mass: weight of all `lines`, which are (continuation, weight) pairs.
        """
        words = {line[depth] for line, _ in lines if depth < len(line)}
        if len(words) == 1 and all(depth < len(line) for line, _ in lines):
            return [(*words, lines, mass)]
        followers: dict[int, list] = {}
        for entry in lines:
            if depth < len(entry[0]):
                followers.setdefault(entry[0][depth], []).append(entry)
        ranked = [
            (token, through, sum(w for _, w in through)) for token, through in followers.items()
        ]
        ranked.sort(key=lambda item: -item[2])
        return ranked[: self._branch_top_k]
