"""Options that several commands share, declared once."""

from typing import Annotated

import typer

SHIPPED = "mini"

ModelOption = Annotated[
    str, typer.Option("--model", "-m", help="Checkpoint directory, or a shipped model: mini, nano.")
]
ModelArgument = Annotated[
    str, typer.Argument(help="Checkpoint directory, or a shipped model: mini, nano.")
]
DrafterOption = Annotated[
    str,
    typer.Option(
        "--drafter",
        "-d",
        help="Who guesses ahead: auto, none, lookup, mtp; to test the law also wrong, "
        "half-right, random. The text is the same with each.",
    ),
]
MaxTokensOption = Annotated[int, typer.Option("--max-tokens", "-n", help="Most new tokens.")]
MaxContextOption = Annotated[
    int | None,
    typer.Option("--max-context", help="Positions of the cache; default: what the model knows."),
]
IgnoreEosOption = Annotated[
    bool, typer.Option("--ignore-eos", help="Write on past the model's end token.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
