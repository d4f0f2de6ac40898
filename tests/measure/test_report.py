"""Plots are written, small, and missing matplotlib is said."""

import json
import sys

import pytest

from tandem_jax.errors import TandemError
from tools.measure.report import draw, loss_curve, main

SIGNATURE = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def record():
    names = ("lookup", "b8", "b16", "b16-argmax", "mtp-4")
    by_slot = [0.8 * 0.9**slot for slot in range(16)]
    recall = {"recall_at_1": by_slot, "recall_at_16": [min(1.0, 1.2 * x) for x in by_slot]}
    return {"target": "mini", "reference": "greedy",
            "drafters": {name: {"accepted_by_slot": by_slot,
                                **({} if name == "lookup" else recall)} for name in names},
            "workloads": {f"workload_{at}": dict.fromkeys(names, 1.0 + at / 4)
                          for at in range(25)}}


@pytest.fixture
def run_files(tmp_path):
    target, drafter, head = (tmp_path / name / "figures.json" for name in ("t", "d", "h"))
    for path, figures in (
            (target, {"losses": [9.0, 5.0, 3.0], "steps": 150}),
            (drafter, {"curves": {"step": [1, 2], "loss": [4.0, 3.0]}, "steps": 2}),
            (head, {"curves": {"step": [1, 2], "nats_1": [4.0, 3.0]}, "steps": 2})):
        path.parent.mkdir()
        path.write_text(json.dumps(figures))
    return [f"mini={target}", drafter, head]


def test_plots_are_small_files(record, run_files, tmp_path):
    paths = draw(record, run_files, tmp_path / "images")
    assert [path.name for path in paths] == ["acceptance-by-slot.png", "tokens-per-round.png",
                                             "recall-by-slot.png", "loss-curves.png"]
    for path in paths:
        assert path.read_bytes().startswith(SIGNATURE)
        assert 5_000 < path.stat().st_size < 120_000


def test_equal_plots_are_equal_bytes(record, tmp_path):
    one, two = (draw(record, [], tmp_path / name)[0].read_bytes() for name in "ab")
    assert one == two


def test_loss_curves():
    assert loss_curve({"losses": [9.0, 5.0, 3.0], "steps": 150}) == ([0, 50, 100], [9.0, 5.0, 3.0])
    long = {"curves": {"step": list(range(300)), "loss": [1.0] * 300}}
    assert len(loss_curve(long)[1]) == 150


def test_command(record, run_files, tmp_path, monkeypatch, capsys):
    result = tmp_path / "acceptance.json"
    result.write_text(json.dumps(record))
    monkeypatch.setattr(sys, "argv", ["report", str(result), "--out", str(tmp_path / "images"),
                                      "--figures", run_files[0]])
    main()
    assert capsys.readouterr().out.count(".png: ") == 4


def test_missing_matplotlib_is_said(record, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(TandemError, match="matplotlib") as caught:
        draw(record, [], tmp_path)
    assert "pip install" in caught.value.hint
