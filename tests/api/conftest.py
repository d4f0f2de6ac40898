"""A tiny random model with a byte tokenizer and a chat template: all that `LLM` needs on disk."""

import json
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from checkpoints.synthetic import tiny_dense_config, write_checkpoint
from tandem_jax import LLM
from tandem_jax.models.config import FULL, LINEAR

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")  # ids 256, 257 and 258
TEMPLATE = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
# Small shapes, so that few and short compilations are enough.
SMALL = {
    "page_tokens": 64,
    "prefill_buckets": (64,),
    "row_buckets": (8,),
    "node_budget": 7,
    "warmup": False,
}


def write_tokenizer(directory: Path) -> None:
    """One token a byte in the order of the alphabet, three control tokens, a chat template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    built = Tokenizer(models.BPE({char: i for i, char in enumerate(alphabet)}, []))
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    built.decoder = decoders.ByteLevel()
    built.add_tokens([AddedToken(text, special=True, normalized=False) for text in CONTROL])
    built.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(json.dumps({"eos_token": CONTROL[2]}))
    (directory / "chat_template.jinja").write_text(TEMPLATE)


@pytest.fixture(scope="session")
def write_model():
    """write_model(directory, mtp=True, **config overrides): a complete checkpoint."""

    def write(directory: Path, *, mtp: bool = True, **overrides) -> Path:
        config = {
            "num_hidden_layers": 2,
            "layer_types": [LINEAR, FULL],
            "vocab_size": 264,  # five padding rows behind the tokenizer's ids
            "eos_token_id": 256,
            **overrides,
        }
        write_checkpoint(directory, tiny_dense_config(**config), seed=11, mtp=mtp)
        write_tokenizer(directory)
        return directory

    return write


@pytest.fixture(scope="session")
def directory(write_model, tmp_path_factory) -> Path:
    """A sound checkpoint, not to be changed."""
    return write_model(tmp_path_factory.mktemp("api") / "tiny")


@pytest.fixture(scope="session")
def open_llm(directory):
    """open_llm(**options): an `LLM` on the sound checkpoint with small shapes."""

    def open_it(model: Path = directory, **options) -> LLM:
        return LLM(model, **{**SMALL, **options})

    return open_it


@pytest.fixture(scope="session")
def llm(open_llm) -> LLM:
    """One model with every drafter's needs, the MTP head included."""
    return open_llm()
