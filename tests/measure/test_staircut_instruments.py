"""The instruments on small records: counts add up, pictures are drawn, the curve shows the cut."""

import io

import numpy as np
import pytest
from rich.console import Console

from tandem_jax.staircut.prices import load_prices, read_prices
from tests.measure.test_router_replay import TABLE, record
from tools.measure import accept_hist, staircut_report
from tools.measure.round_view import candidates_table, round_of, show
from tools.measure.verify_curve import ROWS, bushy, line, measure

GB10 = load_prices("gb10")


def test_histograms_add_up():
    found = accept_hist.histogram("staircut", [record(0), record(1)], TABLE)
    assert sum(n * rounds for n, rounds in found.tokens.items()) == 80
    assert sum(found.rows.values()) == sum(found.labels.values()) == found.rounds
    assert accept_hist.table_of(found, "staircut").row_count == len({*found.tokens, *found.rows})


def test_the_staircase_shows_the_decision():
    found = staircut_report.staircase_of(record(right=6), GB10, 2)
    decision = found.decision
    taken = next(c for c in found.candidates if c.label == decision.label)
    (step,) = [s for s in taken.steps if s.nodes == decision.tree.n_draft]
    assert step.eligible
    assert step.value == pytest.approx(decision.value)
    for candidate in found.candidates:
        for step in candidate.steps:
            assert not step.eligible or step.value <= decision.value * (1 + 1e-12)


def test_sources_sum_to_the_tokens():
    found = staircut_report.sources_of({"a": [record(0)], "b": [record(1), record(2)]}, TABLE)
    assert {name: sum(by.values()) for name, by in found.items()} == {"a": 40, "b": 80}


def test_prices_are_learned_from_a_wrong_table():
    errors = staircut_report.price_errors([record(seed) for seed in range(6)], GB10)
    assert errors[0] == pytest.approx(0.5, abs=0.02)
    assert np.median(errors[-20:]) < 0.05


def test_pictures_are_written(tmp_path):
    found = staircut_report.staircase_of(record(), GB10, 0)
    paths = [
        staircut_report.draw_staircase(found, "a round", tmp_path),
        staircut_report.draw_sources(
            staircut_report.sources_of({"a": [record()]}, TABLE), tmp_path
        ),
        staircut_report.draw_errors([0.5, 0.2, 0.1], tmp_path),
        accept_hist.draw(accept_hist.histogram("none", [record()], TABLE), "none", tmp_path),
    ]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)


def test_a_round_in_the_terminal():
    view = round_of(record(right=5), TABLE, 1)
    written = io.StringIO()
    show(view, str, Console(file=written, width=120))
    text = written.getvalue()
    assert f"{view.decision.label}: {len(view.tokens)} tokens" in text
    assert text.count("✓") == len(view.tokens) - 1
    assert "taken" in text
    assert candidates_table(view).row_count == len(view.seen.candidates)
    with pytest.raises(IndexError):
        round_of(record(), TABLE, 500)


@pytest.mark.parametrize("rows", ROWS)
def test_the_shapes_that_are_timed(rows):
    rng = np.random.default_rng(0)
    tree, chain = bushy(3, rows, 500, rng), line(3, rows, 500, rng)
    assert len(tree) == len(chain) == rows
    assert chain.is_chain
    assert tree.is_chain == (rows == 2)
    tree.validate()


def test_a_measured_table_can_be_used():
    raw = measure("nano", [40], (2, 8), {}, repeats=1, dtype="float32")
    table = read_prices(raw)
    assert table.contexts == (40,)
    assert table.rows == (2, 8)
    assert set(raw["40"]) == {"chain", "tree", "plain"}
    assert "nano in float32, median of 1 rounds" in table.measured
