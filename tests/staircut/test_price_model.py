"""Live prices: what is learned, what moves along, what never happens."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_jax.staircut.price_model import PriceModel, context_class
from tandem_jax.staircut.prices import KINDS, MAX_ROWS, load_prices, read_prices

TABLE = read_prices(
    {
        "1024": {
            "chain": {"1": 10.0, "8": 10.0, "16": 14.0, "32": 20.0},
            "tree": {"1": 10.0, "8": 11.0, "16": 15.0, "32": 22.0},
        }
    }
)
SAMPLES = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from([100, 1500, 9000]),
        st.integers(1, MAX_ROWS),
        st.floats(0.01, 500.0),
    ),
    max_size=30,
)


def test_it_starts_from_the_table():
    model = PriceModel(load_prices("gb10"))
    assert model.verify_ms("chain", 1024)[32] == pytest.approx(85.46)
    assert model.plain_ms(1024) == pytest.approx(72.8)


def test_a_published_dip_is_levelled():
    """Twelve rows are cheaper than eight in the table; a price never falls with rows."""
    tree = PriceModel(load_prices("gb10")).verify_ms("tree", 1024)
    assert tree[12] == tree[8] == pytest.approx(75.50)


def test_the_first_samples_weigh_alike_and_then_a_tenth():
    model = PriceModel(TABLE)
    for ms in (15.0, 16.0, 17.0):
        model.observe("tree", 500, 16, ms)
    assert model.verify_ms("tree", 500)[16] == pytest.approx(16.0)
    model.observe("tree", 500, 16, 26.0)
    assert model.verify_ms("tree", 500)[16] == pytest.approx(17.0)


def test_other_counts_move_with_the_class():
    model = PriceModel(TABLE)
    for _ in range(3):
        model.observe("tree", 500, 16, 18.0)  # three more than the table
    assert model.verify_ms("tree", 500)[32] == pytest.approx(25.0)
    assert model.verify_ms("chain", 500)[8] == pytest.approx(13.0)
    assert model.plain_ms(500) == pytest.approx(13.0)
    # Another context class has learned nothing.
    assert model.verify_ms("tree", 3000)[32] == pytest.approx(22.0)


def test_a_measured_plain_step_is_the_plain_price():
    model = PriceModel(TABLE)
    model.observe("chain", 500, 1, 7.0)
    assert model.plain_ms(500) == pytest.approx(7.0)


@given(SAMPLES, st.booleans())
def test_prices_never_fall_with_rows_and_stay_positive(samples, with_table):
    model = PriceModel(TABLE if with_table else None)
    for sample in samples:
        model.observe(*sample)
    for kind in KINDS:
        for context in (100, 1500, 9000):
            prices = model.verify_ms(kind, context)
            assert len(prices) == MAX_ROWS + 1
            assert np.diff(prices).min() >= 0
            assert prices[1] > 0


def test_one_slow_round_is_bounded_and_fades():
    model = PriceModel(TABLE)
    model.observe("tree", 500, 16, 4000.0)
    slow = model.verify_ms("tree", 500)[16]
    assert slow == pytest.approx(3 * 15.0)
    for _ in range(400):
        model.observe("tree", 500, 8, 11.0)
    # Never run again at 16, it is back near the table's price.
    assert model.verify_ms("tree", 500)[16] == pytest.approx(15.0, abs=5.0)


def test_without_a_table_every_count_is_one_ms_until_rounds_price_it(caplog):
    model = PriceModel(None, missing="mini.toaster")
    assert caplog.messages == [
        "no prices for this device (mini.toaster): every row count starts at 1 ms"
    ]
    assert model.verify_ms("tree", 1024) == [1.0] * (MAX_ROWS + 1)
    assert model.plain_ms(1024) == 1.0
    model.observe("tree", 1024, 32, 90.0)
    assert model.verify_ms("tree", 1024)[32] == pytest.approx(90.0)
    assert model.verify_ms("tree", 1024)[8] == pytest.approx(90.0)  # the offset of the class
    model.observe("tree", 1024, 8, 40.0)
    prices = model.verify_ms("tree", 1024)
    assert prices[8] < prices[32]
    assert len(caplog.messages) == 1


def test_buckets_that_are_not_compiled_are_charged():
    model = PriceModel(TABLE)
    model.charge({32: 5000.0}, (8, 16, 32))
    prices = model.verify_ms("tree", 500)
    assert prices[16] == pytest.approx(15.0)
    assert prices[17] == pytest.approx(15.0 + 7 / 16 + 5000.0)
    model.charge({}, (8, 16, 32))
    assert model.verify_ms("tree", 500)[32] == pytest.approx(22.0)


def test_context_classes():
    asked = (1, 1024, 1025, 5000, 262_144, 900_000)
    assert [context_class(n) for n in asked] == [1024, 1024, 2048, 8192, 262_144, 262_144]


@given(SAMPLES)
def test_what_was_learned_can_be_saved(samples):
    model, other = PriceModel(TABLE), PriceModel(TABLE)
    for sample in samples:
        model.observe(*sample)
    other.load_dict(json.loads(json.dumps(model.to_dict())))
    for kind in KINDS:
        for context in (100, 1500, 9000):
            assert other.verify_ms(kind, context) == model.verify_ms(kind, context)


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"live": [], "offset": 3},
        {"live": [[1024, "bush", 8, 1.0, 1, 1.0]], "offset": []},
        {"live": [[1024, "tree", 99, 1.0, 1, 1.0]], "offset": []},
        {"live": [[1]], "offset": []},
    ],
)
def test_a_damaged_state_is_an_error(state):
    with pytest.raises((KeyError, TypeError, ValueError)):
        PriceModel(TABLE).load_dict(state)
