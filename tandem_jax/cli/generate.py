"""`tandem generate`: continue one text."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tandem_jax.cli.options import (
    SHIPPED,
    CorpusOption,
    DrafterOption,
    DraftModelOption,
    IgnoreEosOption,
    JsonOption,
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
from tandem_jax.errors import ConfigError

PromptOption = Annotated[str | None, typer.Option("--prompt", "-p", help="Text to continue.")]
PromptFileOption = Annotated[
    Path | None,
    typer.Option("--prompt-file", "-f", help="File with the text; a dash reads standard input."),
]
VerifyOption = Annotated[
    bool, typer.Option("--verify", help="Also decode plainly and compare token by token.")
]


def generate(
    model: ModelOption = SHIPPED,
    prompt: PromptOption = None,
    prompt_file: PromptFileOption = None,
    max_tokens: MaxTokensOption = 128,
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
    ignore_eos: IgnoreEosOption = False,
    verify: VerifyOption = False,
    json: JsonOption = False,
) -> None:
    """Continue a text; it goes to stdout, counts and speed go to stderr."""
    from tandem_jax.cli.session import Drafting, Request, answer
    from tandem_jax.sampling.params import SamplingParams

    params = SamplingParams(max_tokens=max_tokens, ignore_eos=ignore_eos)
    text = read_prompt(prompt, prompt_file)
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
    request = Request(model, drafting, text, params, max_context=max_context, verify=verify)
    answer(request, as_json=json)


def read_prompt(prompt: str | None, prompt_file: Path | None) -> str:
    """The one prompt that was given; raises `ConfigError` for none, two, or an unreadable file."""
    if (prompt is None) == (prompt_file is None):
        raise ConfigError(
            "give exactly one of --prompt and --prompt-file",
            hint="for example: tandem generate --prompt 'Once upon a time'",
        )
    if prompt is not None:
        return prompt
    try:
        if str(prompt_file) == "-":
            return sys.stdin.read()
        return prompt_file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot read {prompt_file}: {error.strerror}", hint="check --prompt-file"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{prompt_file} is not UTF-8 text: byte {error.start} cannot be decoded",
            hint="convert it to UTF-8 first",
        ) from error
