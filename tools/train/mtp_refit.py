"""Refits the target's MTP head on chains of four, the body frozen, and writes a new checkpoint.

    python -m tools.train.mtp_refit --target CHECKPOINT --generated DIR --out DIR --seconds 60
--out gets state.pickle, checkpoint/ (the target's files; in the weights only mtp.* differ) and
figures.json. Matrices that the target stores as NVFP4 are trained as NVFP4 and stored so.
"""

import argparse
import json
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax

from checkpoints import nvfp4_modules, open_checkpoint
from checkpoints.nvfp4 import nvfp4_tensors
from checkpoints.writing import save_tensors
from tools.train.batches import TokenIds, segments_of
from tools.train.clocked import Clock, Job, curves, new_content, norm_of, provenance, train_by_clock
from tools.train.drafter_data import GeneratedRows, file_hash, load_generated, rows_of_step
from tools.train.drafter_loop import borrowed, fake_quant_body
from tools.train.export import named_tensors, sha256_table
from tools.train.loop import load_state
from tools.train.model import forward
from tools.train.mtp_chain import chain_hidden, nats_and_hits
from tools.train.optimizer import make_optimizer
from tools.train.run import token_ids
from tools.train.shapes import PRESETS, ModelShape
from tools.train.tokenizer import load_tokenizer
from tools.train.verify import load_params

DEPTH_WEIGHTS = (1.0, 0.8, 0.6, 0.5)
NAMES = (*(f"loss_{depth}" for depth, _ in enumerate(DEPTH_WEIGHTS, 1)), "accepted", "norm")


@dataclass(frozen=True)
class RefitPlan:
    """What one refit does."""

    shape: ModelShape
    ids: TokenIds
    rows: int  # rows a step
    optimizer: str  # "muon" | "adamw"
    dtype: jnp.dtype  # compute dtype
    nvfp4: bool  # the head's matrices are stored, hence trained, in four bits
    seed: int


def chain_loss(mtp, target, tokens, written, plan: RefitPlan):
    """Return the weighted loss of rows [B T+1] and (nats by depth ..., accepted tokens).

    Depth d of row t predicts token t+d+1. It counts while that token and all before it in the
    chain are written and of row t's document.
    """
    segments = segments_of(tokens, plan.ids)
    inside, length, depths = segments[:, :-1], tokens.shape[1] - 1, len(DEPTH_WEIGHTS)
    hidden = jax.lax.stop_gradient(forward(target, tokens[:, :-1], inside, plan.shape,
                                           dtype=plan.dtype, remat=False))
    embed, head = borrowed(target)
    room = ((0, 0), (0, depths))
    wide_tokens, wide_written = jnp.pad(tokens, room), jnp.pad(written, room)
    wide_segments = jnp.pad(segments, room, constant_values=-1)

    def ahead(values, by):
        return values[:, by:by + length]

    following = jnp.stack([ahead(wide_tokens, depth) for depth in range(1, depths + 1)])
    chain = chain_hidden(mtp, embed, hidden, following, inside, plan.shape)
    good = hit = ahead(wide_segments, 1) == inside
    nats, accepted, chains = [], 1.0, 0
    for depth, out in enumerate(chain, 1):
        good = good & (ahead(wide_segments, depth + 1) == inside) & ahead(wide_written, depth + 1)
        losses, right = nats_and_hits(head, out, ahead(wide_tokens, depth + 1))
        hit = hit & right & good
        chains = chains if depth > 1 else jnp.sum(good)
        nats.append(jnp.sum(losses * good) / jnp.maximum(jnp.sum(good), 1))
        accepted += jnp.sum(hit) / jnp.maximum(chains, 1)
    loss = sum(weight * part for weight, part in zip(DEPTH_WEIGHTS, nats, strict=True))
    return loss / sum(DEPTH_WEIGHTS), jnp.stack([*nats, accepted])


def make_step(plan: RefitPlan):
    """Return the jitted step of `clocked.Job`; its frozen part is (target, tokens, written)."""
    optimizer = make_optimizer(plan.optimizer)

    def loss(mtp, *arguments):
        if plan.nvfp4:
            mtp = fake_quant_body(mtp, jnp.float32(1))
        return chain_loss(mtp, *arguments, plan)

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(mtp, state, frozen, index, key, knobs):
        del key  # nothing is drawn
        target, tokens, written = frozen
        gradients, figures = jax.grad(loss, has_aux=True)(
            mtp, target, tokens[index].astype(jnp.int32), written[index])
        updates, state = optimizer.update(gradients, state, mtp)
        updates = jax.tree.map(lambda u: -knobs["rate"] * u, updates)
        figures = jnp.append(figures, norm_of(gradients))
        return optax.apply_updates(mtp, updates), state, figures

    return step


def refit_job(plan: RefitPlan, target: dict, data: GeneratedRows) -> Job:
    """Return the job that trains the head behind the frozen `target` (a tree without "mtp")."""
    return Job(step=make_step(plan), frozen=(target, data.tokens, data.written),
               rows=lambda step: rows_of_step(plan.seed, step, data.training, plan.rows),
               knobs=lambda share, step, latest: {"rate": np.float32(0)}, names=NAMES,
               tokens_per_step=plan.rows * (data.tokens.shape[1] - 1), seed=plan.seed)


def stores_nvfp4(target: Path) -> bool:
    """Return whether the checkpoint keeps the head's matrices in four bits."""
    return "mtp.fc.weight" in nvfp4_modules(open_checkpoint(target))


def write_checkpoint(target: Path, params: dict, shape: ModelShape, folder: Path) -> None:
    """Copy the checkpoint `target` to `folder` with mtp.* taken from `params`, same format."""
    shutil.copytree(target, folder, dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("model.safetensors"))
    opened = open_checkpoint(target)
    tensors = {info.name_in_file: opened.read(name) for name, info in opened.tensors.items()}
    for name, value in named_tensors(params, shape).items():
        if name.startswith("mtp."):
            packed = f"{name}_scale" in tensors
            tensors |= nvfp4_tensors(name, value) if packed else {name: _as_bf16(value)}
    save_tensors(tensors, folder / "model.safetensors")


def _as_bf16(value: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(value).astype(ml_dtypes.bfloat16)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", choices=sorted(PRESETS), default="mini")
    for name in ("--target", "--generated", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--max-steps", type=int)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--peak", type=float, default=1e-3)
    parser.add_argument("--optimizer", choices=("muon", "adamw"), default="adamw")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", action="store_true")
    return parser


def run(arguments, say=print) -> dict:
    """Refit and write as the command line asks; return the figures."""
    shape, data = PRESETS[arguments.preset], load_generated(arguments.generated)
    params, _ = load_params(arguments.target, shape)
    plan = RefitPlan(
        shape=shape, ids=token_ids(load_tokenizer(arguments.target / "tokenizer.json")),
        rows=arguments.rows, optimizer=arguments.optimizer, dtype=jnp.dtype(arguments.dtype),
        nvfp4=stores_nvfp4(arguments.target), seed=arguments.seed)
    target = {key: value for key, value in params.items() if key != "mtp"}
    job = refit_job(plan, target, data)
    arguments.out.mkdir(parents=True, exist_ok=True)
    state_path = arguments.out / "state.pickle"
    content = (load_state(state_path) if arguments.resume
               else new_content(params["mtp"], make_optimizer(plan.optimizer), NAMES))
    clock = Clock(arguments.seconds, arguments.max_steps, arguments.peak)
    content = train_by_clock(job, content, clock, state_path, say=say)
    write_checkpoint(arguments.target, {**target, "mtp": content["params"]}, shape,
                     arguments.out / "checkpoint")
    seconds, steps = float(content["seconds"]), int(content["step"])
    figures = {"steps": steps, "tokens": steps * job.tokens_per_step, "seconds": round(seconds, 1),
               "curves": curves(job, content), "versions": provenance(),
               "inputs": {"target": file_hash(arguments.target / "model.safetensors"),
                          "generated": data.sha256},
               "outputs": sha256_table(arguments.out / "checkpoint"),
               "arguments": {key: str(value) for key, value in vars(arguments).items()
                             if key not in ("target", "generated", "out")}}
    (arguments.out / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    return figures


def main() -> None:
    """Read the command line and run."""
    run(_parser().parse_args(), say=lambda text: print(text, flush=True))


if __name__ == "__main__":
    main()
