"""What the measurements share: the target, the sets, and the envelope of a result."""

import datetime
import json
import platform
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from tools.train.shapes import ModelShape
from tools.train.verify import load_params

DTYPES = ("auto", "float32", "bfloat16")


@dataclass(frozen=True)
class Item:
    """One item of a workload."""

    ids: list[int]  # prompt
    real: list[int]  # what really follows
    greedy: list[int]  # what the shipped target writes, empty until it was run
    meta: dict


@dataclass(frozen=True)
class Target:
    """A checkpoint as the training code runs it."""

    params: dict  # float32 tree
    shape: ModelShape
    folder: Path


def shape_of_config(config: dict) -> ModelShape:
    """Return the sizes that a target's config.json states."""
    rope = config["rope_parameters"]
    return ModelShape(
        d_model=config["hidden_size"], n_layers=config["num_hidden_layers"],
        d_ffn=config["intermediate_size"], key_heads=config["linear_num_key_heads"],
        value_heads=config["linear_num_value_heads"], d_delta=config["linear_key_head_dim"],
        query_heads=config["num_attention_heads"], kv_heads=config["num_key_value_heads"],
        d_head=config["head_dim"], vocabulary=config["vocab_size"],
        rotary_share=rope["partial_rotary_factor"], rope_theta=rope["rope_theta"],
        conv_taps=config["linear_conv_kernel_dim"], eps=config["rms_norm_eps"],
        max_context=config["max_position_embeddings"])


def load_target(folder: Path) -> Target:
    """Read a checkpoint folder; NVFP4 weights are dequantised."""
    shape = shape_of_config(json.loads((folder / "config.json").read_text()))
    return Target(load_params(folder, shape)[0], shape, folder)


def compute_dtype(name: str) -> jnp.dtype:
    """Return the dtype of a --dtype option; "auto" is bfloat16 on a GPU and float32 on a CPU."""
    if name == "auto":
        name = "bfloat16" if jax.default_backend() == "gpu" else "float32"
    return jnp.dtype(name)


def read_lines(path: Path, limit: int | None = None) -> list[dict]:
    """Return the first `limit` rows of a JSON lines file, all when it is None."""
    return [json.loads(line) for line in path.read_text().splitlines()[:limit]]


def read_workloads(sets: Path, limit: int | None = None) -> dict[str, list[Item]]:
    """Return the items of every workload below `sets`, at most `limit` each.

    Raises ValueError when there is none.
    """
    paths = sorted((sets / "workloads").glob("*.jsonl"))
    if not paths:
        raise ValueError(f"no workloads in {sets}: run tools.train.sets first")
    return {path.stem: [Item(row["ids"], row["real"], row["greedy"], row["meta"])
                        for row in read_lines(path, limit)] for path in paths}


def padded(rows: Iterable[list[int]], multiple: int) -> np.ndarray:
    """Return rows as [B T] int32, T the least multiple that holds the longest one; 0 fills."""
    rows = list(rows)
    length = -(-max(map(len, rows)) // multiple) * multiple
    out = np.zeros((len(rows), length), np.int32)
    for at, row in enumerate(rows):
        out[at, :len(row)] = row
    return out


def envelope(what: str, module: str, samples: int) -> dict:
    """Return the head of a result: what, device, date, command, samples, versions."""
    words = ["python", "-m", module, *(Path(word).name if Path(word).is_absolute() else word
                                       for word in sys.argv[1:])]
    return {"what": what, "device": jax.devices()[0].device_kind,
            "date": datetime.date.today().isoformat(), "command": " ".join(words),
            "samples": samples, "jax": jax.__version__, "python": platform.python_version()}


def write_result(record: dict, path: Path) -> None:
    """Write a result as JSON, creating its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")
