"""What the terminal shows: tokens coloured by who guessed them, a legend, tables, progress."""

import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console, Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from tandem_jax.cli.transcript import Transcript

# Names from the terminal's own palette, so that they fit a dark and a light one.
STYLES = {
    "target": "",
    "lookup": "cyan",
    "mtp": "magenta",
    "wrong": "red",
    "half-right": "yellow",
    "random": "green",
    "df2-greedy": "bright_magenta",
    "df2-tree": "bright_blue",
    "deep": "bright_cyan",
}
MEANINGS = {
    "target": "the model's own pick",
    "lookup": "copied from the text so far",
    "mtp": "the model's own draft head",
    "wrong": "test drafter, always wrong",
    "half-right": "test drafter, right half of the time",
    "random": "test drafter, random trees",
    "df2-greedy": "the block drafter beside the model",
    "df2-tree": "its other candidates",
    "deep": "one long copied line",
}
# A model can write escape sequences; on a terminal they would be obeyed. Keep \t and \n.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def out() -> Console:
    """The console of the answer; made anew because tests and users redirect stdout."""
    return Console(file=sys.stdout, highlight=False)


def err() -> Console:
    """The console of everything about the answer."""
    return Console(file=sys.stderr, highlight=False)


def printable(text: str) -> str:
    """The text with every control character but tab and newline shown as `\\x..`."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", text)


def write_piece(console: Console, piece: str, source: str) -> None:
    """Append a piece of the answer in the colour of its source, without wrapping or markup."""
    console.out(printable(piece), style=STYLES[source] or None, end="", highlight=False)


def legend(sources: Iterable[str]) -> Text:
    """One line that names the colour of each source."""
    parts = [Text(f"■ {name}: {MEANINGS[name]}", style=STYLES[name]) for name in sources]
    return Text("   ").join(parts)


def summary(transcript: Transcript, facts: Mapping[str, Any]) -> Group:
    """The table below an answer: counts, speed, and each source's share."""
    counts = Table.grid(padding=(0, 2))
    total = len(transcript.token_ids)
    rows = {
        "model": f"{facts['model']}, drafter {facts['drafter']}, on {facts['device']}",
        **_policy_row(facts["routing"]),
        "exactness": facts["exactness_class"],
        "tokens": f"{total} after a prompt of {transcript.prompt_tokens}",
        "rounds": f"{transcript.rounds} (tokens per round: {transcript.tokens_per_round:.2f}; "
        "plain decoding: 1.00)",
        "drafted": f"{transcript.drafted} guesses, {transcript.accepted} accepted",
        "time": f"{transcript.seconds:.2f} s, {total / transcript.seconds:.1f} tokens/s",
        "ended by": transcript.finish_reason or "you",
    }
    for name, value in rows.items():
        counts.add_row(Text(name, style="dim"), Text(value))
    return Group(counts, _shares(transcript.by_source, total))


def _policy_row(routing: Mapping[str, Any] | None) -> dict[str, str]:
    """Who decided what to draft, from which prices; nothing if nobody did."""
    if routing is None:
        return {}
    prices = routing["prices"]
    said = "no price file, learned from the rounds" if prices == "none" else f"prices {prices}"
    return {"policy": f"{routing['policy']}, {said}"}


def _shares(by_source: Mapping[str, int], total: int) -> Table:
    table = Table("source", "tokens", "share", box=None, header_style="dim")
    for source, count in by_source.items():
        bar = "█" * max(1, round(30 * count / total))
        name = Text(source, style=STYLES[source])
        table.add_row(name, str(count), Text(f"{bar} {count / total:.0%}", style=STYLES[source]))
    return table


def facts_table(facts: Mapping[str, Any]) -> Table:
    """A nested description as a two-column table; inner mappings are indented below their name."""
    table = Table.grid(padding=(0, 2))
    for indent, name, value in _flat(facts, 0):
        table.add_row(Text("  " * indent + name.replace("_", " "), style="dim"), Text(value))
    return table


def _flat(facts: Mapping[str, Any], indent: int) -> Iterable[tuple[int, str, str]]:
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield indent, name, ""
            yield from _flat(value, indent + 1)
        elif isinstance(value, list | tuple):
            yield indent, name, ", ".join(map(str, value)) or "none"
        else:
            yield indent, name, f"{value:,}" if isinstance(value, int) else str(value)


class ProgressLine:
    """A progress bar on stderr for one stage after the other; silent where it is no terminal.

    Called as `progress(stage, done, total)`; use it as a context manager, so that the terminal is
    whole again after an error.
    """

    def __init__(self):
        self._bar: Progress | None = None
        self._stage = ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show `done` of `total`; the bar goes away when a stage is complete."""
        if stage != self._stage:
            self.close()
            self._start(stage, total)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=total)
        if done >= total:
            self.close()

    def _start(self, stage: str, total: int) -> None:
        console = err()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bar = Progress(
            *columns,
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._bar.add_task(stage, total=total)
        self._bar.start()
        self._stage = stage

    def close(self) -> None:
        """Take the bar off the screen."""
        if self._bar is not None:
            self._bar.stop()
        self._bar, self._stage = None, ""

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, *exc_info) -> None:
        self.close()
