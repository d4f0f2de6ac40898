"""Writes a demo checkpoint's MODEL_CARD.md from the corpus manifest and the run's figures.

    python -m tools.train.card checkpoints/demo/nano --preset nano --data DIR --figures FILE
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
python -m tools.train.card OUT/checkpoint --preset {name} --data DIR --figures OUT/figures.json
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


def model_card(name: str, folder: Path, manifest: dict, figures: dict) -> str:
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
    text += DATA
    for row in manifest["packages"]:
        text += (f"| {row['name']} | {row['package']} ({row['registry']}) | {row['version']} | "
                 f"{row['licence']} | {row['text_bytes']:,} | {row['sha256'] or '-'} |\n")
    text += "\n## Files\n\n| file | SHA-256 |\n| --- | --- |\n"
    for file, digest in sha256_table(folder).items():
        text += f"| `{file}` | `{digest}` |\n"
    return text


def main() -> None:
    """Write MODEL_CARD.md into the checkpoint folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--preset", choices=sorted(PRESETS), required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--figures", type=Path, required=True)
    arguments = parser.parse_args()
    card = model_card(arguments.preset, arguments.folder,
                      read_manifest(arguments.data / "shards"),
                      json.loads(arguments.figures.read_text()))
    (arguments.folder / "MODEL_CARD.md").write_text(card)


if __name__ == "__main__":
    main()
