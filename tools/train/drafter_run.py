"""Trains one DFlash2 drafter behind a frozen target by the clock, judges it and exports it.

    python -m tools.train.drafter_run --preset mini-b16 --target CHECKPOINT --data DIR \\
        --generated DIR --out DIR --seconds 110
--data holds tokenizer.json, --generated rows.*.npz; --out gets state.pickle, checkpoint/ and
figures.json. Time is counted without compilation; --resume goes on where the saved state stood.
"""

import argparse
import json
from pathlib import Path

import jax
import jax.numpy as jnp

from tools.train.clocked import Clock, curves, new_content, provenance, train_by_clock
from tools.train.drafter_data import file_hash, load_generated
from tools.train.drafter_export import export_drafter
from tools.train.drafter_judge import judge
from tools.train.drafter_loop import NAMES, DrafterPlan, drafter_job, fake_quant_body
from tools.train.drafter_loss import Objective
from tools.train.drafter_model import init_drafter
from tools.train.drafter_shapes import DRAFTERS, DrafterShape
from tools.train.export import sha256_table
from tools.train.loop import load_state
from tools.train.optimizer import make_optimizer
from tools.train.run import token_ids
from tools.train.shapes import PRESETS
from tools.train.tokenizer import load_tokenizer
from tools.train.verify import load_params

GAMMA = {8: 4.0, 16: 7.0}  # decay of the exp weights by block


def check_target(folder: Path, shape: DrafterShape, mask_id: int | None) -> None:
    """Raise ValueError when the target or tokenizer is not the one that the drafter is made for."""
    config = json.loads((folder / "config.json").read_text())
    for field, wanted in (("hidden_size", shape.d_model), ("vocab_size", shape.vocabulary),
                          ("num_hidden_layers", shape.target_layers)):
        if config[field] != wanted:
            raise ValueError(f"target's {field} is {config[field]}, the drafter needs {wanted}")
    if mask_id != shape.mask_id:
        raise ValueError(f"<|mask|> is token {mask_id}, the drafter needs {shape.mask_id}")


def make_plan(arguments, tokenizer) -> DrafterPlan:
    """Return the plan that the command line asks for."""
    shape = DRAFTERS[arguments.preset]
    return DrafterPlan(
        shape=shape, target_shape=PRESETS[arguments.preset.split("-")[0]],
        ids=token_ids(tokenizer), rows=arguments.rows, optimizer=arguments.optimizer,
        objective=Objective(arguments.anchors, arguments.weights,
                            arguments.gamma or GAMMA[shape.block]),
        dtype=jnp.dtype(arguments.dtype), nvfp4=arguments.nvfp4,
        selector_from=arguments.selector_from, selector_at=arguments.selector_at,
        seed=arguments.seed)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the command line's options, of this process when `arguments` is None."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", choices=sorted(DRAFTERS), required=True)
    for name in ("--target", "--data", "--generated", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=110.0)
    parser.add_argument("--max-steps", type=int)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--anchors", type=int, default=128, help="blocks of a row")
    parser.add_argument("--weights", choices=("dpace", "exp"), default="dpace")
    parser.add_argument("--gamma", type=float, help="decay of the exp weights, in slots")
    parser.add_argument("--selector-from", type=float, default=0.3,
                        help="share of the run at which the selector's loss joins at the latest")
    parser.add_argument("--selector-at", type=float, default=1.8,
                        help="accepted tokens at which it joins earlier")
    parser.add_argument("--nvfp4", action="store_true",
                        help="end with a four-bit body in the forward and export it as NVFP4")
    parser.add_argument("--peak", type=float, default=1e-3)
    parser.add_argument("--optimizer", choices=("muon", "adamw"), default="adamw")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", action="store_true")
    return parser.parse_args(arguments)


def run(arguments, say=print) -> dict:
    """Train, judge and export as the command line asks; return the figures."""
    tokenizer = load_tokenizer(arguments.data / "tokenizer.json")
    plan, data = make_plan(arguments, tokenizer), load_generated(arguments.generated)
    check_target(arguments.target, plan.shape, tokenizer.token_to_id("<|mask|>"))
    target, _ = load_params(arguments.target, plan.target_shape)
    target.pop("mtp")
    say(f"{jax.devices()[0].device_kind}: {data.training} rows to train on, {data.held_out} held "
        "out")
    arguments.out.mkdir(parents=True, exist_ok=True)
    job = drafter_job(plan, target, data)
    state_path = arguments.out / "state.pickle"
    params = init_drafter(jax.random.key(plan.seed), plan.shape)
    content = (load_state(state_path) if arguments.resume
               else new_content(params, make_optimizer(plan.optimizer), NAMES))
    clock = Clock(arguments.seconds, arguments.max_steps, arguments.peak)
    content = train_by_clock(job, content, clock, state_path, say=say)
    params = content["params"]
    # What is shipped is what is judged.
    stored = jax.jit(fake_quant_body)(params, jnp.float32(1)) if plan.nvfp4 else params
    held_out = judge(stored, plan, target, data, anchors=arguments.anchors)
    export_drafter(params, plan.shape, arguments.out / "checkpoint", nvfp4=plan.nvfp4,
                   temperature=held_out["temperature"])
    seconds, tokens = float(content["seconds"]), int(content["step"]) * job.tokens_per_step
    figures = {"steps": int(content["step"]), "tokens": tokens, "seconds": round(seconds, 1),
               "tokens_per_second": round(tokens / seconds), "held_out": held_out,
               "curves": curves(job, content), "versions": provenance(),
               "inputs": {"target": file_hash(arguments.target / "model.safetensors"),
                          "generated": data.sha256},
               "outputs": sha256_table(arguments.out / "checkpoint"),
               "arguments": {key: str(value) for key, value in vars(arguments).items()
                             if key not in ("target", "data", "generated", "out")}}
    (arguments.out / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    say(f"held out: {held_out['accepted']:.3f} accepted tokens, plain argmax "
        f"{held_out['accepted_plain']:.3f}, temperature {held_out['temperature']:.3f}")
    return figures


def main() -> None:
    """Read the command line and run."""
    run(parse(), say=lambda text: print(text, flush=True))


if __name__ == "__main__":
    main()
