"""How often a copied line goes on: a Beta-binomial rate by source, match length and copy run."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tandem_jax.drafters.lookup import Match
from tandem_jax.errors import ConfigError

PACKAGED_PRIOR = Path(__file__).parent / "copy_rates.json"  # counted by tools.measure.count_copies
SOURCES = ("local", "corpus", "both")
FULL_MATCH = 8  # tokens of a match that has a rate; shorter ones keep the lookup's own decay
_CAP = 4000  # trials of a bucket; beyond, both counts are halved
_FLOOR, _MOST = 20, 50.0  # trials a prior bucket needs, and the most it may weigh
_DEFAULT = (5.0, 3.0)  # followed, missed: where there are counts but no prior
_RUN_BINS = (0, 8, 24)  # longest copy run of bins 0, 1 (exclusive) and 2 (exclusive)

Key = tuple[str, int, int]  # (source, match length 3..8, run bin 0..3)


def run_bin(copy_run: int) -> int:
    """0 for no run of copied tokens, 1 below 8, 2 below 24, else 3."""
    none, short, middle = _RUN_BINS
    return 0 if copy_run <= none else 1 if copy_run < short else 2 if copy_run < middle else 3


class CopyRate:
    """Rates of copied tokens, learned from every committed block.

    rate = (a + s) / (a + b + s + f) with a prior (a, b) counted on held-out text and online counts
    s of followed tokens and f of misses. A line that ended with the block says nothing of a miss
    (it is censored). Formula and constants: the TandemLLM project's published description.
    """

    def __init__(self, prior: Mapping[Key, tuple[float, float]] | None = None) -> None:
        self._prior = dict(prior or {})
        self._counts: dict[Key, list[float]] = {}
        self.copy_run = 0  # tokens copied in a row up to here
        self._key: Key | None = None

    def reset(self) -> None:
        """A new request: its run starts at nothing; the counts stay."""
        self.copy_run, self._key = 0, None

    def rate(self, match: Match) -> float | None:
        """Rate of the line at this match, None where the lookup's own decay should stand.

        Remembers the bucket: `observe` counts for it.
        """
        self._key = (match.source, min(max(match.order, 3), FULL_MATCH), run_bin(self.copy_run))
        if match.order < FULL_MATCH or (match.source != "local" and self.copy_run <= 0):
            return None
        return self.estimate(self._key)

    def estimate(self, key: Key) -> float | None:
        """The rate of a bucket, None without prior and counts."""
        s, f = self._counts.get(key, (0.0, 0.0))
        if key not in self._prior and s + f == 0:
            return None
        a, b = self._prior.get(key, _DEFAULT)
        return (a + s) / (a + b + s + f)

    def observe(self, top: Sequence[int] | None, tokens: Sequence[int]) -> None:
        """Take in a block: `tokens` committed, `top` the lookup's heaviest line before it.

        top: empty if nothing matched, None if the lookup was not asked (a deep line ran).
        """
        if top is None:
            self.copy_run = self.copy_run + len(tokens) if len(tokens) > 1 else 0
            return
        shared = _common(top, tokens)
        if top and self._key is not None:
            counts = self._counts.setdefault(self._key, [0.0, 0.0])
            counts[0] += shared
            counts[1] += shared < min(len(tokens), len(top))
            if sum(counts) > _CAP:
                counts[:] = counts[0] / 2, counts[1] / 2
        whole = shared > 0 and shared == min(len(top), len(tokens))
        self.copy_run = self.copy_run + len(tokens) if whole else 0
        self._key = None

    def counts(self, key: Key) -> tuple[float, float]:
        """(followed, missed) learned online for a bucket."""
        return tuple(self._counts.get(key, (0.0, 0.0)))

    def to_dict(self) -> dict:
        """Online counts by "source|match|bin", as in a prior file."""
        return {"|".join(map(str, key)): list(c) for key, c in sorted(self._counts.items())}

    def load_dict(self, state: Mapping) -> None:
        """Go on from `to_dict`; raises TypeError or ValueError for something else."""
        self._counts = {_key(name): _pair(counts) for name, counts in state.items()}


def load_prior(path: str | Path) -> dict[Key, tuple[float, float]]:
    """Prior of a file of counts; buckets of under 20 trials are dropped, none weighs over 50.

    {"<source>|<match length>|<run bin>": [followed, missed], "_provenance": ...}; keys that start
    with an underscore are notes. Raises ConfigError naming the key at fault.
    """
    path = Path(path)
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"the copy-rate prior {path.name} cannot be read: {error}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"the copy-rate prior {path.name} must hold one JSON object")
    prior = {}
    for name, counts in raw.items():
        if name.startswith("_"):
            continue
        try:
            key, (s, f) = _key(name), _pair(counts)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"copy-rate prior {path.name}: bad entry {name!r}: {error}"
            ) from error
        if s + f >= _FLOOR:
            weight = min(_MOST, s + f)
            prior[key] = (weight * s / (s + f), weight * f / (s + f))
    return prior


def _key(name: str) -> Key:
    source, order, bucket = name.split("|")
    key = (source, int(order), int(bucket))
    if source not in SOURCES or not 3 <= key[1] <= FULL_MATCH or not 0 <= key[2] <= 3:
        raise ValueError("expected source|match length 3..8|run bin 0..3")
    return key


def _pair(counts: object) -> list[float]:
    """[followed, missed] of a file; raises ValueError."""
    good = isinstance(counts, list) and len(counts) == 2
    if not good or not all(isinstance(n, int | float) and 0 <= n < 1e15 for n in counts):
        raise ValueError("expected [followed, missed], two counts")
    return [float(n) for n in counts]


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    for place, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return place
    return min(len(a), len(b))
