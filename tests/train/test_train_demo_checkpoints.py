"""The shipped demo checkpoints are what their cards say, and compute what the formulas say."""

import json
from pathlib import Path

import jax.numpy as jnp
import pytest
from safetensors import safe_open

from tools.train.chat import TEMPLATE_PATH
from tools.train.evaluate import samples
from tools.train.export import sha256_table
from tools.train.shapes import PRESETS, hf_config
from tools.train.tokenizer import load_tokenizer
from tools.train.verify import largest_difference, load_params

DEMO = Path(__file__).parents[2] / "checkpoints" / "demo"


@pytest.mark.parametrize("name", ["nano", "mini"])
def test_files_are_those_of_the_card(name):
    card = (DEMO / name / "MODEL_CARD.md").read_text()
    table = sha256_table(DEMO / name)
    assert sorted(table) == ["chat_template.jinja", "config.json", "generation_config.json",
                             "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    for file, digest in table.items():
        assert f"| `{file}` | `{digest}` |" in card


@pytest.mark.parametrize(("name", "preset"), [("nano", "nano"), ("mini", "mini-8")])
def test_config_is_that_of_the_preset(name, preset):
    tokenizer = load_tokenizer(DEMO / name / "tokenizer.json")
    assert tokenizer.get_vocab_size() == 8192
    assert json.loads((DEMO / name / "config.json").read_text()) == hf_config(
        PRESETS[preset], end_of_text=tokenizer.token_to_id("<|endoftext|>"), pad=8191)
    assert (DEMO / name / "chat_template.jinja").read_text() == TEMPLATE_PATH.read_text()


@pytest.mark.parametrize(("name", "tensors", "parameters"),
                         [("nano", 70, 2_030_284), ("mini", 123, 17_046_564)])
def test_tensor_counts(name, tensors, parameters):
    total = 0
    with safe_open(DEMO / name / "model.safetensors", framework="numpy") as file:
        names = list(file.keys())
        for tensor in names:
            size = 1
            for side in file.get_slice(tensor).get_shape():
                size *= side
            total += size
    assert (len(names), total) == (tensors, parameters)
    assert sum(tensor.startswith("mtp.") for tensor in names) == 15


def test_nano_computes_the_formulas():
    assert largest_difference(DEMO / "nano", PRESETS["nano"], sequential=False) < 1e-3


def test_nano_repeats_a_text_and_stops():
    params, _ = load_params(DEMO / "nano", PRESETS["nano"])
    text = "The red fox ran over the old stone bridge and into the silent wood."
    prompt = [{"role": "user", "content": f"Repeat the following text exactly:\n\n{text}"}]
    found = samples(params, load_tokenizer(DEMO / "nano" / "tokenizer.json"),
                    shape=PRESETS["nano"], dtype=jnp.float32, prompts=(prompt,), length=128,
                    steps=32)
    assert found[0] == {"prompt": found[0]["prompt"], "text": text, "stopped": True}
