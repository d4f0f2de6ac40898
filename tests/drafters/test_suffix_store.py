"""The store survives a crash at every byte: at most the unfinished record is lost."""

import os
import random
import signal
import subprocess
import sys

import numpy as np
import pytest

from tandem_jax.drafters.suffix_store import MAGIC, SuffixStore, parse_records
from tandem_jax.errors import ConfigError

SHA = "ab" * 32
HEADER = len(MAGIC) + 32


def texts_of(path, **options):
    store = SuffixStore(path, SHA, **options)
    found = [record.tolist() for record in store._records]
    store.close()
    return found


def write(path, texts):
    store = SuffixStore(path, SHA)
    ends = []
    for text in texts:
        store.append(text)
        ends.append(path.stat().st_size)
    store.close()
    return ends


def some_texts(n, longest, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 250_000, rng.integers(1, longest)).tolist() for _ in range(n)]


def test_texts_come_back_and_are_found(tmp_path):
    path = tmp_path / "store"
    texts = [list(range(100, 140)), [*range(100, 120), 7, 8, 9]]
    write(path, texts)
    assert texts_of(path) == texts
    store = SuffixStore(path, SHA)
    order, lines = store.continuations(list(range(112, 120)), 8, 5)
    # The newest place first, and nothing beyond the end of a text.
    assert (order, lines) == (8, [(7, 8, 9), (120, 121, 122, 123, 124)])
    assert store.continuations(list(range(113, 120)), 2, 5) == (0, [])  # seven tokens are too few
    assert store.continuations([1] * 8, 8, 5) == (0, [])
    store.append([1] * 8 + [2])
    assert store.continuations([1] * 8, 8, 5) == (8, [(2,)])
    store.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Bytes of a store of 60 texts, the texts, and where each record ends."""
    path = tmp_path_factory.mktemp("whole") / "store"
    texts = some_texts(60, 40)
    ends = write(path, texts)
    return path.read_bytes(), texts, ends


def cuts(size):
    """A thousand places: all of the first 400 bytes, then places drawn at random."""
    rng = random.Random(1)
    return sorted({*range(400), *rng.sample(range(400, size), 600)})


def survivors(ends, cut):
    return sum(end <= cut for end in ends)


def test_a_thousand_crashes_lose_the_unfinished_record_alone(whole, tmp_path):
    raw, texts, ends = whole
    path, places = tmp_path / "store", cuts(len(raw))
    assert len(places) == 1000
    for cut in places:
        path.write_bytes(raw[:cut])
        store = SuffixStore(path, SHA)
        kept = [record.tolist() for record in store._records]
        assert kept == texts[: survivors(ends, cut)], cut
        store.append([1, 2, 3])
        store.close()
        assert texts_of(path) == [*kept, [1, 2, 3]], cut


@pytest.mark.parametrize("zeros", [1, 3, 4, 7, 8, 9, 4096])
def test_a_tail_of_zeros_is_no_record(whole, tmp_path, zeros):
    raw, texts, ends = whole
    path = tmp_path / "store"
    for cut in (ends[3], ends[3] + 2, ends[3] + 8, ends[3] + 13, HEADER):
        path.write_bytes(raw[:cut] + bytes(zeros))
        kept = texts[: survivors(ends, cut)]
        assert texts_of(path) == kept
        write(path, [[5]])
        assert texts_of(path) == [*kept, [5]]


def test_what_is_cut_off_is_said_and_kept(whole, tmp_path, caplog):
    raw, texts, ends = whole
    path = tmp_path / "store"
    path.write_bytes(raw[: ends[4] + 11])
    assert texts_of(path) == texts[:5]
    (line,) = caplog.messages
    assert "11 bytes at the end are no whole record" in line
    assert (tmp_path / "store.cut").read_bytes() == raw[ends[4] : ends[4] + 11]


def test_a_flipped_byte_ends_the_store_there(whole, tmp_path):
    raw, texts, ends = whole
    path = tmp_path / "store"
    damaged = bytearray(raw)
    damaged[ends[9] + 9] ^= 4
    path.write_bytes(damaged)
    assert texts_of(path) == texts[:10]
    assert (tmp_path / "store.cut").read_bytes() == bytes(damaged[ends[9] :])  # nothing is lost


def test_any_flipped_byte_costs_no_earlier_record(tmp_path):
    path, texts = tmp_path / "store", some_texts(5, 6, seed=3)
    ends = write(path, texts)
    whole = path.read_bytes()
    for place in range(HEADER, len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        assert texts_of(path) == texts[: survivors(ends, place)], place


def test_what_was_kept_before_stays_kept(whole, tmp_path):
    raw, _, ends = whole
    path = tmp_path / "store"
    for cut in (ends[4] + 11, ends[2] + 5):
        path.write_bytes(raw[:cut])
        texts_of(path)
    kept = raw[ends[4] : ends[4] + 11] + raw[ends[2] : ends[2] + 5]
    assert (tmp_path / "store.cut").read_bytes() == kept


def test_reading_changes_nothing(whole, tmp_path):
    raw, texts, ends = whole
    path = tmp_path / "store"
    path.write_bytes(raw[: ends[4] + 11])
    store = SuffixStore(path, SHA, read_only=True)
    store.append([1, 2, 3])
    assert [record.tolist() for record in store._records] == texts[:5]
    store.close()
    assert path.read_bytes() == raw[: ends[4] + 11]
    assert not (tmp_path / "store.cut").exists()
    path.write_bytes(raw[: HEADER - 5])
    assert texts_of(path, read_only=True) == []
    assert path.read_bytes() == raw[: HEADER - 5]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"#!/bin/sh\necho hello, this is a script and no store at all\n", {}, "no suffix store"),
        (MAGIC + bytes(32), {}, "written with another tokenizer"),
        (MAGIC[:3], {"read_only": True}, "no suffix store"),
        (None, {"read_only": True}, "cannot be opened"),
    ],
)
def test_what_is_refused_stays_as_it_was(tmp_path, content, options, message):
    path = tmp_path / "store"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        SuffixStore(path, SHA, **options)
    assert path.exists() == (content is not None)
    if content is not None:
        assert path.read_bytes() == content


def test_one_process_writes(tmp_path):
    path = tmp_path / "store"
    store = SuffixStore(path, SHA)
    with pytest.raises(ConfigError, match="in use by another process"):
        SuffixStore(path, SHA)
    store.append([1, 2])
    assert texts_of(path, read_only=True) == [[1, 2]]
    store.close()


def test_the_older_half_goes_when_it_is_full(tmp_path):
    path = tmp_path / "store"
    store = SuffixStore(path, SHA, max_tokens=100)
    texts = [[n] * 20 for n in range(1, 9)]
    for text in texts:
        store.append(text)
        assert len(store) <= 100
    kept = [record.tolist() for record in store._records]
    assert kept == texts[-len(kept) :]
    assert store.continuations([8] * 8, 8, 3)[0] == 8
    assert store.continuations([1] * 8, 8, 3) == (0, [])
    store.append([9] * 3)  # the file that took the old one's place is the one that grows
    store.close()
    assert texts_of(path) == [*kept, [9] * 3]


def test_a_text_longer_than_the_store_is_kept_alone(tmp_path):
    path = tmp_path / "store"
    store = SuffixStore(path, SHA, max_tokens=50)
    for text in ([1] * 20, [2] * 80):
        store.append(text)
    assert store.continuations([2] * 8, 8, 1)[0] == 8
    store.append([3] * 9)
    store.close()
    assert texts_of(path) == [[3] * 9]


def test_texts_are_found_after_they_were_sorted_in(tmp_path):
    store = SuffixStore(tmp_path / "store", SHA)
    for n in range(8):
        store.append(range(10_000 * n, 10_000 * (n + 1)))
    assert len(store) == 80_000
    assert store._index.n_recent < 65_536
    for start in (0, 30_000, 69_000, 79_990):
        assert store.continuations(range(start, start + 8), 8, 1) == (8, [(start + 8,)])
    store.close()


@pytest.mark.parametrize("dropped", [False, True])
def test_a_full_disk_leaves_no_piece_in_the_middle(tmp_path, monkeypatch, dropped):
    path = tmp_path / "store"
    store = SuffixStore(path, SHA, max_tokens=30)
    for n in range(1, 5 if dropped else 3):
        store.append([n] * 10)
    kept = [record.tolist() for record in store._records]
    assert kept == ([[4] * 10] if dropped else [[1] * 10, [2] * 10])
    write_all = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda fd, data: write_all(fd, data[:11]))
        with pytest.raises(OSError, match="wrote 11 of 28 bytes"):
            store.append([9] * 5)
    store.append([6] * 3)
    store.close()
    assert texts_of(path) == [*kept, [6] * 3]
    assert not (tmp_path / "store.cut").exists()


def test_a_full_disk_never_halves_the_store(tmp_path, monkeypatch):
    path = tmp_path / "store"
    store = SuffixStore(path, SHA, max_tokens=30)
    texts = [[n] * 10 for n in range(1, 5)]
    for text in texts[:3]:
        store.append(text)
    write_all = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda fd, data: write_all(fd, data[:60]))
        with pytest.raises(OSError, match="no room to drop its older half"):
            store.append(texts[3])
    assert [file.name for file in tmp_path.iterdir()] == ["store"]
    assert texts_of(path, read_only=True) == texts
    store.append([5] * 2)  # the next one drops it
    store.close()
    assert texts_of(path) == [texts[3], [5] * 2]


def test_parsing_stops_at_the_first_record_that_is_not_whole(whole):
    raw, texts, ends = whole
    records, end = parse_records(raw)
    assert [record.tolist() for record in records] == texts
    assert end == len(raw) == ends[-1]


WRITER = """
import sys
from tandem_jax.drafters.suffix_store import SuffixStore
store = SuffixStore(sys.argv[1], sys.argv[2], max_tokens=int(sys.argv[3]))
for n in range(1, 100000):
    store.append([n] * (1 + 37 * n % 500))
    print(n, flush=True)
"""


@pytest.mark.parametrize("max_tokens", [1 << 30, 2000])
def test_kill_9_while_appending(tmp_path, root, max_tokens):
    """Every text that was said to be stored is there, but for a full store's older ones."""
    path = tmp_path / "store"
    command = [sys.executable, "-c", WRITER, str(path), SHA, str(max_tokens)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)
    with child.stdout as out:
        for _ in range(200):
            out.readline()
        child.send_signal(signal.SIGKILL)
        done = 200 + len(out.read().split())
    child.wait()
    records = texts_of(path)
    first, last = records[0][0], records[-1][0]
    assert last >= done
    assert first == 1 or max_tokens == 2000
    assert sum(map(len, records)) >= min(500, max_tokens)
    assert records == [[n] * (1 + 37 * n % 500) for n in range(first, last + 1)]
