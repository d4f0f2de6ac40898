"""How far a drafter's probabilities can be believed, learned from what was committed."""

from collections.abc import Mapping, Sequence
from operator import mul

from tandem_jax.staircut.estimators import Est, Rate
from tandem_jax.staircut.price_model import context_class
from tandem_jax.tree.merge import NodeLists

_ALPHA = 0.15
_MEAN_ACCEPTED = 4.3  # tokens of a head's tree to expect before any round, of 15
_DECILES = 10
_DRAFT_WINDOW = (0.1, 6.0)  # a draft's time counts between these multiples of its prior


class Calibration:
    """Accepted tokens over the sum of scores, for the head's tree and for the lookup's.

    A factor scales q of its source's nodes; it has no upper bound (on quotations a lookup is
    right far more often than its votes say), so q is capped where it is used. `head_accepted` is
    the plain mean of accepted tokens of the head's tree, for the decision to draft at all. These
    outlive a request: what one text teaches is the best guess for the next.
    """

    def __init__(self) -> None:
        self.head = Rate(1.0, _ALPHA)
        self.lookup = Rate(1.0, _ALPHA)
        self.head_accepted = Rate(_MEAN_ACCEPTED, _ALPHA)

    def to_dict(self) -> dict:
        """The three figures as plain data for JSON."""
        return {name: getattr(self, name).value for name in ("head", "lookup", "head_accepted")}

    def load_dict(self, state: Mapping) -> None:
        """Go on from `to_dict`; raises KeyError, TypeError or ValueError for something else."""
        values = {name: float(state[name]) for name in ("head", "lookup", "head_accepted")}
        for name, value in values.items():
            getattr(self, name).value = value


class ProbDeciles:
    """Measured acceptance by the tenth of the probability the head gives a token.

    A tenth starts at the probability itself and learns from every token that the round put to the
    test: one whose parent was accepted. Source: the TandemLLM project's page; the weight of a new
    sample, and that nothing is forgotten otherwise, are ours.
    """

    def __init__(self, alpha: float = 0.05) -> None:
        self._alpha = alpha
        self._shift = [0.0] * _DECILES  # measured acceptance less probability, by tenth
        self.counts = [0] * _DECILES  # tokens put to the test, by tenth

    def q(self, prob: float) -> float:
        """Probability that a token of this probability is accepted, its parent given."""
        return min(max(prob + self._shift[_decile(prob)], 0.0), 1.0)

    def observe(self, prob: float, accepted: bool) -> None:
        """Take in one tested token."""
        tenth = _decile(prob)
        self.counts[tenth] += 1
        alpha = max(self._alpha, 1.0 / (self.counts[tenth] + 4))
        self._shift[tenth] += alpha * (float(accepted) - prob - self._shift[tenth])

    def to_dict(self) -> dict:
        """Deviations and counts by tenth."""
        return {"shift": list(self._shift), "counts": list(self.counts)}

    def load_dict(self, state: Mapping) -> None:
        """Go on from `to_dict`; raises KeyError, TypeError or ValueError for something else."""
        shift, counts = [float(x) for x in state["shift"]], [int(x) for x in state["counts"]]
        if len(shift) != _DECILES or len(counts) != _DECILES:
            raise ValueError(f"{len(shift)} tenths, not {_DECILES}")
        self._shift, self.counts = shift, counts


class DraftCost:
    """Ms of one draft by context class: an estimate that starts at the table's figure."""

    def __init__(self, prior_ms: Mapping[int, float] | None) -> None:
        """`prior_ms`: figures by context (the nearest lower one counts), None if there are none."""
        self._prior = dict(prior_ms or {})
        self._learned: dict[int, Est] = {}

    def ms(self, context: int) -> float:
        """What a draft costs at this context length; 0 while nothing at all is known."""
        cls = context_class(context)
        return self._learned[cls].value if cls in self._learned else self._before(cls) or 0.0

    def observe(self, context: int, ms: float) -> None:
        """Take in one draft's time; one far from the prior is no draft's time and is dropped."""
        cls = context_class(context)
        prior = self._before(cls)
        low, high = (x * prior for x in _DRAFT_WINDOW) if prior else (0.0, float("inf"))
        if low <= ms <= high:
            self._learned.setdefault(cls, Est(prior or ms, 0.3, 3)).update(ms)

    def to_dict(self) -> dict:
        """Learned costs by class."""
        return {str(cls): [est.value, est.count] for cls, est in sorted(self._learned.items())}

    def load_dict(self, state: Mapping) -> None:
        """Go on from `to_dict`; raises TypeError or ValueError for something else."""
        self._learned = {
            int(cls): Est(float(value), 0.3, 3, int(count)) for cls, (value, count) in state.items()
        }

    def _before(self, cls: int) -> float | None:
        below = [context for context in self._prior if context <= cls]
        if not self._prior:
            return None
        return self._prior[max(below) if below else min(self._prior)]


def put_to_test(nodes: NodeLists, tokens: Sequence[int]) -> tuple[int, float]:
    """Accepted nodes of a candidate, and the sum of scores that committed tokens put to the test.

    What lies below the last committed token on the accepted path was not tested: it is left out,
    or a round cut short would look like one that was wrong.
    """
    words, parents, scores, _ = nodes
    child = dict(zip(zip(parents, words, strict=True), range(len(words)), strict=True))
    last = length = 0
    while length < len(tokens) and (last, tokens[length]) in child:
        last, length = child[last, tokens[length]], length + 1
    promised = sum(scores) - scores[0]
    if length == len(tokens):
        below = {last}
        for node in range(last + 1, len(words)):
            if parents[node] in below:
                below.add(node)
                promised -= scores[node]
    return length, promised


def scaled(nodes: NodeLists, factors: Sequence[float]) -> list[float]:
    """q [N+1] of the nodes: score times the factor of its source code, at most 1."""
    valued = map(mul, nodes.scores, map(factors.__getitem__, nodes.source))
    return [q if q < 1.0 else 1.0 for q in valued]


def _decile(prob: float) -> int:
    return min(max(int(prob * _DECILES), 0), _DECILES - 1)
