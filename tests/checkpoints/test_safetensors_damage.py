"""Each way a safetensors file can be damaged gives its own error, naming file, tensor and hint."""

import json
import struct

import pytest

from checkpoints import errors
from checkpoints.dtypes import DTYPES
from checkpoints.headers import MAX_HEADER_BYTES, read_header


def entry(shape, start, stop, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


# name -> (error, header, bytes of data, tensor that the error names)
DAMAGES = {
    "hole before the first": (errors.HoleError, {"a": entry([1], 4, 8)}, 8, "a"),
    "hole between two": (
        errors.HoleError,
        {"a": entry([1], 0, 4), "b": entry([1], 8, 12)},
        12,
        "b",
    ),
    "overlap": (errors.OverlapError, {"a": entry([2], 0, 8), "b": entry([1], 4, 8)}, 8, "b"),
    "same bytes twice": (
        errors.OverlapError,
        {"a": entry([1], 0, 4), "b": entry([1], 0, 4)},
        4,
        "b",
    ),
    "negative shape": (errors.ShapeError, {"a": entry([-1], 0, 4)}, 4, "a"),
    "two negatives": (errors.ShapeError, {"a": entry([-1, -1], 0, 4)}, 4, "a"),
    "overflowing axis": (errors.ShapeError, {"a": entry([2**64], 0, 4)}, 4, "a"),
    "overflowing product": (errors.ShapeError, {"a": entry([2**32, 2**32], 0, 0)}, 0, "a"),
    "overflowing bytes": (errors.ShapeError, {"a": entry([2**62], 0, 4)}, 4, "a"),
    "overflow hidden by a zero": (errors.ShapeError, {"a": entry([2**64, 0], 0, 0)}, 0, "a"),
    "fractional shape": (errors.ShapeError, {"a": entry([1.0], 0, 4)}, 4, "a"),
    "boolean shape": (errors.ShapeError, {"a": entry([True], 0, 4)}, 4, "a"),
    "shape is a number": (errors.ShapeError, {"a": entry(1, 0, 4)}, 4, "a"),
    "odd packed axis": (errors.ShapeError, {"a": entry([3], 0, 2, "F4")}, 2, "a"),
    "packed scalar": (errors.ShapeError, {"a": entry([], 0, 1, "F4")}, 1, "a"),
    "more bytes than the shape": (errors.SizeMismatchError, {"a": entry([1], 0, 8)}, 8, "a"),
    "fewer bytes than the shape": (errors.SizeMismatchError, {"a": entry([3], 0, 8)}, 8, "a"),
    "short data": (errors.TruncatedDataError, {"a": entry([2], 0, 8)}, 7, "a"),
    "trailing bytes": (errors.TrailingBytesError, {"a": entry([1], 0, 4)}, 5, None),
    "data without a tensor": (errors.TrailingBytesError, {}, 1, None),
    "unknown dtype": (errors.UnknownDtypeError, {"a": entry([1], 0, 4, "F6_E2M3")}, 4, "a"),
    "dtype is a number": (errors.UnknownDtypeError, {"a": entry([1], 0, 4, 32)}, 4, "a"),
    "no shape": (errors.TensorEntryError, {"a": {"dtype": "F32", "data_offsets": [0, 4]}}, 4, "a"),
    "foreign field": (errors.TensorEntryError, {"a": entry([1], 0, 4) | {"x": 1}}, 4, "a"),
    "entry is a list": (errors.TensorEntryError, {"a": [1]}, 4, "a"),
    "offsets backwards": (errors.TensorEntryError, {"a": entry([1], 4, 0)}, 4, "a"),
    "negative offset": (errors.TensorEntryError, {"a": entry([1], -4, 0)}, 4, "a"),
    "fractional offset": (errors.TensorEntryError, {"a": entry([1], 0.0, 4)}, 4, "a"),
    "three offsets": (
        errors.TensorEntryError,
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 4]}},
        4,
        "a",
    ),
    "not JSON": (errors.HeaderJsonError, "{not json", 0, None),
    "not UTF-8": (errors.HeaderJsonError, b'{"\xff": 1}', 0, None),
    "NaN": (errors.HeaderJsonError, '{"a": NaN}', 0, None),
    "a number too long to read": (errors.HeaderJsonError, '{"a": ' + "9" * 5000 + "}", 0, None),
    "nested too deeply": (errors.HeaderJsonError, '{"a":' + "[" * 200_000, 0, None),
    "a list": (errors.HeaderJsonError, "[]", 0, None),
    "padding before the object": (errors.HeaderJsonError, " {}", 0, None),
    "two objects": (errors.HeaderJsonError, "{}{}", 0, None),
    "metadata is a list": (errors.HeaderJsonError, {"__metadata__": []}, 0, None),
    "metadata of numbers": (errors.HeaderJsonError, {"__metadata__": {"a": 1}}, 0, None),
    "tensor named twice": (
        errors.DuplicateKeyError,
        '{"a": ' + json.dumps(entry([1], 0, 4)) + ', "a": ' + json.dumps(entry([1], 4, 8)) + "}",
        8,
        "a",
    ),
    "name twice, once escaped": (errors.DuplicateKeyError, '{"a": 1, "\\u0061": 2}', 0, "a"),
    "field named twice": (
        errors.DuplicateKeyError,
        '{"a": {"dtype": "F32", "dtype": "F16", "shape": [1], "data_offsets": [0, 4]}}',
        4,
        "dtype",
    ),
}


def check(error, file, tensor):
    with pytest.raises(errors.HeaderError) as caught:
        read_header(file)
    assert type(caught.value) is error
    assert str(file) in str(caught.value)
    assert caught.value.file == file
    assert caught.value.tensor == tensor
    if tensor is not None:
        assert repr(tensor) in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damage_has_its_own_error(damage, tmp_path, raw_file):
    error, header, n_bytes, tensor = DAMAGES[damage]
    check(error, raw_file(tmp_path / "model.safetensors", header, bytes(n_bytes)), tensor)


LENGTHS = {
    "2^62": (2**62, errors.HeaderLengthError),
    "over 100 MB": (MAX_HEADER_BYTES + 1, errors.HeaderLengthError),
    "one beyond the file": (3, errors.HeaderLengthError),
    "zero": (0, errors.HeaderJsonError),
}


@pytest.mark.parametrize("case", LENGTHS)
def test_header_length_is_checked_before_the_header_is_read(case, tmp_path, raw_file):
    length, error = LENGTHS[case]
    check(error, raw_file(tmp_path / "m.safetensors", "{}", length=length), None)


def test_empty_and_short_files(tmp_path):
    file = tmp_path / "m.safetensors"
    file.write_bytes(b"")
    check(errors.EmptyFileError, file, None)
    for n_bytes in range(1, 8):
        file.write_bytes(bytes(n_bytes))
        check(errors.ShortFileError, file, None)


def test_a_git_lfs_pointer_says_what_to_do(tmp_path):
    file = tmp_path / "m.safetensors"
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    with pytest.raises(errors.LfsPointerError) as caught:
        read_header(file)
    assert caught.value.hint == "run `git lfs pull`"


def test_a_file_that_cannot_be_opened(tmp_path):
    with pytest.raises(errors.UnreadableFileError):
        read_header(tmp_path / "absent.safetensors")
    with pytest.raises(errors.UnreadableFileError):
        read_header(tmp_path)


def test_a_cut_at_every_byte_is_noticed(tmp_path, raw_file):
    file = tmp_path / "m.safetensors"
    header = {
        "__metadata__": {"format": "pt"},
        "a": entry([2, 2], 0, 16),
        "b": entry([3], 16, 22, "BF16"),
        "empty": entry([0], 22, 22),
    }
    whole = raw_file(file, header, bytes(22)).read_bytes()
    assert len(read_header(file)) == 3
    cuts = {}
    for n_bytes in range(len(whole)):
        file.write_bytes(whole[:n_bytes])
        with pytest.raises(errors.HeaderError) as caught:
            read_header(file)
        kind = type(caught.value)
        cuts[kind] = cuts.get(kind, 0) + 1
    assert cuts == {
        errors.EmptyFileError: 1,
        errors.ShortFileError: 7,
        errors.HeaderLengthError: len(whole) - 22 - 8,
        errors.TruncatedDataError: 22,
    }


def test_any_flipped_header_bit_is_an_error_or_still_covers_the_file(tmp_path, raw_file):
    file = tmp_path / "m.safetensors"
    whole = raw_file(file, {"a": entry([2], 0, 8), "b": entry([1], 8, 12)}, bytes(12)).read_bytes()
    header_stop = 8 + struct.unpack("<Q", whole[:8])[0]
    refused = 0
    for bit in range(8 * header_stop):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(flipped)
        try:
            tensors = read_header(file)
        except errors.HeaderError:
            refused += 1
        else:  # a flip inside a name, or to a dtype of the same width
            spans = sorted((info.start, info.stop) for info in tensors.values())
            assert spans == [(header_stop, header_stop + 8), (header_stop + 8, header_stop + 12)]
    assert refused > 0.95 * 8 * header_stop


def test_every_known_dtype_has_a_hint_listing_it(tmp_path, raw_file):
    file = raw_file(tmp_path / "m.safetensors", {"a": entry([1], 0, 4, "F31")}, bytes(4))
    with pytest.raises(errors.UnknownDtypeError, match="'F31'") as caught:
        read_header(file)
    assert all(code in caught.value.hint for code in DTYPES)
