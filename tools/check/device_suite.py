"""Run the law, contract and engine tests on this machine, and the shipped models beside them.

    python -m tools.check.device_suite --out results.json [--models nano mini] [--tokens 128]

Prints a table and writes one JSON with device, date, command, versions and counts. On a GPU the
suite is `pytest -m gpu`; on a CPU it is the CPU variant of the same tests.
"""

import argparse
import datetime
import json
import platform
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

SUITE = ("tests/contracts", "tests/laws", "tests/engine", "tests/state", "tests/models")
PROMPTS = {
    "prose": "The old house stood at the end of a long road, and",
    "code": 'def read_lines(path):\n    """Return the lines of a file."""\n',
    "copy": "one two three four five six seven. one two three four five six seven. one two",
}
WITH_MTP = ("none", "wrong", "half-right", "random", "lookup", "mtp", "auto")
WITH_DRAFT_MODEL = ("dflash2",)  # run where a drafter ships with the model


def run_tests(gpu: bool, folder: Path, seconds: int, paths=SUITE) -> dict:
    """Counts of the suite, from pytest's own XML; a crash or time-out is recorded as such."""
    report = folder / "suite.xml"
    mark = ["-m", "gpu"] if gpu else ["-m", "not gpu"]
    command = [sys.executable, "-m", "pytest", *mark, "-q", f"--junitxml={report}", *paths]
    started = time.perf_counter()
    try:
        code = subprocess.run(command, timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        return {"command": command[1:], "timed_out_after_s": seconds}
    root = ET.parse(report).getroot()
    total = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for suite in root.iter("testsuite"):
        for key in total:
            total[key] += int(suite.get(key, 0))
    failed = [
        f"{case.get('classname')}::{case.get('name')}"
        for case in root.iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    ]
    seconds_taken = round(time.perf_counter() - started, 1)
    return {
        "command": command[1:],
        "exit_code": code,
        **total,
        "failed": failed,
        "seconds": seconds_taken,
    }


def run_model(name: str, dtype: str, tokens: int) -> list[dict]:
    """One line per drafter and prompt: is the text that of plain decoding, and how fast."""
    from tandem_jax import LLM, SamplingParams
    from tandem_jax.loading import resolve_model
    from tandem_jax.loading_drafter import default_drafter

    params = SamplingParams(max_tokens=tokens, ignore_eos=True)
    options = {"dtype": dtype, "max_context": 1024}
    runs = dict.fromkeys(WITH_MTP, LLM(name, drafter="mtp", **options))
    if default_drafter(resolve_model(name)) is not None:
        runs |= dict.fromkeys(WITH_DRAFT_MODEL, LLM(name, drafter="dflash2", **options))
    lines = []
    for kind, prompt in PROMPTS.items():
        ids = runs["none"].tokenizer.encode(prompt)
        plain: list[int] = []
        for drafter, llm in runs.items():
            started = time.perf_counter()
            events = list(llm.stream_ids(ids, params, drafter=drafter))
            seconds = time.perf_counter() - started
            out = [token for event in events for token in event.tokens]
            plain = out if drafter == "none" else plain
            rounds = [event for event in events if event.rows]
            times = sorted(event.round_ms for event in rounds)
            lines.append(
                {
                    "model": name,
                    "dtype": dtype,
                    "prompt": kind,
                    "drafter": drafter,
                    "tokens": len(out),
                    "identical": out == plain,
                    "rounds": len(rounds),
                    "tokens_per_round": round((len(out) - 1) / len(rounds), 3),
                    "round_ms_median": round(times[len(times) // 2], 3),
                    "seconds": round(seconds, 3),
                }
            )
    return lines


def main() -> int:
    """Everything in one go; exit code 1 if a test failed or a text differed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--models", nargs="*", default=["nano"], help="models to decode with")
    parser.add_argument("--dtypes", nargs="*", default=["float32"], help="their dtypes")
    parser.add_argument("--tokens", type=int, default=128, help="new tokens a prompt")
    parser.add_argument("--suite-seconds", type=int, default=400, help="time limit of the tests")
    parser.add_argument("--suite", nargs="*", default=list(SUITE), help="test folders and files")
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)

    # The tests run first, in their own process: a GPU's memory belongs to one process at a time.
    probe = "import jax; print(jax.default_backend())"
    backend = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True
    ).stdout.split()[-1]
    suite = run_tests(backend == "gpu", args.out.parent, args.suite_seconds, args.suite)

    import jax

    record = {
        "what": "laws, contracts and engine tests; shipped models with every drafter",
        "device": jax.devices()[0].device_kind,
        "host": platform.processor() or platform.machine(),
        "date": datetime.date.today().isoformat(),
        "command": "python -m tools.check.device_suite " + " ".join(sys.argv[1:]),
        "jax": jax.__version__,
        "python": platform.python_version(),
        "matmul_precision": "highest",
        "suite": suite,
        "decoding": [
            line
            for name in args.models
            for dtype in args.dtypes
            for line in run_model(name, dtype, args.tokens)
        ],
    }
    args.out.write_text(json.dumps(record, indent=1) + "\n")
    show(record)
    good = suite.get("exit_code") == 0 and all(line["identical"] for line in record["decoding"])
    return 0 if good else 1


def show(record: dict) -> None:
    """The table a reader wants at the end of a log."""
    suite = {k: v for k, v in record["suite"].items() if k not in ("command", "failed")}
    print(f"\n{record['device']}, jax {record['jax']}, {record['date']}\nsuite: {suite}")
    for name in record["suite"].get("failed", []):
        print("  failed", name)
    for line in record["decoding"]:
        print(" ".join(f"{key}={value}" for key, value in line.items()))


if __name__ == "__main__":
    sys.exit(main())
