"""The rate of copied tokens: counts, censoring, priors, runs."""

import json

import numpy as np
import pytest

from tandem_jax.drafters.lookup import LookupDrafter, Match
from tandem_jax.errors import ConfigError
from tandem_jax.staircut.copy_rate import PACKAGED_PRIOR, CopyRate, load_prior, run_bin

LOCAL = Match("local", 8, 8)
KEY = ("local", 8, 0)
LINE = tuple(range(10, 26))


def seen(rates, tokens, top=LINE, match=LOCAL):
    rates.rate(match)
    rates.observe(top, tokens)


def test_five_followed_and_a_miss():
    rates = CopyRate()
    seen(rates, [*LINE[:5], 99])
    assert rates.counts(KEY) == (5, 1)
    assert rates.estimate(KEY) == pytest.approx((5 + 5) / (8 + 6))
    assert rates.copy_run == 0


def test_a_block_that_ended_says_nothing_of_a_miss():
    rates = CopyRate()
    seen(rates, LINE[:6])
    assert rates.counts(KEY) == (6, 0)
    assert rates.copy_run == 6
    rates.reset()
    seen(rates, [*LINE, 99])  # the line ended first
    assert rates.counts(KEY) == (22, 0)
    assert rates.copy_run == 17


def test_runs():
    assert [run_bin(n) for n in (-1, 0, 1, 7, 8, 23, 24, 500)] == [0, 0, 1, 1, 2, 2, 3, 3]
    rates = CopyRate()
    for _ in range(3):
        seen(rates, LINE[:4])
    assert rates.copy_run == 12
    assert rates.counts(KEY) == (4, 0)
    assert rates.counts(("local", 8, 1)) == (4, 0)
    rates.observe(None, [1, 2, 3])  # a deep line ran
    assert rates.copy_run == 15
    rates.observe(None, [1])
    assert rates.copy_run == 0


def test_a_miss_at_the_first_token_counts_and_breaks_the_run():
    rates = CopyRate()
    rates.copy_run = 30
    seen(rates, [99])
    assert rates.counts(("local", 8, 3)) == (0, 1)
    assert rates.copy_run == 0


def test_only_a_line_that_was_asked_for_is_counted():
    rates = CopyRate()
    seen(rates, LINE[:4])
    rates.observe(LINE, LINE[:4])  # nobody asked for its rate
    rates.reset()
    rates.rate(LOCAL)
    rates.reset()
    rates.observe(LINE, LINE[:4])  # asked for by a request that is gone
    assert rates.to_dict() == {"local|8|0": [4.0, 0.0]}
    assert rates.copy_run == 4


def test_counts_stay_from_request_to_request():
    rates = CopyRate()
    seen(rates, LINE[:4])
    rates.reset()
    assert (rates.copy_run, rates.counts(KEY)) == (0, (4, 0))
    assert rates.counts(("both", 8, 3)) == (0, 0)


def test_no_match_breaks_the_run_and_counts_nothing():
    rates = CopyRate()
    seen(rates, LINE[:4])
    rates.observe((), [5, 6])
    assert rates.copy_run == 0
    assert rates.to_dict() == {"local|8|0": [4.0, 0.0]}


@pytest.mark.parametrize("rate", [0.6, 0.9, 0.97])
def test_it_converges(rate):
    rng, rates = np.random.default_rng(0), CopyRate()
    for _ in range(3000):
        run = 0
        while run < len(LINE) and rng.random() < rate:
            run += 1
        tokens = [*LINE[:run], 99] if run < len(LINE) else LINE
        rates.copy_run = 0
        seen(rates, tokens)
    assert rates.estimate(KEY) == pytest.approx(rate, abs=0.02)


def test_counts_are_halved():
    rates = CopyRate()
    rates.load_dict({"local|8|0": [3600, 399]})
    seen(rates, LINE[:1])
    assert rates.counts(KEY) == (3601, 399)  # 4,000 are still kept
    rates.copy_run = 0
    seen(rates, [99])
    assert rates.counts(KEY) == (3601 / 2, 400 / 2)
    rates = CopyRate()
    for _ in range(251):
        rates.copy_run = 0
        seen(rates, LINE)
    assert sum(rates.counts(KEY)) == (250 * 16 + 16) / 2


def test_where_the_lookups_own_decay_stands():
    rates = CopyRate({KEY: (49.0, 1.0), ("corpus", 8, 0): (20.0, 20.0)})
    assert rates.rate(LOCAL) == pytest.approx(0.98)
    assert rates.rate(Match("local", 7, 7)) is None
    assert rates.rate(Match("corpus", 8, 0)) is None  # no run yet: chance
    rates.copy_run = 9
    assert rates.rate(Match("corpus", 8, 0)) is None  # nothing is known of this bucket
    assert rates.rate(Match("local", 8, 8)) is None
    assert rates.estimate(("corpus", 8, 0)) == pytest.approx(0.5)


def test_what_a_rate_needs():
    rates = CopyRate()
    assert rates.rate(LOCAL) is None  # neither prior nor counts
    seen(rates, LINE[:2])
    rates.reset()
    assert rates.rate(LOCAL) == pytest.approx((5 + 2) / (8 + 2))
    for source in ("corpus", "both"):
        rates.copy_run = 0
        seen(rates, [99], match=Match(source, 8, 0))
        assert rates.rate(Match(source, 8, 0)) is None
        rates.copy_run = 1
        seen(rates, LINE[:4], match=Match(source, 8, 0))
        rates.copy_run = 7
        assert rates.rate(Match(source, 8, 0)) == pytest.approx((5 + 4) / (8 + 4))


@pytest.mark.parametrize(("order", "counted"), [(2, 3), (3, 3), (5, 5), (7, 7), (8, 8), (11, 8)])
def test_short_matches_are_counted_though_they_have_no_rate(order, counted):
    rates = CopyRate()
    seen(rates, [*LINE[:5], 99], match=Match("local", order, order))
    assert rates.to_dict() == {f"local|{counted}|0": [5.0, 1.0]}
    rate = rates.rate(Match("local", order, order))
    assert rate == (pytest.approx(10 / 14) if order >= 8 else None)


def test_what_is_seen_adds_to_the_prior():
    rates = CopyRate({KEY: (45.0, 5.0)})
    assert rates.estimate(KEY) == pytest.approx(0.9)
    seen(rates, [*LINE[:5], 99])
    assert rates.estimate(KEY) == pytest.approx(50 / 56)
    assert rates.counts(KEY) == (5, 1)


def test_a_rate_of_98_keeps_a_line_of_sixteen():
    line = list(range(100, 130))
    lookup = LookupDrafter()
    lookup.reset([*line, 7, *line[:8]])
    decayed, kept = (
        lookup.propose_nodes(line[7], 16, 16, rho=rho) for rho in (None, lambda match: 0.98)
    )
    assert (kept.tokens, len(kept.tokens)) == (line[7:24], 17)
    assert min(kept.scores) == pytest.approx(0.98**16)
    assert min(kept.scores) > 0.7
    assert min(decayed.scores) < 0.01


def write(path, raw):
    path.write_text(json.dumps(raw))
    return path


def test_a_prior_has_a_floor_and_a_ceiling(tmp_path):
    path = write(
        tmp_path / "prior.json",
        {
            "_provenance": {"who": "me"},
            "local|8|0": [652, 4],
            "both|8|2": [10, 9],
            "corpus|3|1": [15, 15],
            "local|3|3": [20, 0],
            "local|4|3": [19.5, 0],
            "local|5|3": [0, 25],
            "local|6|3": [25, 25],
            "local|7|3": [0, 0],
        },
    )
    prior = load_prior(path)
    assert prior[KEY] == (pytest.approx(49.695, abs=1e-3), pytest.approx(0.305, abs=1e-3))
    assert ("both", 8, 2) not in prior
    assert prior["corpus", 3, 1] == (15.0, 15.0)
    assert prior["local", 3, 3] == (20.0, 0.0)
    assert prior["local", 5, 3] == (0.0, 25.0)
    assert prior["local", 6, 3] == (25.0, 25.0)
    assert len(prior) == 5
    assert all(sum(pair) <= 50.0 + 1e-9 for pair in prior.values())


@pytest.mark.parametrize(
    ("bucket", "counts", "pair"),
    [
        ("local|8|1", [5236, 37], (49.65, 0.35)),
        ("both|8|0", [64, 8], (44.44, 5.56)),
        ("both|8|3", [30542, 10], (49.98, 0.02)),
        ("corpus|8|0", [31, 39], (22.14, 27.86)),
        ("corpus|8|1", [64, 44], (29.63, 20.37)),
    ],
)
def test_the_published_priors(tmp_path, bucket, counts, pair):
    (prior,) = load_prior(write(tmp_path / "prior.json", {bucket: counts})).values()
    assert prior == pytest.approx(pair, abs=0.005)


@pytest.mark.parametrize(
    "raw",
    [
        {"local|8": [1, 2]},
        {"web|8|0": [1, 2]},
        {"local|9|0": [1, 2]},
        {"local|8|4": [1, 2]},
        {"local|8|0": [1]},
        {"local|8|0": ["x", 2]},
        {"local|8|0": [-1, 2]},
        {"local|2|0": [1, 2]},
        {"local|8|-1": [1, 2]},
        {"local|8|0|1": [1, 2]},
        {"local|x|0": [1, 2]},
        {"local|8|0": [1, 2, 3]},
        {"local|8|0": 5},
        {"local|8|0": None},
        {"local|8|0": "99"},
        {"local|8|0": {"30": 1, "2": 3}},
        {"local|8|0": [float("inf"), 1]},
        {"local|8|0": [1, float("nan")]},
        {"local|8|0": [10**400, 1]},
    ],
)
def test_a_bad_prior_is_named(tmp_path, raw):
    with pytest.raises(ConfigError, match=r"prior\.json.*(local|web)"):
        load_prior(write(tmp_path / "prior.json", raw))


def test_prior_files_that_are_none(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.json cannot be read"):
        load_prior(tmp_path / "none.json")
    broken = tmp_path / "broken.json"
    broken.write_text('{"local|8|0": [1,')
    with pytest.raises(ConfigError, match=r"broken\.json cannot be read"):
        load_prior(broken)
    with pytest.raises(ConfigError, match="one JSON object"):
        load_prior(write(tmp_path / "prior.json", [1]))


def test_the_packaged_prior_was_counted_and_says_how():
    raw = json.loads(PACKAGED_PRIOR.read_text())
    assert raw["_provenance"]["tokens"] > 10_000
    prior = load_prior(PACKAGED_PRIOR)
    a, b = prior[KEY]
    assert 0.9 < a / (a + b) < 1.0


def test_counts_can_be_saved():
    rates, other = CopyRate(), CopyRate()
    seen(rates, [*LINE[:5], 99])
    other.load_dict(json.loads(json.dumps(rates.to_dict())))
    assert other.counts(KEY) == (5.0, 1.0)
    with pytest.raises(ValueError, match="expected source"):
        other.load_dict({"x|8|0": [1, 2]})
    with pytest.raises(ValueError, match="two counts"):
        other.load_dict({"local|8|0": [1, float("nan")]})
    assert other.to_dict() == rates.to_dict()
