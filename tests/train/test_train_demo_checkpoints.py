"""The shipped demo checkpoints are what their cards say, and compute what the formulas say."""

import json
import math
from pathlib import Path

import jax.numpy as jnp
import pytest
from safetensors import safe_open

from tandem_jax.loading import SHIPPED
from tandem_jax.loading_drafter import SHIPPED_DRAFTERS
from tools.train.chat import TEMPLATE_PATH
from tools.train.drafter_export import hf_drafter_config
from tools.train.drafter_shapes import DRAFTERS
from tools.train.evaluate import samples
from tools.train.export import sha256_table
from tools.train.shapes import PRESETS, hf_config
from tools.train.tokenizer import load_tokenizer
from tools.train.verify import largest_difference, load_params

DEMO = Path(__file__).parents[2] / "checkpoints" / "demo"


TARGET_FILES = ["chat_template.jinja", "config.json", "generation_config.json",
                "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
DRAFTER_FILES = ["config.json", "model.safetensors"]


@pytest.mark.parametrize(("name", "files"), [
    *((name, TARGET_FILES) for name in SHIPPED),
    *((name, DRAFTER_FILES) for name in SHIPPED_DRAFTERS)])
def test_files_are_those_of_the_card(name, files):
    card = (DEMO / name / "MODEL_CARD.md").read_text()
    table = sha256_table(DEMO / name)
    assert sorted(table) == files
    for file, digest in table.items():
        assert f"| `{file}` | `{digest}` |" in card


def test_the_family_fits_beside_the_data_of_a_training():
    assert sum(path.stat().st_size for path in DEMO.rglob("*") if path.is_file()) < 35_000_000


@pytest.mark.parametrize("name", SHIPPED)
def test_config_is_that_of_the_preset(name):
    tokenizer = load_tokenizer(DEMO / name / "tokenizer.json")
    assert tokenizer.get_vocab_size() == 8192
    assert json.loads((DEMO / name / "config.json").read_text()) == hf_config(
        PRESETS[name], end_of_text=tokenizer.token_to_id("<|endoftext|>"), pad=8191,
        nvfp4=name == "mini")
    assert (DEMO / name / "chat_template.jinja").read_text() == TEMPLATE_PATH.read_text()


@pytest.mark.parametrize(("name", "modules", "parameters"),
                         [("nano", 70, 2_030_284), ("mini", 177, 29_303_990)])
def test_parameter_counts(name, modules, parameters):
    """A head of its own counts beside the embedding, a four-bit matrix by its codes."""
    sizes = {}
    with safe_open(DEMO / name / "model.safetensors", framework="numpy") as file:
        for tensor in file.keys():  # noqa: SIM118 - no mapping
            if not tensor.endswith(("weight_scale", "weight_scale_2")):
                part = file.get_slice(tensor)
                codes = 2 if part.get_dtype() == "U8" else 1
                sizes[tensor] = codes * math.prod(part.get_shape())
    assert (len(sizes), sum(sizes.values())) == (modules, parameters)
    assert sum(tensor.startswith("mtp.") for tensor in sizes) == 15


@pytest.mark.parametrize("name", SHIPPED_DRAFTERS)
def test_drafters_are_those_of_the_preset(name):
    shape = DRAFTERS[name]
    config = json.loads((DEMO / name / "config.json").read_text())
    temperature = config["dflash_config"]["lattice_temperature"]
    assert config == hf_drafter_config(shape, nvfp4=name != "nano-b8", temperature=temperature)
    assert 0.5 < temperature < 2
    with safe_open(DEMO / name / "model.safetensors", framework="numpy") as file:
        stored = [x for x in file.keys()  # noqa: SIM118 - no mapping
                  if not x.endswith(("weight_scale", "weight_scale_2"))]
    assert len(stored) == 6 + 15 * shape.n_layers


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
