"""The `tandem` command: demo, generate, chat, info, serve.

Answers go to stdout, everything about them to stderr. Heavy imports wait until a command needs
them, so that `--help` and usage errors answer at once.
"""

import io
import sys

import typer

from tandem_jax import __version__
from tandem_jax.cli import chat, demo, generate, info, serve
from tandem_jax.cli.group import TandemGroup

app = typer.Typer(
    cls=TandemGroup,
    help="Lossless tree speculation for hybrid language models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def top(
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
) -> None:
    """Options in front of the command."""
    if version:
        typer.echo(f"tandem-jax {__version__}")
        raise typer.Exit


for command in (demo.demo, generate.generate, chat.chat, info.info, serve.serve):
    app.command()(command)


def main() -> None:
    """Entry point of the installed command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A model may write what the terminal's encoding lacks; that must not end the program.
            stream.reconfigure(errors="replace")
    app()
