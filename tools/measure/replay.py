"""Replay of a policy on recorded heads: its own decisions, the reference's tokens, priced rounds.

The reference is what the target writes, so a round accepts the path of the tree that equals it and
adds the next token: exactly what the engine would commit. Time is simulated: verify by rows, kind
and context, plus the draft of each head that was asked.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tandem_jax.staircut.policy import Decision, Outcome, Policy, RoundInput
from tandem_jax.staircut.prices import PriceTable
from tandem_jax.tree import DraftTree
from tools.measure.record import Record

MAX_NODES = 31


@dataclass(frozen=True)
class Priced:
    """What rounds cost in the replay."""

    table: PriceTable
    context: int | None = None  # price as if at so many tokens; None = the true length

    def round_ms(self, decision: Decision, context: int) -> tuple[float, float]:
        """(verify ms, draft ms) of a round; a plain step is priced as one."""
        at = self.context or context
        tree = decision.tree
        if tree is None:
            verify = self.table.plain_ms(at)
        else:
            kind = "chain" if tree.is_chain else "tree"
            verify = float(self.table.verify_ms(kind, at)[len(tree)])
        head = decision.head
        return verify, self.table.draft_ms(head, at) or 0.0 if head else 0.0


@dataclass
class Replayed:
    """What a policy did over one or more references."""

    tokens: int = 0  # committed by rounds
    ms: float = 0.0  # simulated
    rounds: int = 0
    drafts: int = 0  # rounds that asked a head
    rows: int = 0  # verified
    labels: Counter = field(default_factory=Counter)  # rounds by decision
    sources: Counter = field(default_factory=Counter)  # tokens by source

    @property
    def tok_s(self) -> float:
        """Tokens a second of simulated time."""
        return 1e3 * self.tokens / max(self.ms, 1e-9)

    def add(self, other: "Replayed") -> None:
        """Take in another reference."""
        for name, value in vars(other).items():
            if isinstance(value, Counter):
                getattr(self, name).update(value)
            else:
                setattr(self, name, getattr(self, name) + value)


OnRound = Callable[[Decision, Sequence[int], float, float], None]  # (what, tokens, verify, draft)


def replay(
    policy: Policy, record: Record, prices: Priced, on_round: OnRound | None = None
) -> Replayed:
    """Run a policy over one record, from the first token of the reference to its end."""
    reference = record.reference.tolist()
    policy.reset(record.prompt.tolist())
    policy.observe(Outcome(reference[:1]))
    found, anchor = Replayed(), 0
    while anchor < len(reference) - 1:
        left = len(reference) - 1 - anchor
        context = len(record.prompt) + anchor + 1
        decision = policy.propose(_given(record, anchor, prices.context or context, left - 1))
        tree = decision.tree
        got = 0 if tree is None else tree.accepted_against(reference[anchor + 1 :])
        tokens = reference[anchor + 1 : anchor + got + 2]
        verify, draft = prices.round_ms(decision, context)
        rows = 1 if tree is None else len(tree)
        policy.observe(Outcome(tokens, rows, verify, draft if decision.head else None))
        if on_round is not None:
            on_round(decision, tokens, verify, draft)
        _book(found, decision, tokens, got, verify + draft)
        anchor += len(tokens)
    return found


def _given(record: Record, anchor: int, context: int, depth: int) -> RoundInput:
    return RoundInput(
        anchor=int(record.reference[anchor]),
        context=context,
        max_nodes=MAX_NODES,
        max_depth=depth,
        wide=lambda: record.lattice("wide", anchor),
        narrow=lambda: record.lattice("narrow", anchor),
        mtp=lambda: record.chain(anchor),
    )


def _book(found: Replayed, decision: Decision, tokens: Sequence[int], got: int, ms: float) -> None:
    found.tokens += len(tokens)
    found.ms += ms
    found.rounds += 1
    found.drafts += bool(decision.head)
    found.rows += 1 if decision.tree is None else len(decision.tree)
    found.labels[decision.label] += 1
    found.sources["target"] += 1
    if decision.tree is not None:
        names = decision.tree.source_names
        found.sources.update(names[node] for node in accepted_nodes(decision.tree, tokens[:got]))


def accepted_nodes(tree: DraftTree, tokens: Sequence[int]) -> list[int]:
    """Nodes of a tree that committed tokens accept, the root left out."""
    parents, words = tree.parents.tolist(), tree.tokens.tolist()
    child = dict(zip(zip(parents, words, strict=True), range(len(words)), strict=True))
    at, path = 0, []
    for token in tokens:
        if (at, token) not in child:
            break
        at = child[at, token]
        path.append(at)
    return path
