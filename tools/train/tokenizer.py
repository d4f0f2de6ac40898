"""Byte-level BPE with 8,192 entries in the Qwen3.5 layout: merges first, special tokens last."""

import json
import random
from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from tokenizers.normalizers import NFC

VOCABULARY = 8_192
END_OF_TEXT = "<|endoftext|>"
# (text, special): as in Qwen, tags that clients parse are added tokens but not "special", so
# that a decoder which skips special tokens still shows them.
ADDED_TOKENS = (
    (END_OF_TEXT, True), ("<|im_start|>", True), ("<|im_end|>", True),
    ("<tool_call>", False), ("</tool_call>", False),
    ("<tool_response>", False), ("</tool_response>", False),
    ("<think>", False), ("</think>", False),
    ("<|fim_prefix|>", True), ("<|fim_middle|>", True), ("<|fim_suffix|>", True),
    ("<|fim_pad|>", True), ("<|repo_name|>", True), ("<|file_sep|>", True),
    ("<|mask|>", True), ("<|pad|>", True),
)
SPECIAL_TOKENS = tuple(text for text, _ in ADDED_TOKENS)
# The Qwen3.5 split: words take combining marks, digits stand alone.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SAMPLE_BYTES_PER_GROUP = {"docs": 11_000_000, "prose": 10_000_000, "python": 11_000_000,
                          "systems": 5_000_000, "chat": 4_000_000, "synthetic": 12_000_000}


def _sample(documents: Iterable) -> list[str]:
    budget = dict(SAMPLE_BYTES_PER_GROUP)
    texts = []
    shuffled = [document for document in documents if document.split == "train"]
    random.Random(8_192).shuffle(shuffled)
    for document in shuffled:
        if budget[document.group] > 0:
            budget[document.group] -= len(document.text)
            text = document.text
            for token in SPECIAL_TOKENS:  # they are split off before the merges see the text
                text = text.replace(token, "\n")
            texts.append(text)
    return texts


def train_tokenizer(documents: Iterable) -> Tokenizer:
    """Train on a balanced sample of the training documents (objects with .split .group .text)."""
    return train_on_texts(_sample(documents), VOCABULARY)


def train_on_texts(texts: list[str], vocabulary: int) -> Tokenizer:
    """Train a tokenizer with exactly `vocabulary` ids, special tokens included and last."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=False))
    tokenizer.normalizer = NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(ADDED_TOKENS), min_frequency=2, special_tokens=[],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(text, special=special, normalized=False)
                          for text, special in ADDED_TOKENS])
    return tokenizer


def write_tokenizer(tokenizer: Tokenizer, path: Path) -> None:
    """Write tokenizer.json compactly (its own pretty form is three times as large)."""
    path.write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False,
                               separators=(",", ":")) + "\n", encoding="utf-8")


def load_tokenizer(path: Path) -> Tokenizer:
    """Return the tokenizer of a tokenizer.json file."""
    return Tokenizer.from_file(str(path))


def tokenizer_config(max_length: int) -> dict:
    """Return tokenizer_config.json in the Hugging Face layout."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": False,
        "add_prefix_space": False, "bos_token": None, "eos_token": "<|im_end|>",
        "pad_token": "<|pad|>", "unk_token": None, "clean_up_tokenization_spaces": False,
        "model_max_length": max_length, "errors": "replace",
    }
