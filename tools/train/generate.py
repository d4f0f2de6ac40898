"""Lets the target write: rows of prompts and its own answers, for drafters and the MTP refit.

    python -m tools.train.generate --target CHECKPOINT --preset mini --data DIR --out DIR \\
        --rows 2048 --length 1024 --seconds 150
--data holds tokenizer.json and prompts/prompts.train.npz; --out gets rows.NNN.npz with tokens
uint16 [R, T+1] and written bool [R, T+1], and figures.json. 15 % of the rows are sampled at
temperature 0.7, the rest is greedy; tokens beyond the third period of a loop are not "written",
and a few tokens later the answer is closed.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from tools.train.clocked import provenance
from tools.train.decode import decode_step, empty_state, fused
from tools.train.drafter_data import file_hash
from tools.train.packing import Plan, Prompts, Writer, load_prompts
from tools.train.repeats import looped_tokens
from tools.train.shapes import PRESETS, ModelShape
from tools.train.tokenizer import END_OF_TEXT, load_tokenizer
from tools.train.verify import load_params

STOPS = ("<|im_end|>", END_OF_TEXT)
COUNTS = ("documents", "stopped", "looping", "written", "looped")


def greedy_references(params: dict, prompts: list[list[int]], new: int, *, shape: ModelShape,
                      dtype=jnp.float32, stops: tuple[int, ...] = ()) -> list[list[int]]:
    """Return `new` greedy tokens behind every prompt; one that is in `stops` is the last.

    All prompts are one batch, padded to the longest one. In float32 the products are exact
    float32 ones (no TF32), so that a near tie falls as in the engine.
    """
    sizes = np.array([len(prompt) for prompt in prompts], np.int32)
    places = int(sizes.max()) + new - 1
    given = np.zeros((places + 1, len(prompts)), np.int32)
    for row, prompt in enumerate(prompts):
        given[:len(prompt), row] = prompt
    weights = fused(params, shape, dtype)

    @jax.jit
    def run(weights, given):
        def step(carry, inputs):
            state, token = carry
            at, following = inputs
            begin = jnp.broadcast_to(at == 0, token.shape)
            logits, state = decode_step(weights, state, token, begin, at, shape)
            pick = jnp.argmax(logits, -1).astype(jnp.int32)
            token = jnp.where(at + 1 < sizes, following, pick)
            return (state, token), token

        state = empty_state(shape, len(prompts), places, dtype)
        inputs = (jnp.arange(places, dtype=jnp.int32), given[1:])
        return jax.lax.scan(step, (state, given[0]), inputs)[1]

    with jax.default_matmul_precision("highest" if dtype == jnp.float32 else "default"):
        rows = np.asarray(run(weights, jnp.asarray(given))).T
    found = []
    for row, size in zip(rows, sizes, strict=True):
        tokens = row[size - 1:size - 1 + new].tolist()
        closed = next((at + 1 for at, token in enumerate(tokens) if token in stops), new)
        found.append(tokens[:closed])
    return found


def judge_rows(tokens, written, number, *, stops: tuple[int, ...], end: int, family, names,
               ) -> tuple[np.ndarray, np.ndarray]:
    """Return (written [R T+1] without loops, counts [families, COUNTS]) of a batch.

    tokens, written, number [R T+1]; only documents whose end lies in the row are counted as such.
    """
    ended = tokens == end
    segments = np.cumsum(ended, 1, dtype=np.int32) - ended
    looped = looped_tokens(tokens, segments) & written
    counts = np.zeros((len(names), len(COUNTS)), np.int64)
    rows, at = np.nonzero(ended)
    of_document = family[number[rows, at]]
    # The last document of a row is cut by the row's end: neither stopped nor run out.
    natural = written[rows, at] | np.isin(tokens[rows, np.maximum(at - 1, 0)], stops)
    loops = np.zeros((len(tokens), segments.max() + 1), bool)
    np.logical_or.at(loops, (np.broadcast_to(np.arange(len(tokens))[:, None], tokens.shape),
                             segments), looped)
    for column, weight in enumerate((np.ones(len(rows)), natural, loops[rows, segments[rows, at]])):
        counts[:, column] = np.bincount(of_document, weight, len(names))
    of_token = family[number]
    for column, chosen in ((3, written), (4, looped)):
        counts[:, column] = np.bincount(of_token[chosen], minlength=len(names))
    return written & ~looped, counts


def summary(counts: np.ndarray, names: list[str]) -> dict:
    """Return shares by family and of all: stop share of documents, loop shares."""
    def shares(row):
        documents, stopped, looping, written, looped = (int(x) for x in row)
        return {"documents": documents, "written": written,
                "stop_share": round(stopped / max(1, documents), 4),
                "looping_documents": round(looping / max(1, documents), 4),
                "loop_share": round(looped / max(1, written), 4)}
    return {"all": shares(counts.sum(0)),
            "families": {name: shares(row) for name, row in zip(names, counts, strict=True)}}


def _host(batch: tuple) -> list[np.ndarray]:
    """Return tokens, written and number [R T+1] of a batch on the host."""
    return [np.ascontiguousarray(np.asarray(part).T) for part in batch[:3]]


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the command line's options, of this process when `arguments` is None."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", choices=sorted(PRESETS), required=True)
    for name in ("--target", "--data", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=150.0, help="compilation excluded")
    parser.add_argument("--max-batches", type=int)
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(arguments)


def make_writer(arguments, tokenizer, prompts: Prompts, say) -> Writer:
    """Load the target and compile the stages."""
    shape, dtype = PRESETS[arguments.preset], jnp.dtype(arguments.dtype)
    params, _ = load_params(arguments.target, shape)
    stop, end = (tokenizer.token_to_id(text) for text in STOPS)
    plan = Plan(shape, arguments.rows, arguments.length, (stop,), end, dtype)
    started = time.monotonic()
    writer = Writer(plan, fused(params, shape, dtype), prompts)
    say(f"{jax.devices()[0].device_kind}: compiled in {time.monotonic() - started:.1f} s, largest "
        f"stage {writer.scratch_bytes() / 2**30:.1f} GiB, {len(prompts.first)} prompts")
    return writer


def write_batches(arguments, writer: Writer, finish, say) -> tuple[int, float, int]:
    """Run batches until the time is over; return (batches, seconds, prompts taken).

    `finish(number, batch)` handles one batch on the host while the device writes the next.
    """
    begun, batches, taken, pending = time.monotonic(), 0, 0, None
    limit = float("inf") if arguments.max_batches is None else arguments.max_batches
    while batches < limit and (batches == 0 or time.monotonic() - begun < arguments.seconds):
        batch = writer.batch(taken, jax.random.key(arguments.seed + 1 + batches))
        if pending is not None:
            finish(batches - 1, pending)
        taken, pending, batches = int(batch[3]), batch, batches + 1
        seconds = time.monotonic() - begun
        rate = batches * arguments.rows * arguments.length / seconds
        say(f"batch {batches}: {taken} prompts, {rate / 1e3:.0f}k tokens/s")
    finish(batches - 1, pending)
    return batches, seconds, taken


def run(arguments, say=print) -> dict:
    """Generate as the command line asks; return the figures."""
    tokenizer = load_tokenizer(arguments.data / "tokenizer.json")
    path = arguments.data / "prompts" / "prompts.train.npz"
    prompts, family, names = load_prompts(path, arguments.seed)
    writer = make_writer(arguments, tokenizer, prompts, say)
    arguments.out.mkdir(parents=True, exist_ok=True)
    counts, outputs = np.zeros((len(names), len(COUNTS)), np.int64), {}

    def finish(number, batch):
        tokens, written, of_prompt = _host(batch)
        written, found = judge_rows(tokens, written, of_prompt, stops=writer.plan.stops,
                                    end=writer.plan.end, family=family, names=names)
        counts[:] += found
        target = arguments.out / f"rows.{number:03d}.npz"
        np.savez(target, tokens=tokens, written=written)
        outputs[target.name] = file_hash(target)

    batches, seconds, taken = write_batches(arguments, writer, finish, say)
    tokens = batches * arguments.rows * arguments.length
    figures = {"batches": batches, "tokens": tokens, "seconds": round(seconds, 1),
               "tokens_per_second": round(tokens / seconds), "prompts": taken,
               "prompts_passes": round(taken / len(family), 3), **summary(counts, names),
               "versions": provenance(), "outputs": outputs,
               "inputs": {"target": file_hash(arguments.target / "model.safetensors"),
                          "prompts": file_hash(path)},
               "arguments": {key: str(value) for key, value in vars(arguments).items()
                             if key not in ("target", "data", "out")}}
    (arguments.out / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    whole = figures["all"]
    say(f"{whole['written']} written tokens, {whole['loop_share']:.1%} in loops, "
        f"{whole['stop_share']:.1%} of the answers stopped by themselves")
    return figures


def main() -> None:
    """Read the command line and run."""
    run(parse(), say=lambda text: print(text, flush=True))


if __name__ == "__main__":
    main()
