"""The store survives a crash at every byte: at most the unfinished record is lost."""

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


def test_parsing_stops_at_the_first_record_that_is_not_whole(whole):
    raw, texts, ends = whole
    records, end = parse_records(raw)
    assert [record.tolist() for record in records] == texts
    assert end == len(raw) == ends[-1]


WRITER = """
import sys
from tandem_jax.drafters.suffix_store import SuffixStore
store = SuffixStore(sys.argv[1], sys.argv[2])
for n in range(1, 100000):
    store.append([n] * (1 + 37 * n % 500))
    print(n, flush=True)
"""


def test_kill_9_while_appending(tmp_path):
    path = tmp_path / "store"
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), SHA], stdout=subprocess.PIPE, text=True
    )
    with child.stdout as out:
        for _ in range(200):
            out.readline()
        child.send_signal(signal.SIGKILL)
        done = 200 + len(out.read().split())
    child.wait()
    records = texts_of(path)
    assert len(records) >= done
    assert records == [[n] * (1 + 37 * n % 500) for n in range(1, len(records) + 1)]
