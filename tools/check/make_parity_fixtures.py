"""Write tests/fixtures/parity: tiny checkpoints and the logits of transformers' own model on them.

Run once, by hand, where torch and transformers are installed; tests read the committed files:

    pip install torch==2.13.0 transformers==5.24.0
    python -m tools.check.make_parity_fixtures

The checkpoints are loaded from the very files that the tests load, in float32.
"""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from checkpoints.synthetic import tiny_dense_config, tiny_vl_config, write_checkpoint

FIXTURES = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "parity"
N_TOKENS = 97  # more than one chunk of 64 of transformers' prefill, and no multiple of anything
MAX_BYTES = 2_000_000  # of all fixtures together
TWO_LAYERS = {"num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"]}


@dataclass(frozen=True)
class Case:
    """One fixture folder."""

    config: dict[str, Any]  # config.json
    model: str  # transformers' class
    seed: int  # of the weights and of the prompt
    prefix: str = "model."  # of the text tensors in the file
    dtype: str = "float32"  # stored; bfloat16 halves the file and widens exactly
    vision: bool = False  # whether the vision tower is stored
    decode: bool = False  # whether to add logits of token-by-token decoding


CASES = {
    "dense": Case(tiny_dense_config(), "Qwen3_5ForCausalLM", seed=11, decode=True),
    "dense_tied": Case(
        tiny_dense_config(tie_word_embeddings=True, **TWO_LAYERS),
        "Qwen3_5ForCausalLM",
        seed=12,
        dtype="bfloat16",
    ),
    "vl": Case(
        tiny_vl_config(**TWO_LAYERS),
        "Qwen3_5ForConditionalGeneration",
        seed=13,
        prefix="model.language_model.",
        dtype="bfloat16",
        vision=True,
    ),
}


def load_model(case: Case, directory: Path) -> torch.nn.Module:
    """transformers' model in float32; stops if a tensor was missing, unused or misshapen."""
    model, report = getattr(transformers, case.model).from_pretrained(
        directory, dtype=torch.float32, output_loading_info=True
    )
    wrong = {kind: found for kind, found in report.items() if found}
    if wrong:
        raise SystemExit(f"{directory.name} did not load completely: {wrong}")
    return model.eval()


def prefill_logits(model: torch.nn.Module, ids: np.ndarray) -> np.ndarray:
    """Logits [T, V] float32 of the whole prompt in one call."""
    with torch.no_grad():
        return model(input_ids=torch.from_numpy(ids[None]).long()).logits[0].numpy()


def decode_logits(model: torch.nn.Module, ids: np.ndarray) -> np.ndarray:
    """Logits [T, V] float32 of feeding one token at a time through the model's cache."""
    rows, cache = [], None
    with torch.no_grad():
        for token in ids:
            inputs = torch.tensor([[int(token)]])
            step = model(input_ids=inputs, cache=cache, use_cache=True)
            cache = step.cache
            rows.append(step.logits[0, 0].numpy())
    return np.stack(rows)


def make(name: str, case: Case, target: Path) -> None:
    """Write one fixture folder and print what it holds."""
    directory = target / name
    if directory.exists():
        shutil.rmtree(directory)
    write_checkpoint(
        directory,
        case.config,
        seed=case.seed,
        prefix=case.prefix,
        dtype=case.dtype,
        vision=case.vision,
    )
    model = load_model(case, directory)
    # Below the ids that stand for images in the vision-language config.
    ids = np.random.default_rng(case.seed).integers(0, 250, N_TOKENS).astype(np.int32)
    arrays = {"ids": ids, "logits": prefill_logits(model, ids)}
    if case.decode:
        arrays["decode_logits"] = decode_logits(model, ids)
        gap = np.abs(arrays["decode_logits"] - arrays["logits"]).max()
        print(f"{name}: decode against prefill, max difference {gap:.1e}")
    exact = prefill_logits(model.double(), ids)
    gap = np.abs(exact - arrays["logits"]).max()
    print(f"{name}: float32 against float64, max {gap:.1e}, logit std {exact.std():.2f}")
    np.savez_compressed(directory / "reference.npz", **arrays)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    made = {"model": case.model, "seed": case.seed, "stored": case.dtype, **versions}
    (directory / "made_with.json").write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Write every fixture, then hold them to their size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=FIXTURES, help="folder to write into")
    target = parser.parse_args().out
    torch.set_num_threads(1)
    for name, case in CASES.items():
        make(name, case, target)
    total = sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
    print(f"{total:,} bytes in {target.name}")
    if total >= MAX_BYTES:
        raise SystemExit(f"the fixtures must stay under {MAX_BYTES:,} bytes")


if __name__ == "__main__":
    main()
