"""Held-out bits per byte of each source, and greedy samples."""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from tools.train.batches import TokenIds, segments_of
from tools.train.chat import render
from tools.train.loss import token_losses
from tools.train.model import forward, logits_of, mtp_forward
from tools.train.shapes import ModelShape
from tools.train.shards import read_manifest, read_stream

EVAL_TOKENS = 131_072  # at most, per source
PROMPTS = (
    "It is a truth universally acknowledged, that",
    "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n",
    [{"role": "user", "content": "What does \"lantern\" mean?"}],
    [{"role": "user", "content": "Write a Python function `is_even` that does this: "
                                 "Return True if the number is even."}],
    [{"role": "user", "content": "Repeat the following text exactly:\n\nThe red fox ran over the "
                                 "old stone bridge and into the silent wood."}],
)


@partial(jax.jit, static_argnames=("shape", "ids", "dtype"))
def _row_nats(params, rows, *, shape, ids, dtype):
    """Return summed nats and counts of next tokens and of MTP's tokens over rows [B, T + 2]."""
    segments = segments_of(rows, ids)
    inside = segments[:, :-2]
    hidden = forward(params, rows[:, :-2], inside, shape, dtype=dtype, remat=False)
    losses, _ = token_losses(params, hidden, rows[:, 1:-1])
    ahead = mtp_forward(params, hidden, rows[:, 1:-1], inside, shape)
    mtp_losses, _ = token_losses(params, ahead, rows[:, 2:])
    right = jnp.argmax(logits_of(params, ahead), -1) == rows[:, 2:]
    weights = segments[:, 1:-1] == inside
    mtp_weights = segments[:, 2:] == inside
    return (jnp.sum(losses * weights), jnp.sum(weights),
            jnp.sum(mtp_losses * mtp_weights), jnp.sum(mtp_weights), jnp.sum(right * mtp_weights))


def held_out(params, folder: Path, *, shape: ModelShape, ids: TokenIds, dtype,
             length: int = 1024, rows: int = 32, limit: int = EVAL_TOKENS,
             minimum: int = 2_000) -> dict:
    """Return per source: nats/token, bits/byte, MTP nats and the share MTP's argmax gets right.

    Rows overlap by nothing, so every row's first tokens are judged without context.
    """
    manifest, table = read_manifest(folder), {}
    for source, row in manifest["sources"].items():
        if row["eval_tokens"] < minimum:
            continue
        key = f"{source}.eval"
        stream = read_stream(folder, key)[:limit].astype(np.int32)
        figures = manifest["streams"][key]
        padded = np.full(-(-len(stream) // (rows * length)) * rows * length + 2, ids.end_of_text,
                         np.int32)
        padded[:len(stream)] = stream
        sums = np.zeros(5)
        for start in range(0, len(padded) - 2, rows * length):
            index = start + np.arange(rows)[:, None] * length + np.arange(length + 2)
            sums += np.array(_row_nats(params, padded[index], shape=shape, ids=ids, dtype=dtype))
        nats = sums[0] / sums[1]
        tokens_per_byte = figures["tokens"] / figures["text_bytes"]
        table[source] = {
            "tokens": int(sums[1]), "nats_per_token": round(float(nats), 4),
            "bits_per_byte": round(float(nats / np.log(2) * tokens_per_byte), 4),
            "mtp_nats": round(float(sums[2] / sums[3]), 4),
            "mtp_right": round(float(sums[4] / sums[3]), 4)}
    return table


@partial(jax.jit, static_argnames=("shape", "dtype", "steps"))
def _greedy(params, tokens, used, *, shape, dtype, steps):
    """Append `steps` greedy tokens to rows [B T] that hold used [B] tokens each."""
    segments = jnp.zeros_like(tokens)
    at_row = jnp.arange(len(tokens))

    def step(at, tokens):
        hidden = forward(params, tokens, segments, shape, dtype=dtype, remat=False)
        last = logits_of(params, hidden[at_row, used - 1 + at])
        return tokens.at[at_row, used + at].set(jnp.argmax(last, -1).astype(tokens.dtype))

    return jax.lax.fori_loop(0, steps, step, tokens)


def prompt_text(prompt) -> str:
    """Return the text of a prompt; chats get the generation prompt without thinking."""
    if isinstance(prompt, str):
        return prompt
    return render(prompt, add_generation_prompt=True, enable_thinking=False)


def samples(params, tokenizer, *, shape: ModelShape, dtype, prompts=PROMPTS, length: int = 256,
            steps: int = 120) -> list[dict]:
    """Return greedy continuations: {"prompt", "text", "stopped"}; the whole row is recomputed."""
    texts = [prompt_text(prompt) for prompt in prompts]
    encoded = [tokenizer.encode(text).ids[-(length - steps):] for text in texts]
    tokens = np.zeros((len(encoded), length), np.int32)
    for row, ids in enumerate(encoded):
        tokens[row, :len(ids)] = ids
    used = np.array([len(ids) for ids in encoded])
    out = np.asarray(_greedy(params, tokens, used, shape=shape, dtype=dtype, steps=steps))
    stops = [tokenizer.token_to_id(text) for text in ("<|im_end|>", "<|endoftext|>")]
    found = []
    for row, text in enumerate(texts):
        new = out[row, used[row]:used[row] + steps].tolist()
        at = next((at for at, token in enumerate(new) if token in stops), None)
        found.append({"prompt": text, "text": tokenizer.decode(new[:at], skip_special_tokens=False),
                      "stopped": at is not None})
    return found
