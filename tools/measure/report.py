"""Draws the report of the demo family: PNG files from acceptance.json and figures.json files.

    python -m tools.measure.report benchmarks/results/acceptance.json --out docs/images \\
        --figures mini=OUT/figures.json mini-b16=OUT/b16/figures.json
Needs the `plots` extra (matplotlib); the figures are drawn without a display.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from tandem_jax.errors import TandemError

DPI, WIDTH = 110, 8.0  # dots an inch, inches
HEADLESS = {"Software": None}  # no version in the file, so that equal plots are equal bytes
CURVE_POINTS = 150


def pyplot_headless():
    """Return pyplot on the Agg backend; raises TandemError when matplotlib is missing."""
    try:
        import matplotlib
    except ImportError as error:
        raise TandemError("plots need matplotlib, which is not installed",
                          hint='install it with: pip install "tandem-jax[plots]"') from error
    matplotlib.use("Agg")
    from matplotlib import pyplot
    return pyplot


def save_figure(figure, path: Path) -> Path:
    """Write a figure as PNG, equal figures as equal bytes; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=DPI, metadata=HEADLESS)
    return path


def _by_slot(pyplot, lines: dict[str, list[float]], title: str, label: str, path: Path) -> Path:
    """Draw one line a drafter over the slots 1, 2, ..."""
    figure, axis = pyplot.subplots(figsize=(WIDTH, 4.2))
    for name, values in lines.items():
        axis.plot(range(1, len(values) + 1), values, marker="o", markersize=3, label=name)
    axis.set(title=title, xlabel="slot (tokens behind the anchor)", ylabel=label, ylim=(0, 1.02))
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    path = save_figure(figure, path)
    pyplot.close(figure)
    return path


def _recall(pyplot, drafters: dict[str, dict], path: Path) -> Path:
    """Draw recall@1 (solid) and recall@16 (dashed) by slot."""
    figure, axis = pyplot.subplots(figsize=(WIDTH, 4.2))
    for at, (name, row) in enumerate(drafters.items()):
        for key, style in (("recall_at_1", "-"), ("recall_at_16", "--")):
            values = row[key]
            axis.plot(range(1, len(values) + 1), values, style, color=f"C{at}", marker="o",
                      markersize=3, label=f"{name} {key.replace('recall_at_', 'recall@')}")
    axis.set(title="The true token is the best candidate, or among 16", ylim=(0, 1.02),
             xlabel="slot (tokens behind the anchor)", ylabel="share of positions")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    path = save_figure(figure, path)
    pyplot.close(figure)
    return path


def _dots(pyplot, workloads: dict[str, dict[str, float]], title: str, path: Path) -> Path:
    """Draw tokens a round: a line for each workload, a dot for each drafter along its own walk."""
    names = list(workloads)
    drafters = [name for name in workloads[names[0]] if not name.endswith("-argmax")]
    figure, axis = pyplot.subplots(figsize=(WIDTH, 1.2 + 0.22 * len(names)))
    for at, (drafter, marker) in enumerate(zip(drafters, "osD^vP*X", strict=False)):
        axis.plot([workloads[name][drafter] for name in names], range(len(names)), marker,
                  color=f"C{at}", markersize=5, alpha=0.85, label=drafter)
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.invert_yaxis()
    axis.set(title=title, xlabel="tokens a round, the target's own included")
    axis.set_xlim(left=0.8)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    path = save_figure(figure, path)
    pyplot.close(figure)
    return path


def loss_curve(figures: dict) -> tuple[list[float], list[float]]:
    """Return (step, loss) of a figures.json: of the target's run or of a drafter's, thinned."""
    if "curves" in figures:
        curves = figures["curves"]
        steps = curves["step"]
        losses = curves["loss"] if "loss" in curves else curves[list(curves)[1]]
    else:
        losses = figures["losses"]
        steps = np.linspace(0, figures["steps"], len(losses), endpoint=False).tolist()
    every = max(1, len(losses) // CURVE_POINTS)
    return steps[::every], losses[::every]


def _losses(pyplot, runs: dict[str, dict], path: Path) -> Path:
    """Draw the loss of each training in a plot of its own: they are not comparable."""
    figure, axes = pyplot.subplots(1, len(runs), squeeze=False,
                                   figsize=(max(4.5, 3.0 * len(runs)), 3.0))
    for axis, (name, figures) in zip(axes[0], runs.items(), strict=True):
        axis.plot(*loss_curve(figures), linewidth=1)
        axis.set(title=name, xlabel="step")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("training loss, nats")
    path = save_figure(figure, path)
    pyplot.close(figure)
    return path


def named_runs(files: list[Path | str]) -> dict[str, dict]:
    """Return {name: figures} of "NAME=FILE" words; a bare file is named after its folder."""
    runs = {}
    for word in map(str, files):
        name, _, file = word.rpartition("=")
        runs[name or Path(file).parent.name] = json.loads(Path(file).read_text())
    return runs


def draw(record: dict, figures: list[Path | str], folder: Path) -> list[Path]:
    """Write the report's PNG files for an acceptance record; return their paths.

    `figures` are figures.json files of trainings; without one there is no plot of losses. Raises
    TandemError when matplotlib is missing.
    """
    pyplot, drafters = pyplot_headless(), record["drafters"]
    where = f"{record['target']}, {record['reference']} reference"
    paths = [
        _by_slot(pyplot, {name: row["accepted_by_slot"] for name, row in drafters.items()},
                 f"Accepted by slot ({where})", "share of rounds",
                 folder / "acceptance-by-slot.png"),
        _dots(pyplot, record["workloads"], f"Tokens a round ({where})",
              folder / "tokens-per-round.png")]
    judged = {name: row for name, row in drafters.items() if "recall_at_1" in row
              and not name.endswith("-argmax")}
    if judged:
        paths.append(_recall(pyplot, judged, folder / "recall-by-slot.png"))
    if figures:
        paths.append(_losses(pyplot, named_runs(figures), folder / "loss-curves.png"))
    return paths


def main() -> None:
    """Draw the report of a result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("record", type=Path)
    parser.add_argument("--figures", nargs="*", default=[], metavar="[NAME=]FILE")
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    arguments = parser.parse_args()
    for path in draw(json.loads(arguments.record.read_text()), arguments.figures, arguments.out):
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
