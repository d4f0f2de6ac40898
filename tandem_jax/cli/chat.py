"""`tandem chat`: a conversation in the terminal."""

import importlib.util
from typing import TYPE_CHECKING, Annotated

import typer

from tandem_jax.cli.options import (
    SHIPPED,
    CorpusOption,
    DrafterOption,
    DraftModelOption,
    LearnedOption,
    MaxContextOption,
    MaxTokensOption,
    ModelOption,
    PolicyOption,
    PricesOption,
    StoreOption,
    StoreReadonlyOption,
    TapOption,
)
from tandem_jax.errors import RequestError

if TYPE_CHECKING:
    from rich.console import Console

    from tandem_jax.api import LLM
    from tandem_jax.sampling.params import SamplingParams

SystemOption = Annotated[str, typer.Option("--system", help="System message.")]
HELP = "/reset forgets the conversation, /quit ends it, Ctrl-C stops an answer."


def chat(
    model: ModelOption = SHIPPED,
    max_tokens: MaxTokensOption = 512,
    drafter: DrafterOption = "auto",
    draft_model: DraftModelOption = None,
    tap: TapOption = None,
    policy: PolicyOption = "auto",
    prices: PricesOption = None,
    corpus: CorpusOption = None,
    suffix_store: StoreOption = None,
    suffix_store_readonly: StoreReadonlyOption = False,
    learned: LearnedOption = None,
    max_context: MaxContextOption = None,
    system: SystemOption = "",
) -> None:
    """Talk with a model; /quit or Ctrl-D ends the conversation."""
    from tandem_jax.cli import render
    from tandem_jax.cli.session import Drafting, open_llm
    from tandem_jax.sampling.params import SamplingParams

    params = SamplingParams(max_tokens=max_tokens)
    if importlib.util.find_spec("readline"):
        importlib.import_module("readline")  # line editing and history for input()
    with render.ProgressLine() as progress:
        drafting = Drafting(
        drafter=drafter,
        draft_model=draft_model,
        tap=tap,
        policy=policy,
        prices=prices,
        corpus=corpus,
        suffix_store=suffix_store,
        suffix_store_readonly=suffix_store_readonly,
        learned=learned,
    )
        llm = open_llm(model, drafting, max_context=max_context, progress=progress)
        render.err().print(f"{llm.model_name}, drafter {llm.drafter_name}. {HELP}", style="dim")
        try:
            converse(llm, params, system, render.out())
        finally:
            llm.close()


def converse(llm: "LLM", params: "SamplingParams", system: str, console: "Console") -> None:
    """Read a line, answer it, until /quit or the end of input; history grows with each turn."""
    from tandem_jax.cli.group import report

    start = [{"role": "system", "content": system}] if system else []
    messages = list(start)
    while (line := _read_line(console)) != "/quit":
        if line == "/reset":
            messages = list(start)
        elif line in {"/help", "/?"}:
            console.print(HELP, style="dim")
        elif line:
            asked = [*messages, {"role": "user", "content": line}]
            try:
                text = _answer(llm, params, asked, console)
            except RequestError as error:
                # Too long a conversation, say: the turn is dropped and the talk goes on.
                report(error)
            else:
                messages = [*asked, {"role": "assistant", "content": text}]


def _read_line(console: "Console") -> str:
    try:
        return console.input("> ", markup=False).strip()
    except EOFError:
        console.out("")
        return "/quit"


def _answer(llm: "LLM", params: "SamplingParams", messages: list[dict], console: "Console") -> str:
    """Stream one answer; Ctrl-C keeps what has been written so far."""
    from tandem_jax.cli import render
    from tandem_jax.cli.transcript import follow

    pieces = []

    def show(piece: str, source: str) -> None:
        pieces.append(piece)
        render.write_piece(console, piece, source)

    try:
        transcript = follow(llm, llm.encode_chat(messages), params, show)
    except KeyboardInterrupt:
        console.out("")
    else:
        console.out("")
        note = f"{len(transcript.token_ids)} tokens in {transcript.rounds} rounds"
        render.err().print(note, style="dim")
    return "".join(pieces)
