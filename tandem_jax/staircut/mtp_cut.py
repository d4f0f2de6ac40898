"""StairCut on a model's own MTP head: a chain with second choices, and one copied line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tandem_jax.drafters.protocol import HeadDraft
from tandem_jax.staircut.calibrate import ProbDeciles
from tandem_jax.staircut.cut import Costs, staircut
from tandem_jax.staircut.policy import Decision, Outcome, PolicySetup, RoundInput
from tandem_jax.staircut.priced import PricedPolicy, Round
from tandem_jax.tree.draft_tree import SOURCE_CODE
from tandem_jax.tree.merge import NodeLists

_EVERY = tuple(range(1, 32))  # a cut may end at any count


@dataclass
class _Nodes:
    """A tree under construction: parallel lists, the root first."""

    tokens: list[int]
    parents: list[int]
    q: list[float]
    source: list[int]  # codes

    def add(self, token: int, parent: int, q: float, source: str) -> int:
        """Add a node; returns its index."""
        self.tokens.append(token)
        self.parents.append(parent)
        self.q.append(q)
        self.source.append(SOURCE_CODE[source])
        return len(self.tokens) - 1


class MtpStairCut(PricedPolicy):
    """Keeps the chain's prefix, second choices and copied tokens that earn most a millisecond.

    A node's q is the product of measured acceptances along its path (`ProbDeciles`). The lookup's
    best line is one more branch: while its tokens equal the chain's they share nodes, and a shared
    node's q is 1 - (1 - q_head)(1 - q_lookup); where they part it hangs under the last shared
    node, and past the chain's end it runs on. Nodes come in by q, up to the count that is worth
    most. Source: the TandemLLM project's page on its second router.
    """

    name = "mtp"
    heads = ("mtp",)

    def __init__(self, setup: PolicySetup) -> None:
        super().__init__(setup, "mtp")
        self.deciles = ProbDeciles()
        self._draft: HeadDraft | None = None

    def reset(self, prompt_ids: Sequence[int]) -> None:
        super().reset(prompt_ids)
        self._draft = None

    def propose(self, given: RoundInput) -> Decision:
        self._draft = None
        return super().propose(given)

    def observe(self, outcome: Outcome) -> None:
        if self._draft is not None and outcome.rows:
            self._learn(self._draft, outcome.tokens)
        self._draft = None
        super().observe(outcome)

    def _parts(self) -> dict[str, Mapping]:
        return super()._parts() | {"deciles": self.deciles}

    def _choose(self, given: RoundInput, now: Round) -> Decision:
        self._ask_lookup(given, now)
        self._draft = given.mtp()
        now.asked = self._draft is not None
        nodes = _Nodes([given.anchor], [-1], [1.0], [0])
        chain = self._add_chain(nodes, min(given.max_depth, given.max_nodes))
        if now.lookup is not None:
            self._add_line(nodes, now, chain)
        head = "mtp" if now.asked else ""
        draft_ms = self.draft_cost.ms(given.context) if now.asked or given.paid else 0.0
        plain = 1.0 / (now.plain_ms + draft_ms)
        if len(nodes.tokens) == 1:
            return Decision(None, "plain", head, plain)
        tree = NodeLists(nodes.tokens, nodes.parents, nodes.q, nodes.source)
        kind = "chain" if tree.is_chain else "tree"
        costs = Costs(self.prices.verify_ms(kind, given.context), draft_ms)
        cut = staircut(tree, nodes.q, costs, snap=_EVERY, max_nodes=min(given.max_nodes, 31))
        if cut is None or cut.step.value <= plain:
            return Decision(None, "plain", head, plain)
        label = "merged" if now.lookup is not None and now.asked else "head"
        return Decision(cut.tree, label if now.asked else "lookup", head, cut.step.value)

    def _add_chain(self, nodes: _Nodes, depth: int) -> list[int]:
        """Add the head's chain with its second choices; returns the chain's nodes."""
        chain = [0]
        if self._draft is None:
            return chain
        steps = zip(*self._steps(self._draft), strict=True)
        for (first, second), (p_first, p_second) in list(steps)[:depth]:
            above = nodes.q[chain[-1]]
            if second is not None:
                nodes.add(second, chain[-1], above * self.deciles.q(p_second), "mtp")
            chain.append(nodes.add(first, chain[-1], above * self.deciles.q(p_first), "mtp"))
        return chain

    def _add_line(self, nodes: _Nodes, now: Round, chain: list[int]) -> None:
        """Add the lookup's best line; tokens equal to a node's share it."""
        line = _best_line(now.lookup)
        factor = 1.0 if now.has_rate else self.calibration.lookup.value
        child = {(nodes.parents[i], nodes.tokens[i]): i for i in range(1, len(nodes.tokens))}
        at, above = 0, 1.0
        for token, score in line:
            own = min(score * factor, above)
            shared = child.get((at, token))
            if shared is None:
                at = nodes.add(token, at, min(own, nodes.q[at]), "lookup")
            else:
                both = 1.0 - (1.0 - nodes.q[shared]) * (1.0 - own)
                nodes.q[shared] = min(both, nodes.q[at])
                at = shared
            above = own

    def _learn(self, draft: HeadDraft, tokens: Sequence[int]) -> None:
        """Every token whose parent was accepted was put to the test, verified or not."""
        for (pair, probs), true in zip(zip(*self._steps(draft), strict=True), tokens, strict=False):
            for token, prob in zip(pair, probs, strict=True):
                if token is not None:
                    self.deciles.observe(prob, token == true)
            if pair[0] != true:
                break

    @staticmethod
    def _steps(draft: HeadDraft) -> tuple[list, list]:
        """Pairs of tokens and of probabilities, step by step; (token, None) without a second."""
        first, p_first = draft.tokens.tolist(), draft.probs.tolist()
        if draft.second is None:
            return [(t, None) for t in first], [(p, 0.0) for p in p_first]
        second, p_second = draft.second.tolist(), draft.second_probs.tolist()
        return list(zip(first, second, strict=True)), list(zip(p_first, p_second, strict=True))


def _best_line(nodes: NodeLists) -> list[tuple[int, float]]:
    """Tokens and scores of the walk that takes the best child at each node, the first of equals."""
    best: dict[int, int] = {}
    for node in range(1, len(nodes.tokens)):
        rival = best.setdefault(nodes.parents[node], node)
        if nodes.scores[node] > nodes.scores[rival]:
            best[nodes.parents[node]] = node
    line, at = [], 0
    while at in best:
        at = best[at]
        line.append((nodes.tokens[at], nodes.scores[at]))
    return line
