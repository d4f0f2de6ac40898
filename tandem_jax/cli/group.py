"""User errors become two lines on stderr and exit code 2, for every command alike."""

import typer
from typer.core import TyperGroup

from tandem_jax.errors import TandemError

USER_ERROR = 2  # the exit code of usage errors too


def report(error: TandemError) -> None:
    """Print `error: ...` and, where there is one, `hint: ...` to stderr, each on its own line."""
    typer.echo(f"error: {_one_line(str(error))}", err=True)
    if error.hint:
        typer.echo(f"hint: {_one_line(error.hint)}", err=True)


def _one_line(text: str) -> str:
    return " ".join(text.split())


class TandemGroup(TyperGroup):
    """The command group; faults of our own still show their traceback."""

    def invoke(self, ctx):
        """Run the command; a `TandemError` ends it without a traceback."""
        try:
            return super().invoke(ctx)
        except TandemError as error:
            report(error)
            raise typer.Exit(USER_ERROR) from error
