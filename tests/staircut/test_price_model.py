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
    assert model.verify_ms("tree", 900)[32] == pytest.approx(25.0)
    # Another context class has learned nothing.
    assert model.verify_ms("tree", 3000)[32] == pytest.approx(22.0)


def test_a_measured_plain_step_is_the_plain_price():
    model = PriceModel(TABLE)
    model.observe("chain", 500, 1, 7.0)
    assert model.plain_ms(500) == pytest.approx(7.0)


def test_the_price_of_a_context_does_not_depend_on_what_was_asked_before():
    model = PriceModel(TABLE)
    for _ in range(3):
        model.observe("tree", 1024, 16, 18.0)
    # The last context of one class and the first of the next one, which has learned nothing.
    assert model.verify_ms("tree", 1024)[16] == pytest.approx(18.0)
    assert model.verify_ms("tree", 1025)[16] == pytest.approx(15.0)
    assert model.verify_ms("tree", 1280)[16] == pytest.approx(15.0)
    assert model.verify_ms("tree", 1024)[16] == pytest.approx(18.0)


def test_a_device_far_faster_than_its_table_has_no_negative_price():
    model = PriceModel(load_prices("gb10"))
    for _ in range(20):
        model.observe("tree", 500, 32, 2.0)  # 86 ms less than the table, more than a plain step
    assert model.plain_ms(500) == 1e-3
    assert model.verify_ms("chain", 500)[1] == 1e-3
    model.observe("chain", 500, 1, 1.5)
    assert model.plain_ms(500) == pytest.approx(1.5)


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
            assert model.plain_ms(context) > 0


def test_one_slow_round_is_bounded_and_fades():
    model = PriceModel(TABLE)
    model.observe("tree", 500, 16, 4000.0)
    slow = model.verify_ms("tree", 500)[16]
    assert slow == pytest.approx(3 * 15.0)
    for _ in range(400):
        model.observe("tree", 500, 8, 11.0)
    # Never run again at 16, it goes back to the table's price.
    assert model.verify_ms("tree", 500)[16] == pytest.approx(15.0 + 30.0 * 0.995**400, abs=0.1)
    for _ in range(1000):
        model.observe("tree", 500, 8, 11.0)
    assert model.verify_ms("tree", 500)[16] == pytest.approx(15.0, abs=0.1)


def test_a_slow_round_of_a_known_count_is_bounded_too():
    model = PriceModel(TABLE)
    for _ in range(5):
        model.observe("tree", 500, 16, 15.0)
    model.observe("tree", 500, 16, 1e9)
    assert model.verify_ms("tree", 500)[16] == pytest.approx(15.0 + 0.1 * 30.0)
    assert model.verify_ms("tree", 500)[32] == pytest.approx(22.0 + 0.1 * 30.0)
    for _ in range(60):
        model.observe("tree", 500, 16, 15.0)
    assert model.verify_ms("tree", 500)[32] == pytest.approx(22.0, abs=0.01)


def test_a_count_that_runs_again_is_believed_again():
    model = PriceModel(TABLE)
    for _ in range(3):
        model.observe("tree", 500, 32, 30.0)
    for _ in range(50):
        model.observe("tree", 500, 8, 11.0)
    assert model.verify_ms("tree", 500)[32] < 29.0
    model.observe("tree", 500, 32, 30.0)
    assert model.verify_ms("tree", 500)[32] == pytest.approx(30.0)


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
    assert model.verify_ms("tree", 5000) == [1.0] * (MAX_ROWS + 1)  # another class
    assert len(caplog.messages) == 1


def test_a_missing_table_that_nobody_looked_for_is_not_told(caplog):
    assert PriceModel(None).plain_ms(1) == 1.0
    PriceModel(TABLE, missing="mini.toaster")
    assert caplog.messages == []


def test_buckets_that_are_not_compiled_are_charged():
    model = PriceModel(TABLE)
    model.charge({32: 5000.0}, (8, 16, 32))
    prices = model.verify_ms("tree", 500)
    assert prices[16] == pytest.approx(15.0)
    assert prices[17] == pytest.approx(15.0 + 7 / 16 + 5000.0)
    model.charge({8: 100.0, 16: 1000.0}, (8, 16, 32))
    prices = model.verify_ms("tree", 500)
    assert (prices[1], prices[8]) == (pytest.approx(110.0), pytest.approx(111.0))
    assert (prices[9], prices[16]) == (pytest.approx(1011.5), pytest.approx(1015.0))
    assert (prices[17], prices[32]) == (pytest.approx(15.0 + 7 / 16), pytest.approx(22.0))
    model.charge({}, (8, 16, 32))
    assert model.verify_ms("tree", 500) == PriceModel(TABLE).verify_ms("tree", 500)


def test_a_bucket_of_more_rows_than_a_tree_has():
    model = PriceModel(TABLE)
    model.charge({64: 7.0}, (16, 64))
    assert model.verify_ms("chain", 500)[16] == pytest.approx(14.0)
    assert model.verify_ms("chain", 500)[MAX_ROWS] == pytest.approx(27.0)


def test_context_classes():
    asked = (1, 1024, 1025, 5000, 262_144, 900_000)
    assert [context_class(n) for n in asked] == [1024, 1024, 2048, 8192, 262_144, 262_144]


@given(SAMPLES)
def test_what_was_learned_can_be_saved(samples):
    model, other = PriceModel(TABLE), PriceModel(TABLE)
    for sample in samples:
        model.observe(*sample)
    other.observe("tree", 100, 5, 77.0)  # what is loaded takes the place of it
    other.load_dict(json.loads(json.dumps(model.to_dict())))
    for more in ([], [("tree", 100, 16, 19.0), ("chain", 9000, 1, 3.0)]):
        for sample in more:
            model.observe(*sample)
            other.observe(*sample)
        for kind in KINDS:
            for context in (100, 1500, 9000):
                assert other.verify_ms(kind, context) == model.verify_ms(kind, context)
                assert other.plain_ms(context) == model.plain_ms(context)


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"live": [], "offset": 3},
        {"live": [[1024, "bush", 8, 1.0, 1, 1.0]], "offset": []},
        {"live": [[1024, "tree", 99, 1.0, 1, 1.0]], "offset": []},
        {"live": [[1]], "offset": []},
        {"live": [[1024, "tree", 0, 1.0, 1, 1.0]], "offset": []},
        {"live": [[1024, "tree", 8, "slow", 1, 1.0]], "offset": []},
        {"live": [[1024, "tree", 8, 1.0, 1, 1.0]], "offset": [[1024, None, 1]]},
        {"live": []},
        {"live": None, "offset": []},
        [],
        None,
    ],
)
def test_a_damaged_state_is_an_error_and_changes_nothing(state):
    model = PriceModel(TABLE)
    model.observe("tree", 500, 16, 18.0)
    before = model.to_dict()
    with pytest.raises((KeyError, TypeError, ValueError)):
        model.load_dict(state)
    assert model.to_dict() == before
