"""Price tables: the published numbers, interpolation, and every refusal by name."""

import json

import numpy as np
import pytest

from tandem_jax.errors import ConfigError
from tandem_jax.staircut.cut import SNAP
from tandem_jax.staircut.policy import setup_on
from tandem_jax.staircut.price_model import PriceModel
from tandem_jax.staircut.prices import MAX_ROWS, PACKAGED, load_prices, preferred_head, read_prices

TREE = {"2": 10.0, "8": 16.0, "16": 20.0}
ROWS = (2, 4, 8, 12, 16, 17, 20, 24, 28, 32)
PUBLISHED = {
    ("tree", 1024): (74.47, 74.73, 75.50, 73.44, 74.36, 80.48, 81.04, 83.13, 85.78, 87.76),
    ("chain", 8192): (76.50, 76.84, 77.48, 76.11, 77.33, 81.42, 82.32, 84.52, 86.83, 89.74),
    ("chain", 32768): (83.68, 84.32, 85.46, 86.33, 87.54, 94.36, 95.90, 99.14, 104.57, 108.46),
}


def table(**raw):
    return read_prices({"1024": {"tree": TREE}} | raw)


def test_the_published_table():
    gb10 = load_prices("gb10")
    assert gb10.contexts == (1024, 4096, 8192, 16384, 32768)
    assert gb10.rows == ROWS
    for (kind, context), ms in PUBLISHED.items():
        assert gb10.verify_ms(kind, context)[list(ROWS)].tolist() == pytest.approx(list(ms))
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


def test_a_price_that_falls_at_the_end_does_not_go_on_falling():
    raw = {
        "1024": {"tree": {"8": 20.0, "16": 16.0}, "plain": 6.0},
        "2048": {"tree": {"8": 12.0, "16": 10.0}, "plain": 8.0},
    }
    prices = read_prices(raw)
    assert prices.verify_ms("tree", 1024)[[16, 17, 32]].tolist() == [16.0, 16.0, 16.0]
    assert prices.verify_ms("tree", 50_000)[8] == 12.0
    assert prices.plain_ms(4096) == pytest.approx(12.0)  # the other figures go on by themselves
    assert read_prices(raw | {"step_ms": 0}).verify_ms("tree", 1024)[32] == 16.0


def test_a_table_of_one_context_is_flat():
    prices = table(draft={"wide": {"4096": 2.5}})
    for context in (0, 1, 1024, 1025, 262_144):
        assert prices.verify_ms("tree", context)[8] == 16.0
        assert prices.draft_ms("wide", context) == 2.5


def test_rows_past_the_most_that_a_tree_has_still_count_for_the_slope():
    ms = read_prices({"1024": {"tree": {"16": 10.0, "48": 42.0}}}).verify_ms("tree", 1024)
    assert len(ms) == MAX_ROWS + 1
    assert ms[32] == pytest.approx(26.0)


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
    assert prices.draft_ms("wide", 8192) == pytest.approx(3.0 + 2.0 * 4096 / 3072)
    assert table().plain_ms(1024) == 10.0  # a chain of one row


def test_a_figure_that_one_context_lacks_is_not_used():
    prices = read_prices(
        {
            "1024": {"chain": {"1": 7.0, "8": 9.0}, "tree": TREE, "plain": 5.0, "spec": 3.0},
            "4096": {"chain": {"1": 9.0, "8": 9.5}, "tree": TREE},
        }
    )
    assert prices.plain_ms(2048) == pytest.approx(8.0)
    assert prices.spec_ms(2048) is None


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
    (None, "one JSON object"),
    ({"01024": {"tree": TREE}}, "unknown key '01024'"),
    ({"-1024": {"tree": TREE}}, "unknown key '-1024'"),
    ({"\u0661\u0660": {"tree": TREE}}, "unknown key '\u0661\u0660'"),
    ({"9" * 5000: {"tree": TREE}}, "unknown key '999"),
    ({"1024": {"tree": {"08": 3.0}}}, "'08' is no positive number"),
    ({"1024": {"tree": {"1.5": 3.0}}}, "'1.5' is no positive number"),
    ({"1024": {"tree": {"8": 1.0, "9" * 30: 2.0}}}, "9' is no positive number"),
    ({"1024": {"tree": {"8": 0}}}, "tree: 8: 0 is no time"),
    ({"1024": {"tree": {"8": float("inf")}}}, "inf is no time"),
    ({"1024": {"tree": {"8": None}}}, "tree: 8: None is no time"),
    ({"1024": {"chain": [1.0]}}, "chain must be an object of numbers"),
    ({"1024": {"tree": TREE, "spec": -0.5}}, "spec: -0.5 is no time"),
    ({"1024": {"tree": TREE, "prime": False}}, "prime: False is no time"),
    ({"1024": {"tree": TREE}, "step_ms": -3.7}, "step_ms: -3.7 is no time"),
    ({"1024": {"tree": TREE}, "draft": {"mtp": {"0": 1.0}}}, "mtp: the key '0'"),
    ({"1024": {"tree": TREE}, "draft": {"mtp": {"1024": -1}}}, "mtp: 1024: -1 is no time"),
    ({"1024": {"tree": TREE}, "draft": {"mtp": {}}}, "mtp must be an object of numbers"),
]


@pytest.mark.parametrize(("raw", "message"), REFUSED, ids=range(len(REFUSED)))
def test_refusals_name_the_key(tmp_path, raw, message):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(ConfigError, match=message) as caught:
        load_prices(path)
    assert "mine" in str(caught.value)
    assert caught.value.hint


def test_the_context_at_fault_is_named():
    with pytest.raises(ConfigError, match="price file my: 4096: tree: 16: -2 is no time"):
        read_prices({"1024": {"tree": TREE}, "4096": {"tree": TREE | {"16": -2}}}, "my")


def test_figures_of_nothing_are_allowed_where_they_make_sense():
    prices = read_prices({"1024": {"tree": TREE, "plain": 0, "spec": 0, "prime": 0}, "step_ms": 0})
    assert (prices.plain_ms(1024), prices.spec_ms(1024)) == (0.0, 0.0)
    assert prices.prices[0].prime == 0.0
    assert prices.verify_ms("tree", 1024)[32] == 20.0


def test_files_that_are_none(tmp_path):
    with pytest.raises(ConfigError, match="no price file 'fast'") as caught:
        load_prices("fast")
    for path in PACKAGED.glob("*.json"):
        assert path.stem in caught.value.hint
    with pytest.raises(ConfigError, match="no price file"):
        load_prices(tmp_path)  # a folder
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
