"""Trees of a fixed node budget, from before StairCut: the baselines and their pruning rule."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from tandem_jax.drafters.lattice import Lattice
from tandem_jax.staircut.calibrate import DraftCost
from tandem_jax.staircut.lattice_tree import lattice_tree
from tandem_jax.staircut.policy import (
    Decision,
    Outcome,
    Policy,
    PolicySetup,
    RoundInput,
    load_parts,
)
from tandem_jax.tree import DraftTree

NARROW_NODES = 15  # drafted nodes of a tree at any time: 16 rows
WIDE_NODES = 23  # of the wide drafter's once the answer is under way: 24 rows
UNDER_WAY = 32  # committed tokens of an answer from which it is


def prune(tree: DraftTree, budget: int, per_node_ms: float, base_ms: float) -> DraftTree:
    """Keep nodes while they pay for their share of the verify cost, at most `budget`.

    In descending score, a node comes in with its missing ancestors unless their scores sum to less
    than the tokens a millisecond so far are worth in their time: gained/cost * per_node_ms * count,
    where gained starts at 1 and cost at `base_ms`. Rule: the TandemLLM project's published one.
    """
    scores, parents = tree.scores.tolist(), tree.parents.tolist()
    kept, gained, cost = {0}, 1.0, base_ms
    for node in sorted(range(1, len(parents)), key=lambda i: -scores[i]):
        missing = []
        while node not in kept:
            missing.append(node)
            node = parents[node]
        worth = sum(scores[i] for i in missing)
        price = per_node_ms * len(missing)
        if not missing or len(kept) - 1 + len(missing) > budget or worth < gained / cost * price:
            continue
        kept.update(missing)
        gained, cost = gained + worth, cost + price
    return tree.subset(sorted(kept))


class BudgetPolicy(Policy):
    """Merges the head's tree with the lookup's and prunes the union to a node budget."""

    def __init__(self, setup: PolicySetup) -> None:
        self.prices = setup.prices
        self._costs = {arm: DraftCost(setup.draft_ms.get(arm)) for arm in ("wide", "narrow")}
        self._lookup = setup.lookup()
        self._committed = 0  # tokens of the answer
        self._context, self._drafted = 0, ""  # of the round at hand: tokens before it, head asked

    @abstractmethod
    def _arm(self, given: RoundInput) -> str:
        """Which head drafts this round: "wide" or "narrow"."""

    def reset(self, prompt_ids: Sequence[int]) -> None:
        self._lookup.reset(prompt_ids)
        self._committed, self._drafted = 0, ""

    def propose(self, given: RoundInput) -> Decision:
        self._context, self._drafted = given.context, ""
        if min(given.max_nodes, given.max_depth) < 1:
            return Decision(None)
        arm = self._arm(given)
        lattice: Lattice | None = given.wide() if arm == "wide" else given.narrow()
        budget = min(self.budget(arm), given.max_nodes)
        tree = self._lookup.propose_tree(given.anchor, NARROW_NODES, min(given.max_depth, 15))
        if lattice is not None and lattice.is_finite:
            own = lattice_tree(lattice.first(given.max_depth), given.anchor, budget)
            tree = own if tree is None else own.merge(tree)
        asked = self._drafted = "" if lattice is None else arm
        if tree is None:
            return Decision(None, head=asked)
        curve = self.prices.verify_ms("tree", given.context)
        per_node = max((curve[16] - curve[8]) / 8, 0.0)
        draft_ms = self._costs[arm].ms(given.context) if asked else 0.0
        pruned = prune(tree, budget, per_node, curve[8] + draft_ms)
        return Decision(pruned if pruned.n_draft else None, "merged", asked)

    def observe(self, outcome: Outcome) -> None:
        if outcome.draft_ms is not None and self._drafted:
            self._costs[self._drafted].observe(self._context, outcome.draft_ms)
        self._lookup.observe(outcome.tokens, None)
        self._committed += len(outcome.tokens)

    def state(self) -> dict:
        return {arm: cost.to_dict() for arm, cost in self._costs.items()}

    def load_state(self, state: Mapping) -> None:
        load_parts(state, self._costs, self.name)

    def budget(self, arm: str) -> int:
        """Most drafted nodes of an arm's tree by now."""
        return WIDE_NODES if arm == "wide" and self._committed >= UNDER_WAY else NARROW_NODES
