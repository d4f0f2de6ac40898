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
        help="Who guesses ahead: auto, none, lookup, mtp, dflash2; to test the law also wrong, "
        "half-right, random. The text is the same with each.",
    ),
]
DraftModelOption = Annotated[
    str | None,
    typer.Option(
        "--draft-model",
        help="Checkpoint directory of a block drafter (DFlash2, DFlash), or the "
        "name of a shipped one. Default: the one that ships with the model, if one does.",
    ),
]
TapOption = Annotated[
    str | None,
    typer.Option(
        "--tap",
        help="What the draft model reads: output (behind its target layers) or entry (before "
        "them). Default: what its checkpoint says.",
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
