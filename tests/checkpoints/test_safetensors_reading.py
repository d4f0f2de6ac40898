"""Reading agrees with the safetensors library, copies nothing, knows the narrow dtypes."""

import mmap

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

from checkpoints import errors, open_checkpoint
from checkpoints.headers import read_header
from checkpoints.mapped import MappedFile

# What the library itself can write and read through numpy.
LIBRARY_DTYPES = [
    np.dtype(kind)
    for kind in ("bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8")
] + [np.dtype(ml_dtypes.bfloat16)]

# code -> dtype of the view, for the codes that the library cannot give to numpy
NARROW = {
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
}


@st.composite
def arrays(draw):
    dtype = draw(st.sampled_from(LIBRARY_DTYPES))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    n_items = int(np.prod(shape, dtype=np.int64))
    if dtype == np.bool_:
        raw = bytes(draw(st.lists(st.integers(0, 1), min_size=n_items, max_size=n_items)))
    else:
        n_bytes = n_items * dtype.itemsize
        raw = draw(st.binary(min_size=n_bytes, max_size=n_bytes))
    return np.frombuffer(raw, dtype).reshape(shape)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(tensors=st.dictionaries(st.text(min_size=1, max_size=8), arrays(), max_size=6))
def test_reading_equals_the_library(tmp_path, tensors):
    tensors.pop("__metadata__", None)
    file = tmp_path / "m.safetensors"
    save_file(tensors, file, metadata={"format": "pt"})
    infos = read_header(file)
    mapped = MappedFile(file)
    with safe_open(file, framework="numpy") as library:
        assert set(infos) == set(library.keys()) == set(tensors)
        for name, info in infos.items():
            ours, theirs = mapped.view(info), library.get_tensor(name)
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            assert (info.shape, info.dtype) == (theirs.shape, theirs.dtype)
            assert ours.tobytes() == theirs.tobytes() == tensors[name].tobytes()


@pytest.mark.parametrize("code", NARROW)
def test_all_256_codes_of_an_eight_bit_float(code, tmp_path, raw_file):
    header = {"w": {"dtype": code, "shape": [16, 16], "data_offsets": [0, 256]}}
    file = raw_file(tmp_path / "m.safetensors", header, bytes(range(256)))
    info = read_header(file)["w"]
    view = MappedFile(file).view(info)
    assert view.dtype == NARROW[code]
    assert view.view(np.uint8).tobytes() == bytes(range(256))
    floats = view.astype(np.float32).reshape(-1)
    by_hand = {
        "F8_E4M3": {0x01: 2.0**-9, 0x38: 1.0, 0x7E: 448.0, 0xB8: -1.0},
        "F8_E5M2": {0x01: 2.0**-16, 0x3C: 1.0, 0x7B: 57344.0, 0xBC: -1.0},
        "F8_E8M0": {0x00: 2.0**-127, 0x7F: 1.0, 0x80: 2.0, 0xFE: 2.0**127},
    }[code]
    assert {at: floats[at] for at in by_hand} == by_hand


def test_four_bit_codes_come_as_bytes_of_two(tmp_path, raw_file):
    header = {"w": {"dtype": "F4", "shape": [2, 8], "data_offsets": [0, 8]}}
    file = raw_file(tmp_path / "m.safetensors", header, bytes(range(8)))
    info = read_header(file)["w"]
    assert (info.shape, info.dtype, info.code) == ((2, 4), np.dtype(np.uint8), "F4")
    assert MappedFile(file).view(info).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


def owner(array: np.ndarray) -> object:
    """What the array's memory belongs to in the end."""
    base = array.base
    while isinstance(base, np.ndarray):
        base = base.base
    return base.obj if isinstance(base, memoryview) else base


def test_a_view_is_the_mapping_itself(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    values = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(5, np.float16)}
    save_file(values, tmp_path / "model.safetensors")
    checkpoint = open_checkpoint(tmp_path)
    a, b, again = checkpoint.read("a"), checkpoint.read("b"), checkpoint.read("a")
    for view in (a, b):
        assert not view.flags.owndata
        assert not view.flags.writeable
    assert isinstance(owner(a), mmap.mmap)
    assert owner(a) is owner(b)
    assert np.shares_memory(a, again)
    whole = np.frombuffer(owner(a), np.uint8)
    assert np.shares_memory(whole, a)
    info = checkpoint.tensors["a"]
    assert whole[info.start : info.stop].tobytes() == values["a"].tobytes() == a.tobytes()


def test_dropped_pages_read_the_same_again(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    value = np.random.default_rng(0).integers(0, 256, 5 * mmap.PAGESIZE + 17, np.uint8)
    save_file({"w": value, "small": value[:3]}, tmp_path / "model.safetensors")
    checkpoint = open_checkpoint(tmp_path)
    view = checkpoint.read("w")
    for name in ("w", "small"):
        checkpoint.drop_pages(name)
    assert view.tobytes() == value.tobytes()
    assert checkpoint.read("small").tolist() == value[:3].tolist()


def test_a_file_cut_after_opening_is_noticed_before_it_is_touched(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    file = tmp_path / "model.safetensors"
    save_file({"w": np.ones(4096, np.float32)}, file)
    checkpoint = open_checkpoint(tmp_path)
    checkpoint.read("w")
    with file.open("r+b") as stream:
        stream.truncate(100)
    with pytest.raises(errors.FileChangedError, match="100 now"):
        checkpoint.read("w")
    file.unlink()
    with pytest.raises(errors.FileChangedError, match="is gone"):
        checkpoint.read("w")


def test_a_file_changed_between_opening_and_the_first_read_is_noticed(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    file = tmp_path / "model.safetensors"
    save_file({"w": np.ones(4096, np.float32)}, file)
    checkpoint = open_checkpoint(tmp_path)
    with file.open("r+b") as stream:
        stream.truncate(100)
    with pytest.raises(errors.FileChangedError):
        checkpoint.read("w")
