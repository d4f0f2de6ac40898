"""The tokenizer wrapper: same ids as the library, and plain text stays plain."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_jax.errors import CheckpointError, RequestError
from tandem_jax.text import Tokenizer
from tandem_jax.text.byte_level import BYTE_CHARACTERS, token_to_bytes

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "<think>", "</think>"]
hostile_text = st.lists(st.one_of(st.text(max_size=12), st.sampled_from(CONTROL))).map("".join)


@given(text=hostile_text)
def test_ids_equal_the_library_where_specials_are_asked_for(reference, tokenizer, text):
    wanted = reference.encode(text, add_special_tokens=False).ids
    assert tokenizer.encode(text, parse_special=True) == wanted


@given(text=hostile_text)
def test_plain_text_never_becomes_a_control_token(reference, tokenizer, text):
    ids = tokenizer.encode(text)
    assert not set(ids) & set(tokenizer.control_ids.values())
    assert tokenizer.decode(ids) == reference.normalizer.normalize_str(text)


def test_special_tokens_are_the_flagged_ones(tokenizer):
    ids = tokenizer.control_ids
    assert tokenizer.special_ids == {
        ids[t] for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    }
    assert tokenizer.control_id("<think>") == ids["<think>"]
    assert tokenizer.control_id("<nope>") is None
    assert tokenizer.vocab_size == 1 + max(ids.values())


def test_pieces_mix_text_and_ids(tokenizer):
    end = tokenizer.control_id("<|im_end|>")
    ids = tokenizer.encode_pieces(["the dog", end, "<|im_end|>"])
    assert ids.count(end) == 1
    assert tokenizer.decode(ids) == "the dog<|im_end|><|im_end|>"
    assert tokenizer.decode(ids, skip_special=True) == "the dog<|im_end|>"
    assert tokenizer.encode("") == []


def test_token_bytes(tokenizer):
    table = {BYTE_CHARACTERS.index(c): c for c in BYTE_CHARACTERS}
    assert sorted(table) == list(range(256))
    assert token_to_bytes("Ġthe") == b" the"
    assert tokenizer.token_bytes(tokenizer.control_id("<think>")) == b"<think>"
    assert tokenizer.token_bytes(10**6) == b""
    with pytest.raises(ValueError, match="negative"):
        tokenizer.token_bytes(-1)
    with pytest.raises(ValueError, match="alphabet"):
        token_to_bytes("中")


@given(ids=st.lists(st.integers(0, 400), max_size=40))
def test_decode_equals_the_library(reference, tokenizer, ids):
    assert tokenizer.decode(ids) == reference.decode(ids, skip_special_tokens=False)


def test_lone_surrogate_is_a_request_error(tokenizer):
    with pytest.raises(RequestError, match="character 2") as caught:
        tokenizer.encode("ab\ud800", param="prompt")
    assert caught.value.param == "prompt"


def test_missing_file(tmp_path):
    with pytest.raises(CheckpointError, match=r"no tokenizer\.json"):
        Tokenizer.from_directory(tmp_path)


def damaged(raw, change):
    copy = json.loads(raw)
    change(copy)
    return json.dumps(copy)


DAMAGES = {
    "not a byte-level BPE": lambda raw: raw["model"].update(type="Unigram"),
    r"not a byte-level BPE \(model": lambda raw: raw.update(decoder=None),
    "no vocabulary": lambda raw: raw["model"].update(vocab=None),
    "no tokenizer model": lambda raw: raw.pop("model"),
    "bytes have no token": lambda raw: raw["model"]["vocab"].pop("Ġ"),
    "not in the byte-level alphabet": lambda raw: raw["model"]["vocab"].update({"中": 5000}),
    "damaged added token": lambda raw: raw["added_tokens"][0].pop("special"),
    "sets lstrip": lambda raw: raw["added_tokens"][0].update(lstrip=True),
    "cannot be loaded": lambda raw: raw["model"].update(merges=[["zz", "qq"]]),
}


@pytest.mark.parametrize("message", DAMAGES)
def test_damaged_files_are_named(checkpoint, message):
    raw = (checkpoint / "tokenizer.json").read_text()
    with pytest.raises(CheckpointError, match=message) as caught:
        Tokenizer(damaged(raw, DAMAGES[message]))
    assert caught.value.hint


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe"])
def test_broken_bytes_are_named(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        Tokenizer.from_directory(tmp_path)


def test_merges_that_rebuild_a_control_token_are_refused(checkpoint):
    """With ignore_merges a vocabulary entry matches whole words: `think` would become one id."""

    def ignore_merges(raw):
        raw["added_tokens"].append({**raw["added_tokens"][0], "id": 900, "content": "fox"})
        raw["model"]["vocab"]["fox"] = 900
        raw["model"]["ignore_merges"] = True

    raw = (checkpoint / "tokenizer.json").read_text()
    with pytest.raises(CheckpointError, match="plain text 'fox'"):
        Tokenizer(damaged(raw, ignore_merges))
