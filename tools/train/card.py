"""Writes a demo checkpoint's MODEL_CARD.md from the corpus manifest and the run's figures.

    python -m tools.train.card checkpoints/demo/mini --preset mini --data DIR --figures FILE \\
        --refit FILE --gates benchmarks/results/gates.json
--refit and --gates add what `tools.train.mtp_refit` and `tools.measure.gates` found.
"""

import argparse
import json
from pathlib import Path

import jax

from tools.train.export import sha256_table
from tools.train.model import init_params
from tools.train.shapes import PRESETS, ModelShape
from tools.train.shards import read_manifest

INTRODUCTION = """# Model card: {name}

A self-trained miniature of the dense Qwen3.5 hybrid (three Gated DeltaNet layers to one gated
attention layer, one MTP layer), made to test and show the engine without a download. Weights:
Apache-2.0, like the project. It is no assistant: it invents facts, loops under greedy decoding on
open prompts, and knows little beyond the texts below.

| | |
| --- | --- |
| parameters | {parameters:,} ({shape.n_layers} layers, width {shape.d_model}, FFN {shape.d_ffn}) |
| stored as | {stored} |
| DeltaNet | {shape.key_heads} key / {shape.value_heads} value heads x {shape.d_delta}, conv 4 |
| attention | {shape.query_heads} query / {shape.kv_heads} KV heads x {shape.d_head}, rotary 0.25 |
| vocabulary | 8,192: byte-level BPE on the Qwen3.5 split; 17 added tokens last |
| context | trained on rows of {lengths} tokens; config says {shape.max_context} |

Added tokens: `<|...|>` are flagged special; the think, tool_call and tool_response tags are added
tokens that are not flagged special, as in the Qwen family.

## Training

{tokens:,} tokens drawn from a corpus of {corpus:,} ({epochs:.1f} passes), {steps:,} steps of
{batch:,} tokens in {seconds:.0f} s ({rate:,} tokens/s) on one {device}, jax 0.11.2,
seed {seed}. {optimizer} for matrices (peak rate {peak}), Adam for the rest; fp32 master weights,
bf16 compute, fp32 gates and state. Schedule by the clock: warm-up 100 steps, flat to 75 %, linear
to zero. Loss: next token + MTP (0.3, then 0.1 from 70 % on) + z-loss 1e-4; from 85 % on half of
the tokens are chats and only assistant turns count. Documents never see each other: attention and
convolution are masked, and the DeltaNet state is reset by g = -30 at a document's first token.

Commands (DIR is a scratch folder):

```sh
python -m tools.train.corpus --work DIR
python -m tools.train.run --preset {name} --data DIR --out OUT {flags}
python -m tools.train.verify OUT/checkpoint --preset {name}
```

The corpus is reproducible from its seed ({corpus_seed}) and the packages below. Training is by the
clock, so another run gives weights of the same quality, not the same bytes.
"""
HELD_OUT = """
## Held-out figures

Whole documents kept out by a keyed hash or by name (Persuasion, Measure for Measure, The Tempest,
Ruth, networkx flow, Django forms, Go net/http, ...); training documents that share 13-word runs
with them were dropped. Rows of 1,024 tokens, at most 131,072 tokens a source. The `synth-*` chats
are unseen chats over seen texts and words: they measure format, not generalisation. MTP: the head
sees h_t and token t+1 and guesses t+2.

| source | tokens | nats/token | bits/byte | MTP nats/token | MTP argmax right |
| --- | --- | --- | --- | --- | --- |
"""
DATA = """
## Data

The texts themselves are not redistributed. Synthetic chats are generated from these texts by
`tools/train/synthetic*.py` and rendered with the chat template beside this card.

| source | package | version | licence | text bytes | archive SHA-256 |
| --- | --- | --- | --- | --- | --- |
"""
REFIT = """
## MTP head, refitted

After the training the head alone was trained again, on chains of four (each depth reads the hidden
state of the one before it), over rows that the target wrote itself
([tools/train/README.md](../../../tools/train/README.md)): {steps:,} steps, {tokens:,} tokens,
{seconds:.0f} s on one {device}. Every tensor outside `mtp.*` kept its bytes. Nats by depth, mean
of the first and the last {points} points of the curve, and tokens a chain gives with the target's:

| | depth 1 | depth 2 | depth 3 | depth 4 | tokens |
| --- | --- | --- | --- | --- | --- |
"""
GATES = """
## Gates

Greedy answers on the evaluation sets ([benchmarks/sets](../../../benchmarks/sets/README.md)),
{samples} prompts on one {device}, {date}; all of it in `benchmarks/results/gates.json`.

| gate | value | wanted |
| --- | --- | --- |
"""
CURVE_ENDS = 10  # points of a curve averaged at either end
FLAGS = ("rows", "length", "long_length", "last_length", "seconds", "peak", "optimizer", "seed")
STORED = {
    False: "bf16, embedding and head are one matrix",
    True: "NVFP4 (ModelOpt layout, scale_2 a power of two) for every projection, the MTP layer "
          "and an own copy of the head; embedding, norms, convolutions and gates bf16. From 93 % "
          "of the training on the forward used the rounded weights",
}


def _flags(arguments: dict) -> str:
    flags = [f"--{name.replace('_', '-')} {arguments[name]}" for name in FLAGS
             if name in arguments]
    return " ".join(flags + [f"--{name}" for name in ("remat", "nvfp4")
                             if arguments.get(name) == "True"])


def _lengths(arguments: dict) -> str:
    lengths = [arguments[name] for name in ("length", "long_length", "last_length")
               if name in arguments]
    return ", ".join(lengths[:-1]) + " and " + lengths[-1]


def _head(name: str, shape: ModelShape, manifest: dict, figures: dict) -> str:
    leaves = jax.tree.leaves(jax.eval_shape(lambda: init_params(jax.random.key(0), shape)))
    parameters = sum(leaf.size for leaf in leaves)
    arguments = figures["arguments"]
    corpus = sum(row["tokens"] for key, row in manifest["streams"].items()
                 if key.endswith(".train"))
    return INTRODUCTION.format(
        name=name, shape=shape, parameters=parameters, lengths=_lengths(arguments),
        stored=STORED[arguments.get("nvfp4") == "True"], tokens=figures["tokens"], corpus=corpus,
        epochs=figures["tokens"] / corpus, steps=figures["steps"],
        batch=int(arguments["rows"]) * int(arguments["length"]), seconds=figures["seconds"],
        rate=figures["tokens_per_second"], device=figures["device"], seed=arguments["seed"],
        optimizer=arguments["optimizer"].capitalize(), peak=arguments["peak"],
        flags=_flags(arguments), corpus_seed=manifest["seed"])


def _refit(refit: dict) -> str:
    text = REFIT.format(steps=refit["steps"], tokens=refit["tokens"], seconds=refit["seconds"],
                        device=refit["versions"]["device"], points=CURVE_ENDS)
    names = ("loss_1", "loss_2", "loss_3", "loss_4", "accepted")
    for label, part in (("first", slice(CURVE_ENDS)), ("last", slice(-CURVE_ENDS, None))):
        means = [sum(found) / len(found) for found in (refit["curves"][name][part]
                                                       for name in names)]
        text += f"| {label} | " + " | ".join(f"{mean:.2f}" for mean in means) + " |\n"
    return text


def _gates(gates: dict) -> str:
    text = GATES.format(**gates)
    for name, row in gates["gates"].items():
        text += f"| {name} | {row['value']:.3f} | {row['wanted']} |\n"
    others = (("tool calls exactly as expected", gates["tools"]["exact"]),
              ("JSON valid without a grammar", gates["json"]["valid"]),
              ("prose and code prompts that loop", gates["loop_rate"]["text"]),
              ("chat prompts that loop", gates["loop_rate"]["chat"]),
              ("copies of 128 tokens or more", gates["copy"]["set"]["long_enough"]))
    return text + "".join(f"| {label} | {value:.3f} | |\n" for label, value in others)


def model_card(name: str, folder: Path, manifest: dict, figures: dict, refit: dict | None = None,
               gates: dict | None = None) -> str:
    """Return the text of the card of the checkpoint in `folder`."""
    shape = PRESETS[name]
    text = _head(name, shape, manifest, figures) + HELD_OUT
    for source, row in figures["held_out"].items():
        text += (f"| {source} | {row['tokens']:,} | {row['nats_per_token']:.3f} | "
                 f"{row['bits_per_byte']:.3f} | {row['mtp_nats']:.3f} | {row['mtp_right']:.1%} |\n")
    text += "\n## Greedy samples, as they came\n"
    for sample in figures["samples"]:
        end = "ends with a stop token" if sample["stopped"] else "cut at 120 tokens"
        text += f"\n{end}:\n\n````text\n{sample['prompt']}{sample['text']}\n````\n"
    text += (_refit(refit) if refit else "") + (_gates(gates) if gates else "") + DATA
    for row in manifest["packages"]:
        text += (f"| {row['name']} | {row['package']} ({row['registry']}) | {row['version']} | "
                 f"{row['licence']} | {row['text_bytes']:,} | {row['sha256'] or '-'} |\n")
    return text + file_table(folder)


def file_table(folder: Path) -> str:
    """Return the card's section on the files of a checkpoint folder."""
    rows = "".join(f"| `{file}` | `{digest}` |\n" for file, digest in sha256_table(folder).items())
    return "\n## Files\n\n| file | SHA-256 |\n| --- | --- |\n" + rows


def main() -> None:
    """Write MODEL_CARD.md into the checkpoint folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--preset", choices=sorted(PRESETS), required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--figures", type=Path, required=True)
    parser.add_argument("--refit", type=Path, help="figures.json of the MTP refit")
    parser.add_argument("--gates", type=Path, help="result file of tools.measure.gates")
    arguments = parser.parse_args()
    read = [path and json.loads(path.read_text())
            for path in (arguments.figures, arguments.refit, arguments.gates)]
    card = model_card(arguments.preset, arguments.folder,
                      read_manifest(arguments.data / "shards"), *read)
    (arguments.folder / "MODEL_CARD.md").write_text(card)


if __name__ == "__main__":
    main()
