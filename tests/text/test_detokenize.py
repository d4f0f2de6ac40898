"""Streamed text equals decoding everything at once, wherever the stream is cut (E15)."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_jax.text import Detokenizer
from tandem_jax.text.byte_level import BYTE_CHARACTERS

FAMILY = "👩‍👩‍👧‍👦"
TEXTS = ["plain", "Größe", "中文", FAMILY, f"a{FAMILY}b🎉", "\x00\x07", "a\u0301"]


@pytest.fixture(scope="module")
def byte_ids(tokenizer, reference):
    """[256] the token of each single byte."""
    vocab = reference.get_vocab(with_added_tokens=False)
    return [vocab[char] for char in BYTE_CHARACTERS]


def pieces(tokenizer, blocks, **options):
    stream = Detokenizer(tokenizer, **options)
    return [*(stream.push(block) for block in blocks), stream.flush()]


@st.composite
def partitions(draw, items):
    """The items cut into consecutive blocks, empty ones included."""
    cuts = sorted(draw(st.lists(st.integers(0, len(items)), max_size=8)))
    edges = [0, *cuts, len(items)]
    return [items[a:b] for a, b in pairwise(edges)]


@given(data=st.data(), raw=st.one_of(st.binary(max_size=24), st.sampled_from(TEXTS)))
def test_any_partition_of_bytes_gives_the_full_decode(tokenizer, byte_ids, data, raw):
    raw = raw.encode() if isinstance(raw, str) else raw
    ids = [byte_ids[byte] for byte in raw]
    streamed = pieces(tokenizer, data.draw(partitions(ids)))
    assert "".join(streamed) == tokenizer.decode(ids) == raw.decode("utf-8", "replace")


@given(data=st.data(), ids=st.lists(st.integers(0, 520), max_size=30), skip=st.booleans())
def test_any_partition_of_tokens_gives_the_full_decode(tokenizer, data, ids, skip):
    streamed = pieces(tokenizer, data.draw(partitions(ids)), skip_special=skip)
    assert "".join(streamed) == tokenizer.decode(ids, skip_special=skip)


def test_random_sequences_token_by_token(tokenizer, byte_ids):
    source = random.Random(5)
    ends = 0
    for _ in range(2000):
        ids = [byte_ids[source.randrange(256)] for _ in range(source.randrange(1, 24))]
        streamed = pieces(tokenizer, [[token] for token in ids])
        assert "".join(streamed) == tokenizer.decode(ids)
        ends += bool(streamed[-1])
    assert ends > 100  # sequences that end inside a character were among them


@pytest.mark.parametrize("cut", range(1, len(FAMILY.encode())))
def test_every_split_of_an_emoji_family(tokenizer, byte_ids, cut):
    ids = [byte_ids[byte] for byte in FAMILY.encode()]
    streamed = pieces(tokenizer, [ids[:cut], ids[cut:]])
    assert "".join(streamed) == FAMILY
    assert "\ufffd" not in "".join(streamed)


def test_half_a_character_is_held_back_and_flushed(tokenizer, byte_ids):
    stream = Detokenizer(tokenizer)
    assert stream.push([byte_ids[byte] for byte in b"a\xf0\x9f\x8e"]) == "a"
    assert stream.flush() == "\ufffd"
    assert stream.push([byte_ids[0x62]]) == "b"


def test_restore_forgets_what_came_after_the_snapshot(tokenizer, byte_ids):
    stream = Detokenizer(tokenizer)
    party = [byte_ids[byte] for byte in "🎉".encode()]
    stream.push(party[:2])
    state = stream.snapshot()
    assert stream.push(party[2:]) == "🎉"
    stream.restore(state)
    assert stream.push([*party[2:], byte_ids[0x21]]) == "🎉!"


def test_special_tokens_can_be_hidden(tokenizer):
    ids = tokenizer.encode("<think>a</think>b<|im_end|>", parse_special=True)
    assert "".join(pieces(tokenizer, [ids])) == "<think>a</think>b<|im_end|>"
    assert "".join(pieces(tokenizer, [ids], skip_special=True)) == "<think>a</think>b"
