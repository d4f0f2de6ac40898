"""One round on the host: propose, verify on the device, take in what was committed."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tandem_jax.drafters import Drafter, RoundTime
from tandem_jax.engine.events import RoundEvent
from tandem_jax.engine.steps import RoundResult
from tandem_jax.tree import DraftTree
from tandem_jax.tree.rows import Seat


@dataclass(frozen=True)
class Live:
    """Where a running request stands between two rounds."""

    slot: int  # slot of its state
    length: int  # committed tokens already forwarded
    anchor: int  # last committed token, not forwarded yet
    remaining: int  # tokens it may still get, at least 1
    stop: frozenset[int]  # ids that end it


class Device(Protocol):
    """What a round needs of the engine."""

    node_budget: int  # most drafted nodes of a drafter that weighs no prices
    max_nodes: int  # most drafted nodes there are rows for

    @property
    def n_compiled(self) -> int: ...

    def seat(self, live: Live, rows: int, draft: bool) -> Seat: ...

    def verify(self, trees: Sequence[DraftTree], seats: Sequence[Seat]) -> list[RoundResult]: ...


def run_round(
    device: Device,
    drafter: Drafter,
    live: Live,
    on_tree: Callable[[DraftTree, Sequence[int]], None] | None = None,
) -> tuple[RoundEvent, Live]:
    """Advance one request by at least one token."""
    started = time.perf_counter()
    depth = live.remaining - 1
    nodes = device.max_nodes if drafter.takes_all_rows else device.node_budget
    proposal = drafter.propose(live.anchor, nodes, depth) if depth > 0 else None
    tree = DraftTree.root_only(live.anchor) if proposal is None else proposal
    result = _verified(device, drafter, live, tree)
    if on_tree is not None:
        on_tree(tree, result.path.tolist())
    tokens = [*tree.tokens[result.path[1:]].tolist(), result.bonus]
    names = tree.source_names
    sources = [*(names[row] for row in result.path[1:]), "target"]
    drafter.observe(tokens, result.head)
    kept, reason = cut(tokens, live.remaining, live.stop)
    event = RoundEvent(
        tokens=tuple(tokens[:kept]),
        sources=tuple(sources[:kept]),
        rows=len(tree),
        drafted=tree.n_draft,
        accepted=len(result.path) - 1,
        finish_reason=reason,
        round_ms=(time.perf_counter() - started) * 1e3,
    )
    length, remaining = live.length + len(result.path), live.remaining - len(tokens)
    return event, replace(live, length=length, anchor=result.bonus, remaining=remaining)


def _verified(device: Device, drafter: Drafter, live: Live, tree: DraftTree) -> RoundResult:
    """The device's answer to a tree; the drafter is told what it cost."""
    seat = device.seat(live, len(tree), drafter.wants_head)
    compiled, started = device.n_compiled, time.perf_counter()
    (result,) = device.verify([tree], [seat])
    ms = (time.perf_counter() - started) * 1e3
    if device.n_compiled == compiled:
        drafter.measured(RoundTime(len(tree), tree.is_chain, live.length + 1, ms, seat.draft))
    return result


def cut(tokens: Sequence[int], remaining: int, stop: frozenset[int]) -> tuple[int, str | None]:
    """How many of a round's tokens the answer keeps, and why it ends there, if it does.

    The first stop id in token order wins over the limit, as in plain decoding.
    """
    for place, token in enumerate(tokens[:remaining], start=1):
        if token in stop:
            return place, "stop"
    return min(len(tokens), remaining), "length" if len(tokens) >= remaining else None
