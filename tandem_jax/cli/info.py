"""`tandem info`: what a checkpoint is and how this machine would run it."""

from tandem_jax.cli.options import SHIPPED, JsonOption, ModelArgument


def info(model: ModelArgument = SHIPPED, json: JsonOption = False) -> None:
    """Describe a model: its layers and parameters, the drafters it allows, the exactness class."""
    from tandem_jax import LLM
    from tandem_jax.cli import render
    from tandem_jax.cli.session import print_json

    with render.ProgressLine() as progress:
        facts = LLM(model, warmup=False, progress=progress).describe()
    if json:
        print_json(facts)
    else:
        render.out().print(render.facts_table(facts))
