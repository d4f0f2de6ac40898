"""The nano drafter learns in 200 steps on two cores, resumes, is judged and exported."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

from tools.train.clocked import Clock
from tools.train.drafter_data import load_generated, rows_of_step
from tools.train.drafter_export import read_drafter
from tools.train.drafter_judge import fit_temperature
from tools.train.drafter_run import check_target, parse, run
from tools.train.drafter_shapes import DRAFTERS
from tools.train.loop import load_state
from tools.train.tokenizer import load_tokenizer

NANO = Path(__file__).resolve().parents[2] / "checkpoints" / "demo" / "nano"
STEPS = 200


def _write_rows(folder: Path) -> None:
    """Rows [T+1 = 65] of a few sentences over and over, as a looping target writes them."""
    tokenizer = load_tokenizer(NANO / "tokenizer.json")
    sentences = ["The ship went on.", "def add(a, b): return a + b", "I do not know the answer."]
    rng = np.random.default_rng(0)
    ids = []
    while len(ids) < 60 * 65:
        ids += tokenizer.encode(" ".join(rng.choice(sentences, 4)) + "<|endoftext|>").ids
    tokens = np.array(ids[:60 * 65], np.uint16).reshape(60, 65)
    written = np.ones(tokens.shape, bool)
    written[:, :6] = False
    for at, part in enumerate(np.split(np.arange(60), 2)):
        np.savez(folder / f"rows.{at:02}.npz", tokens=tokens[part], written=written[part])


def _arguments(folder: Path, *more: str):
    return parse(["--preset", "nano-b8", "--target", str(NANO), "--data", str(NANO), "--generated",
                  str(folder), "--out", str(folder / "out"), "--rows", "2", "--anchors", "8",
                  "--dtype", "float32", "--peak", "3e-3", *more])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drafter")
    _write_rows(folder)
    said = []
    return folder, run(_arguments(folder, "--max-steps", str(STEPS)), said.append), said


@pytest.mark.slow
def test_loss_falls_and_acceptance_rises(trained):
    _, figures, said = trained
    curves = figures["curves"]
    assert figures["steps"] == STEPS
    assert figures["tokens"] == STEPS * 2 * 64
    assert curves["step"][-1] == STEPS
    assert curves["loss"][-1] < curves["loss"][0] - 4.0
    assert curves["selector"][-1] < curves["selector"][0] - 2.0
    assert curves["accepted"][0] < 1.5 < 3.0 < curves["accepted"][-1] <= 8.0
    held_out = figures["held_out"]
    assert held_out["accepted"] > 2.5
    assert len(held_out["recall_at_1"]) == len(held_out["recall_at_16"]) == 7
    assert all(one <= many for one, many in zip(held_out["recall_at_1"], held_out["recall_at_16"],
                                                strict=True))
    assert any("step 10 loss" in line for line in said)


@pytest.mark.slow
def test_export_holds_the_trained_drafter(trained):
    folder, figures, _ = trained
    tree, shape, config = read_drafter(folder / "out" / "checkpoint")
    assert shape == DRAFTERS["nano-b8"]
    state = load_state(folder / "out" / "state.pickle")
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2**-8), tree, state["params"])
    assert config["dflash_config"]["lattice_temperature"] == round(
        figures["held_out"]["temperature"], 4)
    stored = json.loads((folder / "out" / "figures.json").read_text())
    assert stored["inputs"]["generated"].keys() == {"rows.00.npz", "rows.01.npz"}
    assert stored["versions"]["jax"] == jax.__version__


@pytest.mark.slow
def test_resumed_run_goes_on_where_the_state_stood(trained):
    folder, _, _ = trained
    figures = run(_arguments(folder, "--max-steps", str(STEPS + 4), "--resume"), lambda text: None)
    assert figures["steps"] == STEPS + 4
    assert figures["curves"]["step"][-1] == STEPS + 4
    assert figures["curves"]["loss"][-1] < figures["curves"]["loss"][0] - 4.0


def test_clock():
    clock = Clock(100.0, None, 2.0)
    assert (clock.share(25.0, 7), clock.share(130.0, 7)) == (0.25, 1.0)
    assert clock.rate(0.5, 5_000) == pytest.approx(1.0)
    assert clock.rate(1.0, 5_000) == pytest.approx(0.0)
    assert clock.rate(0.0, 0) == pytest.approx(2.0 / 101)
    assert Clock(100.0, 50, 2.0).share(99.0, 10) == 0.2


def test_each_epoch_takes_each_row_once():
    steps = [rows_of_step(1, step, 9, 3) for step in range(6)]
    for epoch in (steps[:3], steps[3:]):
        assert sorted(np.concatenate(epoch).tolist()) == list(range(9))
    assert np.concatenate(steps[:3]).tolist() != np.concatenate(steps[3:]).tolist()
    with pytest.raises(ValueError, match="2 training rows"):
        rows_of_step(1, 0, 2, 3)


def test_no_rows_are_refused(tmp_path):
    with pytest.raises(ValueError, match="no rows"):
        load_generated(tmp_path)


def test_another_target_is_refused():
    with pytest.raises(ValueError, match="hidden_size is 128, the drafter needs 384"):
        check_target(NANO, DRAFTERS["mini-b8"], 8190)
    with pytest.raises(ValueError, match="token 5"):
        check_target(NANO, DRAFTERS["nano-b8"], 5)


def test_temperature_undoes_a_scale():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4_000, 16)).astype(np.float32) * 2
    label = np.argmax(scores + rng.gumbel(size=scores.shape), -1)
    temperature, (at_one, best) = fit_temperature(scores * np.float32(1.6), label)
    assert temperature == pytest.approx(1.6, rel=0.05)
    assert best < at_one
