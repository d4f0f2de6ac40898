"""Benchmarks of others are read as text, and counted where training text repeats them."""

import gzip
import json

import pytest

from tools.train.benchmark_texts import benchmark_texts
from tools.train.corpus import Document, overlap_counts, split_of
from tools.train.sources import BENCHMARKS, HELD_OUT_SPEECHES

BFCL, HUMAN_EVAL = BENCHMARKS


def test_function_calling_problems_hold_what_is_said_and_what_functions_are_for(tmp_path):
    folder = tmp_path / "bfcl_eval" / "data"
    folder.mkdir(parents=True)
    rows = [{"id": "one", "question": [[{"role": "user", "content": "Add 2 and\u20283."}]],
             "function": [{"name": "add", "description": "Adds two numbers."}]},
            {"id": "two", "question": [[{"role": "user", "content": "First."}],
                                       [{"role": "user", "content": "Second."}]]}]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (folder / "BFCL_v4_simple.json").write_text(text)
    (folder / "BFCL_v4_format_sensitivity.json").write_text('{"not": "lines"\n}')
    assert benchmark_texts(BFCL, tmp_path) == [
        ("BFCL_v4_simple/one", "Add 2 and\u20283.\nAdds two numbers."),
        ("BFCL_v4_simple/two", "First.\nSecond.")]


def test_programming_problems_hold_prompt_and_answer(tmp_path):
    path = tmp_path / HUMAN_EVAL.patterns[0]
    path.parent.mkdir(parents=True)
    row = {"task_id": "HumanEval/0", "prompt": "def f():\n", "canonical_solution": "    pass\n"}
    path.write_bytes(gzip.compress((json.dumps(row) + "\n").encode()))
    assert benchmark_texts(HUMAN_EVAL, tmp_path) == [("HumanEval/0", "def f():\n    pass\n")]


def test_a_package_without_the_files_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="human-eval"):
        benchmark_texts(HUMAN_EVAL, tmp_path)


def test_overlap_counts_runs_once_by_benchmark():
    words = [f"w{at}" for at in range(40)]
    problem = Document("human-eval", "benchmark", "0", "eval", " ".join(words))
    training = Document("sympy", "python", "a", "train", " ".join([*words[5:25], "x", *words[:3]]))
    other = Document("sympy", "python", "b", "eval", " ".join(words))
    counts = overlap_counts([problem], [training, other])
    assert counts == {"human-eval": {"problems": 1, "runs": 27, "in_training": 8}}
    assert overlap_counts([problem], [other])["human-eval"]["in_training"] == 0


def test_twenty_speeches_are_held_out_by_name():
    assert len(set(HELD_OUT_SPEECHES)) == 20
    assert split_of("speeches", "1862_abraham_lincoln_r") == "eval"
    assert {split_of(*name.split("/")) for name in HELD_OUT_SPEECHES} == {"eval"}
