"""Price tables: the published numbers, interpolation, and every refusal by name."""

import json

import numpy as np
import pytest

from tandem_jax.errors import ConfigError
from tandem_jax.staircut.cut import SNAP
from tandem_jax.staircut.policy import setup_on
from tandem_jax.staircut.price_model import PriceModel
from tandem_jax.staircut.prices import PACKAGED, load_prices, preferred_head, read_prices

TREE = {"2": 10.0, "8": 16.0, "16": 20.0}


def table(**raw):
    return read_prices({"1024": {"tree": TREE}} | raw)


def test_the_published_table():
    gb10 = load_prices("gb10")
    assert gb10.contexts == (1024, 4096, 8192, 16384, 32768)
    assert gb10.rows == (2, 4, 8, 12, 16, 17, 20, 24, 28, 32)
    for kind, context, rows, ms in (
        ("tree", 1024, 16, 74.36),
        ("tree", 1024, 17, 80.48),
        ("chain", 4096, 32, 87.08),
        ("tree", 32768, 24, 103.74),
        ("chain", 16384, 8, 80.04),
    ):
        assert gb10.verify_ms(kind, context)[rows] == pytest.approx(ms)
    assert gb10.plain_ms(1024) == pytest.approx(72.8)
    assert gb10.draft_ms("wide", 5000) == 15.0
    assert gb10.spec_ms(1024) is None


@pytest.mark.parametrize("path", sorted(PACKAGED.glob("*.json")), ids=lambda path: path.stem)
def test_every_packaged_table_can_be_read_and_says_where_it_is_from(path):
    prices = load_prices(path.stem)
    assert len(prices.measured) > 30
    assert set(SNAP) - {r - 1 for r in prices.rows} <= {7, 15, 23, 31}
    assert (prices.verify_ms("tree", 1024)[1:] > 0).all()


def test_rows_between_below_and_past_the_measured_ones():
    ms = table().verify_ms("tree", 1024)
    assert ms[1] == ms[2] == 10.0
    assert ms[5] == pytest.approx(13.0)
    assert ms[12] == pytest.approx(18.0)
    assert ms[32] == pytest.approx(20.0 + 16 * 0.5)  # the last slope
    assert table(step_ms=2.0).verify_ms("tree", 1024)[32] == pytest.approx(52.0)
    assert read_prices({"1024": {"tree": {"8": 5.0}}}).verify_ms("chain", 1)[32] == 5.0


def test_contexts_between_below_and_past_the_measured_ones():
    prices = read_prices(
        {
            "1024": {"tree": {"8": 10.0}},
            "4096": {"tree": {"8": 30.0}},
            "8192": {"tree": {"8": 50.0}},
        }
    )

    def ms(context):
        return prices.verify_ms("tree", context)[8]

    assert ms(1) == ms(1024) == 10.0
    assert ms(2048) == pytest.approx(20.0)  # half-way in log2
    assert ms(4096) == 30.0
    assert ms(round(4096 * 2**0.25)) == pytest.approx(35.0, abs=0.01)
    # Past the end it goes on by tokens: 20 ms for 4,096 of them.
    assert ms(16384) == pytest.approx(90.0)
    assert ms(262144) == pytest.approx(50.0 + 20.0 * (262144 - 8192) / 4096)


def test_a_missing_kind_is_the_other_one():
    prices = table()
    assert (prices.verify_ms("chain", 1024) == prices.verify_ms("tree", 1024)).all()


def test_plain_spec_and_draft():
    raw = {
        "1024": {"tree": TREE, "plain": 8.0, "spec": 3.0},
        "4096": {"tree": TREE, "plain": 12.0, "spec": 5.0},
        "draft": {"wide": {"1024": 1.0, "4096": 3.0}},
    }
    prices = read_prices(raw)
    assert prices.plain_ms(2048) == pytest.approx(10.0)
    assert prices.spec_ms(2048) == pytest.approx(4.0)
    assert prices.draft_ms("wide", 2048) == pytest.approx(2.0)
    assert prices.draft_ms("mtp", 2048) is None
    assert table().plain_ms(1024) == 10.0  # a chain of one row


REFUSED = [
    ({"1024": {"tree": TREE}, "speed": 3}, "unknown key 'speed'"),
    ({"1024": {"tree": TREE, "bush": TREE}}, "1024: unknown key 'bush'"),
    ({"1024": {}}, "neither 'chain' nor 'tree'"),
    ({"1024": 3}, "1024 must be an object"),
    ({"1024": {"tree": {}}}, "tree must be an object of numbers"),
    ({"1024": {"tree": {"many": 3.0}}}, "'many' is no positive number"),
    ({"1024": {"tree": {"0": 3.0}}}, "'0' is no positive number"),
    ({"1024": {"tree": {"8": "3"}}}, "tree: 8: '3' is no time"),
    ({"1024": {"tree": {"8": True}}}, "True is no time"),
    ({"1024": {"tree": {"8": -1.0}}}, "-1.0 is no time"),
    ({"1024": {"tree": {"8": 10_000}}}, "10000 is no time"),
    ({"1024": {"tree": {"8": float("nan")}}}, "nan is no time"),
    ({"1024": {"tree": TREE, "plain": "fast"}}, "plain: 'fast' is no time"),
    ({"1024": {"tree": TREE}, "draft": {"deep": {"1024": 1.0}}}, "unknown head 'deep'"),
    ({"1024": {"tree": TREE}, "draft": {"wide": 15.0}}, "wide must be an object"),
    ({"1024": {"tree": TREE}, "draft": 3}, "draft must be an object"),
    ({"1024": {"tree": TREE}, "step_ms": None, "measured": 3}, "measured must be a text"),
    ({"1024": {"tree": TREE}, "step_ms": "x"}, "step_ms: 'x' is no time"),
    ({"0": {"tree": TREE}}, "context length 0 is not positive"),
    ({"measured": "nothing"}, "no context length"),
    ([1, 2], "one JSON object"),
]


@pytest.mark.parametrize(("raw", "message"), REFUSED)
def test_refusals_name_the_key(tmp_path, raw, message):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(ConfigError, match=message) as caught:
        load_prices(path)
    assert "mine" in str(caught.value)


def test_files_that_are_none(tmp_path):
    with pytest.raises(ConfigError, match="no price file 'fast'") as caught:
        load_prices("fast")
    assert "gb10" in caught.value.hint
    path = tmp_path / "broken.json"
    path.write_text('{"1024": ')
    with pytest.raises(ConfigError, match=r"broken\.json cannot be read"):
        load_prices(path)


def test_cuts_end_where_a_price_was_measured_or_a_bucket_is_full():
    setup = setup_on(table(), PriceModel(table()))
    assert setup.snap == (1, 7, 15, 23, 31)
    assert setup_on(None, PriceModel(None)).snap == SNAP
    assert np.isclose(setup.prices.verify_ms("tree", 1024)[8], 16.0)


@pytest.mark.parametrize(
    ("name", "head"), [("gb10", "wide"), ("mini.cpu", "narrow"), ("mini.nvidia-h200", "wide")]
)
def test_which_block_the_packaged_prices_favour(name, head):
    assert preferred_head(load_prices(name)) == head


def test_a_block_is_worth_its_rows_and_its_draft():
    def head(sixteen, narrow=5.0, wide=5.0):
        draft = {"wide": {"1024": wide}, "narrow": {"1024": narrow}}
        return preferred_head(
            read_prices({"1024": {"tree": {"8": 50.0, "16": sixteen}}, "draft": draft})
        )

    assert head(50.0) == "wide"
    assert head(500.0) == "wide"  # it is cut to eight rows, and drafts as cheaply
    assert head(500.0, wide=5.1) == "narrow"
    # 4.6 tokens in 60 ms against 4.2 in 55: the wide draft may cost up to 10.2 ms.
    assert head(50.0, wide=10.2) == "wide"
    assert head(50.0, wide=10.3) == "narrow"
    assert preferred_head(None) == "wide"
    assert preferred_head(table()) == "wide"
