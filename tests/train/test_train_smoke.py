"""A nano-like model learns, exports the canonical names, and keeps documents apart."""

import json
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from tools.train.batches import Streams, assistant_tokens, segments_of
from tools.train.chat import render
from tools.train.evaluate import held_out, samples
from tools.train.export import export, named_tensors, params_from_tensors
from tools.train.loop import Plan, schedule, train
from tools.train.model import forward, logits_of
from tools.train.run import token_ids
from tools.train.shapes import ModelShape
from tools.train.shards import read_stream, write_shards
from tools.train.tokenizer import (
    ADDED_TOKENS,
    SPECIAL_TOKENS,
    load_tokenizer,
    train_on_texts,
    write_tokenizer,
)

VOCABULARY = 336
SHAPE = ModelShape(d_model=32, n_layers=4, d_ffn=64, key_heads=1, value_heads=3, d_delta=32,
                   query_heads=2, kv_heads=1, d_head=32, vocabulary=VOCABULARY)


@dataclass(frozen=True)
class Text:
    """A document as `write_shards` wants it."""

    source: str
    group: str
    name: str
    split: str
    text: str


def _texts():
    words = ["the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "while", "seven",
             "assistant", "birds"]
    rng = np.random.default_rng(0)
    plain = [" ".join(rng.choice(words, 40)) for _ in range(120)]
    chats = [render([{"role": "user", "content": " ".join(rng.choice(words, 5))},
                     {"role": "assistant", "content": " ".join(rng.choice(words, 8))}])
             for _ in range(120)]
    return ([Text("made-up", "docs", str(at), "eval" if at < 20 else "train", text)
             for at, text in enumerate(plain)]
            + [Text("chats", "synthetic", str(at), "train", text) for at, text in enumerate(chats)])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    texts = _texts()
    write_tokenizer(train_on_texts([text.text for text in texts], VOCABULARY),
                    folder / "tokenizer.json")
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    manifest = write_shards(texts, tokenizer, folder / "shards")
    (folder / "shards" / "manifest.json").write_text(json.dumps(manifest))
    return folder, tokenizer, token_ids(tokenizer)


@pytest.fixture(scope="module")
def trained(data):
    folder, _, ids = data
    docs, chats = (read_stream(folder / "shards", key) for key in ("docs.train", "synthetic.train"))
    lengths = np.array([len(docs)] * 5 + [len(chats)])
    starts = np.array([0] * 5 + [len(docs)])
    streams = Streams(jnp.asarray(np.concatenate([docs, chats])), starts, lengths)
    plan = Plan(shape=SHAPE, ids=ids, rows=4, length=128, long_length=128, last_length=128,
                nvfp4=True, seconds=60.0, peak=4e-2, optimizer="muon",
                dtype=jnp.dtype("bfloat16"), remat=False, seed=1, bytes_per_token=2.0)
    return train(plan, streams, folder / "state.pickle", max_steps=24, say=lambda text: None)


def test_rows_grow_longer_and_fewer():
    plan = Plan(shape=SHAPE, ids=None, rows=64, length=1024, long_length=2048, last_length=4096,
                nvfp4=True, seconds=60.0, peak=1.0, optimizer="muon", dtype=jnp.dtype("float32"),
                remat=False, seed=1, bytes_per_token=2.0)
    shapes = [plan.shape_at(share) for share in (0.0, 0.74, 0.75, 0.91, 0.92, 1.0)]
    assert shapes == [(64, 1024)] * 2 + [(32, 2048)] * 2 + [(16, 4096)] * 2


@partial(jax.jit, static_argnames="sequential")
def _hidden(params, tokens, segments, sequential=False):
    return forward(params, tokens, segments, SHAPE, dtype=jnp.float32, remat=False,
                   sequential=sequential)


def test_special_tokens_are_last(data):
    _, tokenizer, _ = data
    assert tokenizer.get_vocab_size() == VOCABULARY
    first = VOCABULARY - len(ADDED_TOKENS)
    assert [tokenizer.token_to_id(text) for text in SPECIAL_TOKENS] == list(
        range(first, VOCABULARY))
    text = "naïve 2 + 22\n\tx = 'é'  \r\n<think>"
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_loss_falls(trained):
    _, figures = trained
    first, last = figures["losses"][0], figures["losses"][-1]
    assert abs(first - np.log(VOCABULARY)) < 0.3
    assert last < first - 1.0
    assert (figures["steps"], figures["tokens"]) == (24, 24 * 512)


def test_schedule_ends_at_zero():
    assert schedule(0.0, 0, 1.0) == pytest.approx(0.01)
    assert schedule(0.5, 5000, 1.0) == 1.0
    assert schedule(0.875, 5000, 1.0) == pytest.approx(0.5)
    assert schedule(1.0, 5000, 1.0) == 0.0


def test_export_round_trip(trained, data, tmp_path):
    params, _ = trained
    export(params, SHAPE, data[0] / "tokenizer.json", tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    assert len(tensors) == 3 * 14 + 11 + 2 + 15
    shapes = {
        "model.embed_tokens.weight": (VOCABULARY, 32), "model.norm.weight": (32,),
        "model.layers.0.linear_attn.in_proj_qkv.weight": (160, 32),
        "model.layers.0.linear_attn.in_proj_z.weight": (96, 32),
        "model.layers.1.linear_attn.in_proj_a.weight": (3, 32),
        "model.layers.1.linear_attn.conv1d.weight": (160, 1, 4),
        "model.layers.2.linear_attn.A_log": (3,), "model.layers.2.linear_attn.norm.weight": (32,),
        "model.layers.2.linear_attn.out_proj.weight": (32, 96),
        "model.layers.3.self_attn.q_proj.weight": (128, 32),
        "model.layers.3.self_attn.k_norm.weight": (32,),
        "model.layers.3.mlp.down_proj.weight": (32, 64), "mtp.fc.weight": (32, 64),
        "mtp.layers.0.self_attn.o_proj.weight": (32, 64)}
    for name, shape in shapes.items():
        assert tensors[name].shape == shape, name
        assert tensors[name].dtype == jnp.bfloat16
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == ["Qwen3_5ForCausalLM"]
    assert config["tie_word_embeddings"]
    assert 2 * sum(config["rope_parameters"]["mrope_section"]) == SHAPE.d_rotary
    stops = json.loads((tmp_path / "generation_config.json").read_text())["eos_token_id"]
    assert stops == [data[2].turn_end, data[2].end_of_text]
    rebuilt = params_from_tensors(named_tensors(params, SHAPE).__getitem__, SHAPE)
    jax.tree.map(np.testing.assert_array_equal, rebuilt, jax.tree.map(np.asarray, params))


def test_documents_do_not_see_each_other(trained):
    params, _ = trained
    rng = np.random.default_rng(1)
    tokens = rng.integers(0, 310, (1, 128))
    segments = jnp.asarray(np.repeat([0, 1], [37, 91])[None])
    changed = tokens.copy()
    changed[0, :37] = rng.integers(0, 310, 37)

    def run(rows):
        return np.asarray(_hidden(params, jnp.asarray(rows), segments))

    np.testing.assert_allclose(run(changed)[0, 37:], run(tokens)[0, 37:], atol=1e-5)
    alone = _hidden(params, jnp.asarray(tokens[:, 37:]), jnp.zeros((1, 91), jnp.int32),
                    sequential=True)
    np.testing.assert_allclose(run(tokens)[0, 37:], np.asarray(alone)[0], atol=2e-4)


def test_chunked_logits_equal_sequential(trained):
    params, _ = trained
    tokens = jnp.asarray(np.random.default_rng(2).integers(0, 310, (1, 128)))
    logits = [logits_of(params, _hidden(params, tokens, jnp.zeros_like(tokens),
                                        sequential=sequential))
              for sequential in (False, True)]
    assert float(jnp.max(jnp.abs(logits[0] - logits[1]))) < 1e-3


def test_only_answers_are_weighed(data):
    _, tokenizer, ids = data
    text = render([{"role": "user", "content": "quick"}, {"role": "assistant", "content": "dog"}])
    row = jnp.asarray([[*tokenizer.encode("fox<|endoftext|>" + text + "<|endoftext|>").ids, 65]])
    weights = np.asarray(assistant_tokens(row, segments_of(row, ids), ids, 0.0))[0]
    chosen = tokenizer.decode(np.asarray(row)[0][weights > 0].tolist(), skip_special_tokens=False)
    assert chosen == "fox<|endoftext|><think>\n\n</think>\n\ndog<|im_end|>" + tokenizer.decode([65])


def test_evaluation_and_samples(trained, data):
    folder, tokenizer, ids = data
    params, _ = trained
    table = held_out(params, folder / "shards", shape=SHAPE, ids=ids, dtype=jnp.float32, length=128,
                     rows=2, minimum=100)
    assert table.keys() == {"made-up"}
    row = table["made-up"]
    assert row["bits_per_byte"] == pytest.approx(
        row["nats_per_token"] / np.log(2) / 5.4, rel=0.1)
    assert 0.0 <= row["mtp_right"] <= 1.0
    found = samples(params, tokenizer, shape=SHAPE, dtype=jnp.float32, prompts=("the quick",),
                    length=64, steps=8)
    assert found[0]["prompt"] == "the quick"
    assert len(found[0]["text"]) > 0
