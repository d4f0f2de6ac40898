"""The corpus against a brute-force search, how it is built, and what is refused."""

import json

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
DOCUMENTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=30), min_size=1, max_size=4)


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
    "sorted by 4 tokens": lambda f: rewrite(f, max_order=4),
    "no doc_sep": lambda f: rewrite(f, doc_sep="x"),
    "tokens.npy is damaged": lambda f: truncate(f / "tokens.npy"),
    "sa.npy is damaged": lambda f: (f / "sa.npy").write_bytes(b"junk"),
    "tokens.npy is float64": lambda f: np.save(f / "tokens.npy", np.zeros(4)),
    "sa.npy is int32": lambda f: np.save(f / "sa.npy", np.zeros((2, 2), np.int32)),
    "more suffixes than tokens": lambda f: np.save(f / "sa.npy", np.zeros(99, np.int32)),
    "suffixes outside": lambda f: np.save(f / "sa.npy", np.full(3, 77, np.int32)),
}


def rewrite(folder, **changes):
    meta = json.loads((folder / "meta.json").read_text())
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


def test_a_corpus_of_texts_lines_and_tokens(tmp_path):
    tokenizer = Tokenizer.from_directory(shipped_path("nano"))
    (tmp_path / "a.txt").write_text("The sea was calm and the sky was clear that day.")
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": "def add(a, b):\n    return a + b\n"}))
    np.save(tmp_path / "c.npy", np.arange(50, 70, dtype=np.int32))
    paths = [tmp_path / name for name in ("a.txt", "b.jsonl", "c.npy")]
    n = build(paths, "nano", tmp_path / "out")
    store = CorpusStore(tmp_path / "out", tokenizer.fingerprint)
    sizes = [len(tokenizer.encode(paths[0].read_text())), 20]
    assert len(store) == n >= sum(sizes) + 3
    assert store.continuations(list(range(52, 60)), 8, 4) == (8, [(60, 61, 62, 63)])
    ids = tokenizer.encode("The sea was calm and the sky was clear that day.")
    assert store.continuations(ids[:-2], 2, 9)[1] == [tuple(ids[-2:])]
    (tmp_path / "d.jsonl").write_text('{"content": "x"}')
    with pytest.raises(ValueError, match=r"d\.jsonl:1 has no text"):
        build([tmp_path / "d.jsonl"], "nano", tmp_path / "bad")


def test_the_tiny_models_vocabulary_fits_below_the_separator():
    assert tiny_dense_config()["vocab_size"] < DOC_SEP
