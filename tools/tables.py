"""Turn a result JSON of `tools.check.device_suite` into the Markdown table that documents show.

python -m tools.tables benchmarks/results/h200-foundation.json
"""

import argparse
import json
from pathlib import Path

COLUMNS = (
    "model",
    "dtype",
    "prompt",
    "drafter",
    "tokens",
    "rounds",
    "tokens_per_round",
    "identical",
)


def table(record: dict) -> str:
    """One row per line of `record["decoding"]`, under a line that says where it was measured."""
    suite = record["suite"]
    passed = suite["tests"] - suite["failures"] - suite["errors"] - suite["skipped"]
    lines = [
        f"{record['device']}, jax {record['jax']}, {record['date']}, matmul precision "
        f"{record['matmul_precision']}; `{record['command']}`.",
        f"Suite: {passed} passed, {suite['failures'] + suite['errors']} failed, "
        f"{suite['skipped']} skipped.",
        "",
        "| " + " | ".join(name.replace("_", " ") for name in COLUMNS) + " |",
        "|" + "-|" * len(COLUMNS),
    ]
    for row in record["decoding"]:
        cells = (
            "yes" if row[c] is True else "NO" if row[c] is False else str(row[c]) for c in COLUMNS
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("result", type=Path)
    print(table(json.loads(parser.parse_args().result.read_text())))


if __name__ == "__main__":
    main()
