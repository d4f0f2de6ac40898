"""The draft tree: what a drafter proposes and one verify pass checks."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from tandem_jax.tree.invariants import check_lengths, check_order, check_parents
from tandem_jax.tree.merge import NodeLists, grafted, reordered
from tandem_jax.tree.render import render_html, render_text

# Codes are stable: new sources go to the end.
SOURCES = (
    "target",
    "lookup",
    "mtp",
    "wrong",
    "half-right",
    "random",
    "df2-greedy",
    "df2-tree",
    "deep",
)
SOURCE_CODE = {name: code for code, name in enumerate(SOURCES)}

_DTYPES = {"tokens": np.int32, "parents": np.int32, "scores": np.float32, "source": np.int8}


@dataclass(frozen=True, eq=False, repr=False)
class DraftTree:
    """N drafted tokens below the anchor, as parallel read-only arrays in depth-first pre-order.

    Raises ValueError when an invariant does not hold (see `validate`); equality is by value.
    """

    tokens: np.ndarray  # [N+1] int32, token ids; tokens[0] is the anchor, not yet forwarded
    parents: np.ndarray  # [N+1] int32, index of the parent, -1 for the root
    scores: np.ndarray  # [N+1] float32, path probability as the drafter sees it, 1 for the root
    source: np.ndarray  # [N+1] int8, codes into SOURCES, "target" for the root

    def __post_init__(self) -> None:
        for name, dtype in _DTYPES.items():
            array = np.asarray(getattr(self, name)).astype(dtype, casting="same_kind")
            object.__setattr__(self, name, _frozen(array))
        self.validate()

    @classmethod
    def from_parents(
        cls,
        tokens: Sequence[int],
        parents: Sequence[int],
        *,
        source: str | Sequence[str],
        scores: Sequence[float] | None = None,
    ) -> "DraftTree":
        """Tree from nodes in any order that has parents first; re-emitted in canonical order.

        tokens, parents, scores [N+1], root included; scores default to 1. `source` names all
        drafted nodes, or each of the N in turn. Raises ValueError for an illegal tree.
        """
        n_rows = len(tokens)
        names = [source] * (n_rows - 1) if isinstance(source, str) else list(source)
        unknown = sorted(set(names) - set(SOURCES))
        if unknown:
            raise ValueError(f"unknown source {unknown[0]!r}; known: {', '.join(SOURCES)}")
        # Order by the float32 values that are kept, or rounding could undo the order.
        weights = np.ones(n_rows) if scores is None else np.asarray(scores)
        nodes = NodeLists(
            [int(token) for token in tokens],
            [int(parent) for parent in parents],
            weights.astype(np.float32).tolist(),
            [0] + [SOURCE_CODE[name] for name in names],
        )
        check_lengths(nodes)
        check_parents(nodes.parents)
        return cls(*reordered(nodes))

    @classmethod
    def chain(
        cls,
        anchor: int,
        tokens: Sequence[int],
        *,
        source: str,
        scores: Sequence[float] | None = None,
    ) -> "DraftTree":
        """One line of N tokens below the anchor; scores [N] default to 1."""
        path_scores = None if scores is None else [1.0, *scores]
        return cls.from_parents(
            [anchor, *tokens], range(-1, len(tokens)), source=source, scores=path_scores
        )

    @classmethod
    def root_only(cls, anchor: int) -> "DraftTree":
        """The tree of plain decoding: the anchor and nothing drafted."""
        return cls([anchor], [-1], [1.0], [0])

    def validate(self) -> None:
        """Check rules I1 to I4 of `tree.invariants`; raises ValueError naming node and rule."""
        nodes = self.lists()
        tokens, parents, scores, source = nodes
        check_lengths(nodes)
        check_parents(parents)
        if scores[0] != 1.0 or source[0] != 0:
            raise ValueError("the root must have score 1 and source 'target'")
        if min(tokens) < 0:
            raise ValueError(f"negative token id {min(tokens)}")
        if min(source) < 0 or max(source) >= len(SOURCES):
            raise ValueError(f"source codes must lie in [0, {len(SOURCES)})")
        check_order(nodes)

    @classmethod
    def lawful(cls, tokens, parents, scores, source) -> "DraftTree":
        """Tree of fields that are legal by construction, unchecked: for the loops of a round.

        tokens, parents, scores, source [N+1] in canonical order, as in the fields.
        """
        tree = object.__new__(cls)
        # Past the frozen class's own door, field by field: a round makes half a dozen trees.
        tree.__dict__.update(
            tokens=_frozen(np.array(tokens, np.int32)),
            parents=_frozen(np.array(parents, np.int32)),
            scores=_frozen(np.array(scores, np.float32)),
            source=_frozen(np.array(source, np.int8)),
        )
        return tree

    @classmethod
    def of_lists(cls, nodes: NodeLists) -> "DraftTree":
        """Tree of nodes that are legal but for their order, unchecked."""
        return cls.lawful(*reordered(nodes))

    @property
    def n_draft(self) -> int:
        """Drafted nodes, the anchor not counted."""
        return self.tokens.size - 1

    @cached_property
    def is_chain(self) -> bool:
        """True when no node has two children (the root alone counts)."""
        # In pre-order a parent is the node before, or another child lies in between.
        last = self.n_draft
        return int(self.parents[last]) == last - 1 and self.parents.tolist() == [*range(-1, last)]

    @property
    def expected_accepted(self) -> float:
        """Sum of the drafted scores: accepted tokens to expect if the scores are right."""
        return float(self.scores[1:].sum(dtype=np.float64))

    @property
    def source_names(self) -> tuple[str, ...]:
        """Source of each node by name."""
        return tuple(SOURCES[code] for code in self.source.tolist())

    @cached_property
    def depth(self) -> np.ndarray:
        """[N+1] int32, edges between node and root; a row's position is the root's plus this."""
        depth = [0] * self.tokens.size
        for node, parent in enumerate(self.parents.tolist()[1:], start=1):
            depth[node] = depth[parent] + 1
        return _frozen(np.array(depth, np.int32))

    @cached_property
    def ancestors(self) -> np.ndarray:
        """[N+1, N+1] bool, entry [i, j]: j is i or an ancestor of i (lower triangular)."""
        parents = self.parents.tolist()
        end = list(range(1, len(parents) + 1))
        for node in range(len(parents) - 1, 0, -1):
            end[parents[node]] = max(end[parents[node]], end[node])
        node = np.arange(len(parents))
        # Subtrees are contiguous ranges (I2), so being below j is two comparisons.
        return _frozen((node[:, None] >= node) & (node[:, None] < np.array(end)))

    def path_table(self) -> np.ndarray:
        """[N+1, N+1] int32, entry [i, d]: the node at depth d on the path to i, -1 beyond i."""
        table = np.full(self.ancestors.shape, -1, np.int32)
        node, ancestor = np.nonzero(self.ancestors)
        table[node, self.depth[ancestor]] = ancestor
        return table

    def subset(self, keep: Sequence[int]) -> "DraftTree":
        """The tree of the nodes listed in `keep`; raises ValueError unless ancestor-closed."""
        kept = np.zeros(self.tokens.size, bool)
        kept[np.asarray(keep, np.int64)] = True
        nodes = np.flatnonzero(kept)
        if not kept[0] or not kept[self.parents[nodes[1:]]].all():
            raise ValueError("a subset must hold the root and the parent of each of its nodes")
        # Dropping whole subtrees keeps both orders (pre-order, descending siblings) intact.
        place = np.cumsum(kept) - 1
        parents = place[self.parents[nodes]]
        parents[0] = -1
        return self.lawful(self.tokens[nodes], parents, self.scores[nodes], self.source[nodes])

    def truncate(self, n_rows: int) -> "DraftTree":
        """The first `n_rows` nodes, root included: legal for any prefix of a pre-order."""
        if n_rows < 1:
            raise ValueError(f"cannot truncate a tree to {n_rows} rows: the root always stays")
        if n_rows >= self.tokens.size:
            return self
        return self.lawful(*(getattr(self, name)[:n_rows] for name in _DTYPES))

    def merge(self, other: "DraftTree") -> "DraftTree":
        """Union of both trees; a shared node keeps this tree's source and the higher score.

        Raises ValueError when the anchors differ.
        """
        return self.lawful(*grafted(self.lists(), other.lists()))

    def best_nodes(self, budget: int) -> "DraftTree":
        """At most `budget` drafted nodes of the highest scores, each with its ancestors.

        Nodes are admitted in descending score (stable); one whose missing ancestors do not fit
        is passed over. Best possible expected length when scores never rise along a path.
        """
        if budget >= self.n_draft:
            return self
        parents = self.parents.tolist()
        kept = {0}
        for node in (np.argsort(-self.scores[1:], kind="stable") + 1).tolist():
            missing = []
            while node not in kept:
                missing.append(node)
                node = parents[node]
            if len(kept) - 1 + len(missing) <= budget:
                kept.update(missing)
        return self.subset(sorted(kept))

    def accept_walk(self, picks: Sequence[int]) -> list[int]:
        """Nodes of the accepted path, root first, for the target's pick [N+1] at each node."""
        picked = np.asarray(picks).tolist()
        tokens, parents, _, _ = self.lists()
        path = [0]
        for node in range(1, len(tokens)):
            if parents[node] == path[-1] and tokens[node] == picked[path[-1]]:
                path.append(node)
        return path

    def accepted_against(self, continuation: Sequence[int]) -> int:
        """How many drafted tokens a target that writes `continuation` [any length] accepts."""
        wanted = np.asarray(continuation, np.int64).tolist()
        tokens, parents, _, _ = self.lists()
        last, length = 0, 0
        for node in range(1, len(tokens)):
            if length == len(wanted):
                break
            if parents[node] == last and tokens[node] == wanted[length]:
                last, length = node, length + 1
        return length

    def __len__(self) -> int:
        """Verify rows: drafted nodes and the root."""
        return self.tokens.size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DraftTree):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, field.name), getattr(other, field.name))
            for field in fields(self)
        )

    def __repr__(self) -> str:
        return render_text(self)

    def _repr_html_(self) -> str:
        return render_html(self)

    def lists(self) -> NodeLists:
        """The fields as plain lists, for loops over nodes."""
        return NodeLists(
            self.tokens.tolist(), self.parents.tolist(), self.scores.tolist(), self.source.tolist()
        )


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
