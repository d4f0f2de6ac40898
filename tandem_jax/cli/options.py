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
PolicyOption = Annotated[
    str,
    typer.Option(
        "--policy",
        help="Who decides what a round drafts, with the drafter at auto: staircut, length, fixed8, "
        "fixed16, mtp, none. Default: staircut, or mtp for a model that has only its own head.",
    ),
]
PricesOption = Annotated[
    str | None,
    typer.Option(
        "--prices",
        help="What rounds cost: a JSON file, or a packaged table such as gb10. Default: the one of "
        "this model and device, if there is one.",
    ),
]
CorpusOption = Annotated[
    str | None, typer.Option("--corpus", help="Directory of a corpus that the lookup copies from.")
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--suffix-store", help="File that keeps what was read and written, for the lookup."
    ),
]
StoreReadonlyOption = Annotated[
    bool, typer.Option("--suffix-store-readonly", help="Use that file and add nothing to it.")
]
LearnedOption = Annotated[
    str | None,
    typer.Option("--learned", help="File that keeps what the policy learned, between runs."),
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
