"""Checks an exported demo checkpoint against the float64 reference and prints greedy samples.

    python -m tools.train.verify checkpoints/demo/nano --preset nano
"""

import argparse
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from checkpoints import nvfp4_modules, open_checkpoint, read_weight
from tools.train.evaluate import samples
from tools.train.export import params_from_tensors
from tools.train.model import forward, logits_of
from tools.train.reference import reference_logits
from tools.train.shapes import PRESETS, ModelShape
from tools.train.tokenizer import load_tokenizer

PROMPT = (
    "To the Senate and House of Representatives: No nation has greater resources than ours.\n\n"
    "def mean(values):\n    \"\"\"Return the mean of a list of numbers.\"\"\"\n"
    "    total = sum(values)\n    return total / len(values)\n\nclass Shape:\n"
    "    def area(self):\n        raise NotImplementedError")
PROMPT_TOKENS = 64


def load_params(folder: Path, shape: ModelShape) -> tuple[dict, dict]:
    """Return (training parameters, tensors by file name) of a checkpoint folder, both float32.

    NVFP4 weights are dequantised, an untied head becomes the leaf "head" [V, D].
    """
    opened = open_checkpoint(folder)
    modules = nvfp4_modules(opened)
    scales = {part for module in modules.values() for part in module.parts[1:]}
    tensors = {info.name_in_file: read_weight(opened, name, np.float32, modules.get(name))
               for name, info in opened.tensors.items() if name not in scales}
    params = params_from_tensors(tensors.__getitem__, shape,
                                 tied=opened.config["tie_word_embeddings"])
    return jax.tree.map(jnp.asarray, params), tensors


def largest_difference(folder: Path, shape: ModelShape, *, sequential: bool) -> float:
    """Return max |logit difference| of the float32 training model and the float64 reference."""
    params, tensors = load_params(folder, shape)
    ids = load_tokenizer(folder / "tokenizer.json").encode(PROMPT).ids[:PROMPT_TOKENS]
    true = reference_logits(tensors.__getitem__,
                            json.loads((folder / "config.json").read_text()), ids)
    tokens = jnp.asarray(ids)[None]
    hidden = jax.jit(lambda: forward(params, tokens, jnp.zeros_like(tokens), shape,
                                     dtype=jnp.float32, remat=False, sequential=sequential))()
    return float(np.max(np.abs(np.asarray(logits_of(params, hidden))[0] - true)))


def main() -> None:
    """Print the differences of both DeltaNet forms, then the samples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--preset", choices=sorted(PRESETS), required=True)
    arguments = parser.parse_args()
    folder, shape = arguments.folder, PRESETS[arguments.preset]
    for sequential in (False, True):
        difference = largest_difference(folder, shape, sequential=sequential)
        form = "sequential" if sequential else "chunked"
        print(f"{form}: max |logit difference| {difference:.2e}")
    params, _ = load_params(folder, shape)
    for sample in samples(params, load_tokenizer(folder / "tokenizer.json"), shape=shape,
                          dtype=jnp.float32):
        print("-----", repr(sample["prompt"][-60:]), "stopped" if sample["stopped"] else "")
        print(sample["text"])


if __name__ == "__main__":
    main()
