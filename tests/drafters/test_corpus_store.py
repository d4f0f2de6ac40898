"""The corpus against a brute-force search, how it is built, and what is refused."""

import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints.synthetic import tiny_dense_config
from tandem_jax.drafters.corpus import DOC_SEP, MAX_ORDER, CorpusStore
from tandem_jax.errors import ConfigError
from tandem_jax.loading import shipped_path
from tandem_jax.text import Tokenizer
from tools.build_corpus import build, suffix_array

SHA = "cd" * 32
DOCUMENTS = st.lists(st.lists(st.integers(0, 2), max_size=30), max_size=4)


def write(folder, documents, sha=SHA):
    """A corpus on disk, its suffix array from the tool."""
    folder.mkdir(exist_ok=True)
    tokens = np.array([t for d in documents for t in [*d, DOC_SEP]], np.int32)
    np.save(folder / "tokens.npy", tokens)
    np.save(folder / "sa.npy", suffix_array(tokens))
    meta = {"max_order": MAX_ORDER, "doc_sep": DOC_SEP, "tokenizer": sha}
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder


def by_hand(documents, suffix, min_order, depth):
    for order in range(min(len(suffix), MAX_ORDER), min_order - 1, -1):
        gram = suffix[-order:]
        found = [
            tuple(d[i + order : i + order + depth])
            for d in documents
            for i in range(len(d) - order)
            if d[i : i + order] == gram
        ]
        if found:
            return order, sorted(found)
    return 0, []


@settings(max_examples=150, deadline=None)
@given(DOCUMENTS, st.lists(st.integers(0, 2), max_size=10), st.integers(1, 8), st.integers(1, 5))
def test_the_longest_match_and_all_that_follows_it(
    tmp_path_factory, documents, suffix, least, depth
):
    store = CorpusStore(write(tmp_path_factory.getbasetemp() / "corpus", documents), SHA)
    order, lines = store.continuations(suffix, least, depth)
    assert (order, sorted(lines)) == by_hand(documents, suffix[-MAX_ORDER:], least, depth)


def test_many_places_are_sampled_evenly(tmp_path):
    documents = [[1, 2, 3, 4, 5, 6, 7, 8, 100 + n] for n in range(640)]
    store = CorpusStore(write(tmp_path / "c", documents), SHA)
    order, lines = store.continuations(list(range(1, 9)), 8, 3)
    assert order == 8
    assert [line[0] for line in lines] == list(range(100, 740, 10))


def test_suffixes_are_sorted_by_tokens_not_bytes():
    tokens = np.array([300, 2, 70_000, 2, 300, 2, DOC_SEP], np.int32)
    order = suffix_array(tokens).tolist()
    assert [tokens[i:].tolist() for i in order] == sorted(tokens[i:].tolist() for i in range(6))


DAMAGE = {
    "another tokenizer": lambda f: None,
    "is no corpus: meta.json": lambda f: (f / "meta.json").unlink(),
    "meta.json: Expecting": lambda f: (f / "meta.json").write_text("{"),
    "exactly": lambda f: rewrite(f, speed=3),
    "must have exactly .'doc_sep', 'max_order', 'tokenizer'.": lambda f: rewrite(f, "doc_sep"),
    "in meta.json": lambda f: (f / "meta.json").write_text("[1]"),
    "sorted by 4 tokens": lambda f: rewrite(f, max_order=4),
    "no doc_sep": lambda f: rewrite(f, doc_sep="x"),
    "tokens.npy is damaged": lambda f: truncate(f / "tokens.npy"),
    "sa.npy is damaged": lambda f: (f / "sa.npy").write_bytes(b"junk"),
    "tokens.npy is float64": lambda f: np.save(f / "tokens.npy", np.zeros(4)),
    "sa.npy is int32": lambda f: np.save(f / "sa.npy", np.zeros((2, 2), np.int32)),
    "more suffixes than tokens": lambda f: np.save(f / "sa.npy", np.zeros(99, np.int32)),
    "suffixes outside": lambda f: np.save(f / "sa.npy", np.full(3, 77, np.int32)),
    "suffixes outside its text": lambda f: np.save(f / "sa.npy", np.array([0, -1, 1], np.int32)),
    "c/sa.npy is damaged": lambda f: archive(f / "sa.npy"),
    "c/tokens.npy is damaged": lambda f: (f / "tokens.npy").unlink(),
    "c/sa.npy is int16": lambda f: np.save(f / "sa.npy", np.zeros(3, np.int16)),
}


def archive(path):
    """An .npz under the name of an .npy: numpy would read it as something else."""
    with path.open("wb") as file:
        np.savez(file, a=np.zeros(3, np.int32))


def rewrite(folder, *without, **changes):
    meta = json.loads((folder / "meta.json").read_text())
    meta = {key: value for key, value in meta.items() if key not in without}
    (folder / "meta.json").write_text(json.dumps(meta | changes))


def truncate(path):
    path.write_bytes(path.read_bytes()[:-5])


@pytest.mark.parametrize("message", list(DAMAGE))
def test_damage_is_named(tmp_path, message):
    folder = write(tmp_path / "c", [[1, 2, 3, 4]])
    DAMAGE[message](folder)
    sha = "0" * 64 if message == "another tokenizer" else SHA
    with pytest.raises(ConfigError, match=message) as caught:
        CorpusStore(folder, sha)
    assert "build_corpus" in caught.value.hint


def test_a_damaged_header_is_a_refusal_or_harmless(tmp_path):
    """numpy reads the header as a Python literal: a flipped byte raises all sorts of errors."""
    folder = write(tmp_path / "c", [[1, 2, 3, 4]])
    whole, rng, refused = (folder / "tokens.npy").read_bytes(), random.Random(0), 0
    for cut in range(128):
        (folder / "tokens.npy").write_bytes(whole[:cut])
        with pytest.raises(ConfigError, match="is damaged"):
            CorpusStore(folder, SHA)
    for _ in range(500):
        damaged = bytearray(whole)
        damaged[rng.randrange(128)] = rng.randrange(256)
        (folder / "tokens.npy").write_bytes(damaged)
        try:
            CorpusStore(folder, SHA)
        except ConfigError:
            refused += 1
    assert refused > 250


def test_long_suffix_arrays_and_none_at_all(tmp_path):
    folder = write(tmp_path / "c", [[1, 2, 3, 1, 2, 4]])
    np.save(folder / "sa.npy", np.load(folder / "sa.npy").astype(np.int64))
    assert CorpusStore(folder, SHA).continuations([1, 2], 2, 2) == (2, [(3, 1), (4,)])
    empty = CorpusStore(write(tmp_path / "empty", []), SHA)
    assert (len(empty), empty.continuations([1, 2], 1, 2)) == (0, (0, []))


def test_a_corpus_of_texts_lines_and_tokens(tmp_path):
    tokenizer = Tokenizer.from_directory(shipped_path("nano"))
    (tmp_path / "a.txt").write_text("The sea was calm and the sky was clear that day.")
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": "def add(a, b):\n    return a + b\n"}))
    np.save(tmp_path / "c.npy", np.arange(50, 70, dtype=np.int32))
    paths = [tmp_path / name for name in ("a.txt", "b.jsonl", "c.npy")]
    n = build(paths, "nano", tmp_path / "out")
    store = CorpusStore(tmp_path / "out", tokenizer.fingerprint)
    code = tokenizer.encode("def add(a, b):\n    return a + b\n")
    sizes = [len(tokenizer.encode(paths[0].read_text())), len(code), 20]
    assert len(store) == n == sum(sizes) + 3  # and a separator behind each
    assert store.continuations(code[:3], 3, 99)[1] == [tuple(code[3:])]
    assert store.continuations(list(range(52, 60)), 8, 4) == (8, [(60, 61, 62, 63)])
    ids = tokenizer.encode("The sea was calm and the sky was clear that day.")
    assert store.continuations(ids[:-2], 2, 9)[1] == [tuple(ids[-2:])]


@pytest.mark.parametrize("line", ['{"content": "x"}', '{"text": 3}', '"text"', "null"])
def test_a_line_without_a_text_is_named(tmp_path, line):
    (tmp_path / "d.jsonl").write_text('{"text": "one"}\n' + line + "\n")
    with pytest.raises(ValueError, match=r"d\.jsonl:2 has no text"):
        build([tmp_path / "d.jsonl"], "nano", tmp_path / "bad")
    assert not (tmp_path / "bad").exists()


def test_only_a_newline_ends_a_json_line(tmp_path):
    """JSON may hold these characters unescaped; Python would split text there."""
    tokenizer = Tokenizer.from_directory(shipped_path("nano"))
    texts = ["one\u2028two\x85three", "four"]
    lines = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    build([tmp_path / "a.jsonl"], "nano", tmp_path / "out")
    wanted = [token for text in texts for token in [*tokenizer.encode(text), DOC_SEP]]
    assert np.load(tmp_path / "out" / "tokens.npy").tolist() == wanted


def test_ids_are_taken_as_they_are_but_must_be_ids(tmp_path):
    size = Tokenizer.from_directory(shipped_path("nano")).vocab_size
    path = tmp_path / "a.npy"
    np.save(path, np.array([3, size - 1, DOC_SEP, 4], np.int64))
    assert build([path], "nano", tmp_path / "out") == 5
    tokens = np.load(tmp_path / "out" / "tokens.npy")
    assert (tokens.dtype, tokens.tolist()) == (np.int32, [3, size - 1, DOC_SEP, 4, DOC_SEP])
    for wrong in ([-1, 2], [size], [1 << 32], [1.0, 2.0]):
        np.save(path, np.array(wrong))
        with pytest.raises(ValueError, match=r"a\.npy holds other things than ids"):
            build([path], "nano", tmp_path / "bad")


def test_the_tiny_models_vocabulary_fits_below_the_separator():
    assert tiny_dense_config()["vocab_size"] < DOC_SEP
