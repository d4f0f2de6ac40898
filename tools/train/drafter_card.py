"""Writes the MODEL_CARD.md of a trained drafter from the figures of its training.

    python -m tools.train.drafter_card checkpoints/demo/mini-b16 --preset mini-b16 \\
        --figures FILE --generated FILE --acceptance benchmarks/results/acceptance.json
--generated is the figures.json of tools.train.generate, --acceptance the result file of
tools.measure.acceptance (a drafter stands there as b8, b16, ...).
"""

import argparse
import json
from pathlib import Path

import jax

from tools.train.card import file_table
from tools.train.drafter_model import init_drafter
from tools.train.drafter_shapes import DRAFTERS, DrafterShape

INTRODUCTION = """# Model card: {name}

A DFlash2 block drafter for the demo model `{target}`: from the target's features it proposes
{shape.slots} tokens at once, and the target decides. It changes how fast text arrives, never what
it says. It is useless with any other target. Weights: Apache-2.0, like the project.

| | |
| --- | --- |
| parameters | {parameters:,} ({shape.n_layers} layers, width {shape.d_model}, FFN {shape.d_ffn}) |
| stored as | {stored} |
| attention | {shape.heads} query / {shape.kv_heads} KV heads x {shape.d_head}, \
window {shape.window}, not causal inside the block |
| block | {shape.block} rows: the last token and {shape.slots} masks |
| taps | the stream entering layers {taps} of {shape.target_layers} (`"tap": "entry"`) |
| selector | rank {shape.rank}, {shape.top_k} candidates a slot, \
lattice temperature {temperature:.3f} (fitted) |
| borrowed | the target's embedding and head |

## Training

On rows that the target wrote itself: {written:,} of {generated:,} tokens are the target's own
(greedy, 15 % of the rows at temperature 0.7; {loops:.1%} of them in loops, which were left out),
behind prompts of the training split only. {steps:,} steps over {tokens:,} tokens of such rows,
{anchors} blocks a row, {seconds:.0f} s on one {device}; jax {versions[jax]}, optax
{versions[optax]}, seed {seed}. Loss: cross-entropy of the slots with D-PACE weights, and from
{selector_from} of the run at the latest the selector's choice among {shape.top_k}.

```sh
python -m tools.train.drafter_run --preset {name} --target TARGET --data DIR \\
    --generated GEN --out OUT {flags}
```

The target's `model.safetensors` had SHA-256 `{target_hash}`. By the clock, so another run gives
weights of the same quality, not the same bytes.

## Held-out rows of the target's own text

{anchors_judged:,} blocks. Tokens a block, the target's own one included: **{accepted:.2f}** along
the selector's walk, {accepted_plain:.2f} with the head's argmax.

| slot | {slots} |
| --- |{rule}
| recall@1 | {first} |
| recall@{shape.top_k} | {among} |
"""
ACCEPTANCE = """
## Acceptance

Tokens a round, the target's own one included, walked over the target's greedy answers to the
25 workloads ({samples} prompts, {device}, {date}). Small models loop under greedy decoding, and
loops are easy to guess: `benchmarks/README.md` has the same table on held-out real text.

| group | tokens a round |
| --- | --- |
"""
FLAGS = ("seconds", "rows", "anchors", "weights", "peak", "optimizer", "seed")


def _introduction(name: str, shape: DrafterShape, figures: dict, generated: dict) -> str:
    arguments, judged = figures["arguments"], figures["held_out"]
    leaves = jax.tree.leaves(jax.eval_shape(lambda: init_drafter(jax.random.key(0), shape)))
    four_bit = arguments["nvfp4"] == "True"
    flags = [f"--{flag} {arguments[flag]}" for flag in FLAGS] + ["--nvfp4"] * four_bit
    return INTRODUCTION.format(
        name=name, shape=shape, target=name.split("-")[0], parameters=sum(x.size for x in leaves),
        stored="NVFP4 body, bf16 selector, convolutions and norms" if four_bit else "bf16",
        taps=", ".join(map(str, shape.taps)), temperature=judged["temperature"],
        written=generated["all"]["written"], generated=generated["tokens"],
        loops=generated["all"]["loop_share"], steps=figures["steps"], tokens=figures["tokens"],
        anchors=arguments["anchors"], seconds=figures["seconds"],
        device=figures["versions"]["device"], versions=figures["versions"],
        seed=arguments["seed"], selector_from=f"{float(arguments['selector_from']):.0%}",
        flags=" ".join(flags), target_hash=figures["inputs"]["target"],
        anchors_judged=judged["anchors"], accepted=judged["accepted"],
        accepted_plain=judged["accepted_plain"],
        slots=" | ".join(map(str, range(1, shape.block))), rule=" --- |" * shape.slots,
        first=" | ".join(f"{x:.3f}" for x in judged["recall_at_1"]),
        among=" | ".join(f"{x:.3f}" for x in judged[f"recall_at_{shape.top_k}"]))


def drafter_card(name: str, folder: Path, figures: dict, generated: dict,
                 acceptance: dict | None = None) -> str:
    """Return the text of the card of the drafter in `folder`.

    Raises KeyError when the acceptance record does not hold the drafter.
    """
    text = _introduction(name, DRAFTERS[name], figures, generated)
    if acceptance:
        groups = acceptance["drafters"][name.split("-")[1]]["groups"]
        text += ACCEPTANCE.format(**acceptance)
        text += "".join(f"| {group} | {value:.2f} |\n" for group, value in groups.items())
    return text + file_table(folder)


def main() -> None:
    """Write MODEL_CARD.md into the drafter's folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--preset", choices=sorted(DRAFTERS), required=True)
    parser.add_argument("--figures", type=Path, required=True)
    parser.add_argument("--generated", type=Path, required=True)
    parser.add_argument("--acceptance", type=Path)
    arguments = parser.parse_args()
    read = [path and json.loads(path.read_text())
            for path in (arguments.figures, arguments.generated, arguments.acceptance)]
    card = drafter_card(arguments.preset, arguments.folder, *read)
    (arguments.folder / "MODEL_CARD.md").write_text(card)


if __name__ == "__main__":
    main()
