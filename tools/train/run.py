"""Trains one demo model by the clock and exports it.

    python -m tools.train.run --preset nano --data DIR --out DIR --seconds 90
DIR of --data holds tokenizer.json and shards/; --out gets state.pickle, checkpoint/, figures.json.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp

from tools.train.batches import TokenIds, load_streams
from tools.train.evaluate import held_out, samples
from tools.train.export import export
from tools.train.fake_quant import fake_quant_params
from tools.train.loop import Plan, knobs_at, make_step, train
from tools.train.model import init_params
from tools.train.optimizer import make_optimizer
from tools.train.shapes import PRESETS
from tools.train.shards import read_manifest
from tools.train.tokenizer import load_tokenizer

PROFILE_STEPS = 6


def token_ids(tokenizer) -> TokenIds:
    """Return the ids that the masks need.

    Raises ValueError when the tokenizer lacks one of them as a single token.
    """
    texts = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "assistant")
    ids = [tokenizer.token_to_id(text) for text in texts]
    if None in ids:
        raise ValueError(f"{texts[ids.index(None)]!r} is not one token of this tokenizer")
    return TokenIds(*ids)


def make_plan(arguments, tokenizer, manifest: dict) -> Plan:
    """Return the plan that the command line asks for."""
    streams = [row for key, row in manifest["streams"].items() if key.endswith(".train")]
    tokens = sum(row["tokens"] for row in streams)
    return Plan(
        shape=PRESETS[arguments.preset], ids=token_ids(tokenizer), rows=arguments.rows,
        length=arguments.length, long_length=arguments.long_length,
        last_length=arguments.last_length, nvfp4=arguments.nvfp4, seconds=arguments.seconds,
        peak=arguments.peak, optimizer=arguments.optimizer, remat=arguments.remat,
        dtype=jnp.dtype(arguments.dtype), seed=arguments.seed,
        bytes_per_token=sum(row["text_bytes"] for row in streams) / tokens)


def profile(plan: Plan, streams, shapes: list[tuple[int, int, bool]]) -> None:
    """Print tokens per second of a few batch shapes (rows, length, remat)."""
    data = (streams.tokens, streams.starts, streams.lengths)
    for rows, length, remat in shapes:
        params = init_params(jax.random.key(0), plan.shape)
        state = make_optimizer(plan.optimizer).init(params)
        step = make_step(replace(plan, remat=remat), rows, length)
        begun = time.monotonic()
        for at in range(PROFILE_STEPS):
            params, state, figures = step(params, state, *data, jax.random.key(at),
                                          knobs_at(0.0, at, plan.peak))
            if at == 1:
                figures.block_until_ready()
                compiled, started = time.monotonic() - begun, time.monotonic()
        figures.block_until_ready()
        rate = rows * length * (PROFILE_STEPS - 2) / (time.monotonic() - started)
        print(f"profile {rows} x {length} remat {remat}: {rate / 1e3:.0f}k tokens/s, first "
              f"two steps {compiled:.1f} s", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", choices=sorted(PRESETS), required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--max-steps", type=int)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--long-length", type=int, default=2048)
    parser.add_argument("--last-length", type=int, default=4096)
    parser.add_argument("--nvfp4", action="store_true",
                        help="end with four-bit weights in the forward, export them as NVFP4")
    parser.add_argument("--peak", type=float, default=3e-3)
    parser.add_argument("--optimizer", choices=("muon", "adamw"), default="muon")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--remat", action="store_true")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--eval-tokens", type=int, default=131_072)
    parser.add_argument("--profile", nargs="*", default=[], metavar="ROWSxLENGTH[r]",
                        help="time these shapes and stop; a trailing r means with remat")
    return parser


def main() -> None:
    """Train, evaluate, sample and export."""
    arguments = _parser().parse_args()
    shards, tokenizer_path = arguments.data / "shards", arguments.data / "tokenizer.json"
    tokenizer, manifest = load_tokenizer(tokenizer_path), read_manifest(shards)
    plan = make_plan(arguments, tokenizer, manifest)
    streams = load_streams(shards)
    print(f"{jax.devices()[0].device_kind}: {len(streams.tokens)} training tokens", flush=True)
    if arguments.profile:
        shapes = [(*map(int, text.rstrip("r").split("x")), text.endswith("r"))
                  for text in arguments.profile]
        profile(plan, streams, shapes)
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    params, figures = train(plan, streams, arguments.out / "state.pickle", resume=arguments.resume,
                            max_steps=arguments.max_steps, say=lambda text: print(text, flush=True))
    export(params, plan.shape, tokenizer_path, arguments.out / "checkpoint", nvfp4=plan.nvfp4)
    if plan.nvfp4:  # what is shipped is what is judged
        params = jax.jit(fake_quant_params)(params, jnp.float32(1.0))
    figures["held_out"] = held_out(params, shards, shape=plan.shape, ids=plan.ids,
                                   dtype=plan.dtype, limit=arguments.eval_tokens)
    figures["samples"] = samples(params, tokenizer, shape=plan.shape, dtype=plan.dtype)
    figures["device"] = jax.devices()[0].device_kind
    figures["losses"] = figures["losses"][::50]
    figures["arguments"] = {key: str(value) for key, value in vars(arguments).items()
                            if key not in ("data", "out")}
    (arguments.out / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    for source, row in figures["held_out"].items():
        print(f"{source:18} {row['bits_per_byte']:.3f} bits/byte, MTP right {row['mtp_right']:.3f}")
    for sample in figures["samples"]:
        print("-----", repr(sample["prompt"][-60:]), "stopped" if sample["stopped"] else "")
        print(sample["text"], flush=True)


if __name__ == "__main__":
    main()
