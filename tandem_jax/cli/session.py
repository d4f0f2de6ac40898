"""What demo and generate have in common: open a model, follow one answer, describe it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer

from tandem_jax.cli import render
from tandem_jax.cli.transcript import Transcript, follow
from tandem_jax.drafters import drafter_class
from tandem_jax.errors import EmptyPromptError
from tandem_jax.sampling.params import SamplingParams
from tandem_jax.staircut.policy import policy_class

if TYPE_CHECKING:
    from tandem_jax.api import LLM


@dataclass(frozen=True)
class Drafting:
    """Who guesses, as the command line asked for it."""

    drafter: str = "auto"  # name of a drafter
    draft_model: str | None = None  # directory or shipped name, None = the one that ships
    tap: str | None = None  # "output" or "entry", None = what the draft model says
    policy: str = "auto"  # name of a policy
    prices: str | None = None  # price file or packaged table, None = the one of the device
    corpus: str | None = None  # directory of a corpus to copy from
    suffix_store: str | None = None  # file of a persistent store to copy from
    suffix_store_readonly: bool = False  # add nothing to it
    learned: str | None = None  # file of what the policy learned


@dataclass(frozen=True)
class Request:
    """One answer as the command line asked for it; checked before any model is loaded."""

    model: str  # directory or shipped name
    drafting: Drafting
    prompt: str  # text to continue, not empty
    params: SamplingParams
    max_context: int | None = None  # cache positions, None = the model's own
    verify: bool = False  # also decode plainly and compare

    def __post_init__(self):
        if not self.prompt:
            raise EmptyPromptError()


def answer(request: Request, *, as_json: bool, echo_prompt: bool = False) -> None:
    """Open the model and write the answer: streamed in colour, or as one JSON object."""
    with render.ProgressLine() as progress:
        llm = open_llm(
            request.model, request.drafting, max_context=request.max_context, progress=progress
        )
        try:
            prompt_ids = llm.tokenizer.encode(request.prompt)
            if as_json:
                transcript = follow(llm, prompt_ids, request.params, lambda piece, source: None)
            else:
                transcript = _streamed(llm, request, prompt_ids, echo_prompt=echo_prompt)
            lossless = None
            if request.verify:
                lossless = llm.verify_lossless(request.prompt, request.params).lossless
            facts = llm.describe()
        finally:
            llm.close()  # what was learned is kept, however the answer ended
    if as_json:
        print_json(_record(request, transcript, facts, lossless))
    else:
        console = render.err()
        console.print(render.summary(transcript, facts))
        if lossless is not None:
            console.print(_verdict(lossless))


def open_llm(model: str, drafting: Drafting, *, max_context: int | None, progress) -> "LLM":
    """The model behind its front door; `progress(stage, done, total)` is told how far it is.

    Raises `ConfigError` for an unknown drafter or policy before the model is read.
    """
    from tandem_jax import LLM

    drafter_class(drafting.drafter)
    if drafting.policy != "auto":
        policy_class(drafting.policy)
    return LLM(model, **asdict(drafting), max_context=max_context, progress=progress)


def print_json(record: Mapping[str, Any]) -> None:
    """One JSON object on one line of stdout."""
    typer.echo(json.dumps(record, ensure_ascii=False))


def _streamed(
    llm: "LLM", request: Request, prompt_ids: list[int], *, echo_prompt: bool
) -> Transcript:
    console = render.out()
    if echo_prompt:
        console.out(render.printable(request.prompt), style="dim", end="", highlight=False)
    transcript = follow(
        llm,
        prompt_ids,
        request.params,
        lambda piece, source: render.write_piece(console, piece, source),
    )
    console.out("")
    render.err().print(render.legend(transcript.by_source))
    return transcript


def _record(
    request: Request, transcript: Transcript, facts: Mapping[str, Any], lossless: bool | None
) -> dict[str, Any]:
    return {
        "text": transcript.text,
        "tokens": len(transcript.token_ids),
        "rounds": transcript.rounds,
        "tokens_per_round": transcript.tokens_per_round,
        "by_source": transcript.by_source,
        "lossless": lossless,
        "device": facts["device"],
        "exactness_class": facts["exactness_class"],
        "seconds": transcript.seconds,
        "model": facts["model"],
        "drafter": facts["drafter"],
        "policy": (facts["routing"] or {}).get("policy"),
        "prices": (facts["routing"] or {}).get("prices"),
        "prompt": request.prompt,
        "prompt_tokens": transcript.prompt_tokens,
        "drafted": transcript.drafted,
        "accepted": transcript.accepted,
        "finish_reason": transcript.finish_reason,
        "token_ids": list(transcript.token_ids),
    }


def _verdict(lossless: bool) -> str:
    if lossless:
        return "[green]lossless: plain decoding wrote exactly the same tokens[/green]"
    return "[red]NOT lossless: plain decoding wrote other tokens; please report this[/red]"
