"""`tandem demo`: watch a small trained model write, and see that speculation changed nothing."""

from typing import Annotated

import typer

from tandem_jax.cli.options import (
    SHIPPED,
    DrafterOption,
    DraftModelOption,
    JsonOption,
    MaxTokensOption,
    ModelOption,
    PolicyOption,
    PricesOption,
    TapOption,
)

# Code in which each function resembles the one before: both kinds of guess have something to do.
PROMPT = '''def add(a, b):
    """Return the sum of a and b."""
    return a + b


def subtract(a, b):
'''
PromptOption = Annotated[
    str, typer.Option("--prompt", "-p", show_default=False, help="Text to continue.")
]


def demo(
    model: ModelOption = SHIPPED,
    prompt: PromptOption = PROMPT,
    max_tokens: MaxTokensOption = 96,
    drafter: DrafterOption = "auto",
    draft_model: DraftModelOption = None,
    tap: TapOption = None,
    policy: PolicyOption = "auto",
    prices: PricesOption = None,
    json: JsonOption = False,
) -> None:
    """Let a shipped model write, coloured by who guessed each token, and check it is lossless."""
    from tandem_jax.cli.session import Drafting, Request, answer
    from tandem_jax.sampling.params import SamplingParams

    params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    drafting = Drafting(drafter, draft_model, tap, policy, prices)
    request = Request(model, drafting, prompt, params, verify=True)
    answer(request, as_json=json, echo_prompt=True)
