"""The numpy oracle equals transformers' logits, and one tolerance catches each classic mistake."""

from pathlib import Path

import numpy as np
import pytest

from checkpoints import check_dtypes, check_shapes, open_checkpoint
from checkpoints.layouts import dense_shapes, text_config
from checkpoints.synthetic import tensor_values, tiny_dense_config
from tests.models.numpy_forward import MISTAKES, forward, mtp_forward

PARITY = Path(__file__).resolve().parents[1] / "fixtures" / "parity"
CASES = ("dense", "dense_tied", "vl")
MAX_BYTES = 2_000_000
TOLERANCE = 1e-4  # of float32 logits against float64
CATCHES = 1e-3  # the tolerance that must catch every mistake


def load(case):
    """Tensors, text config, prompt and reference arrays of one fixture."""
    checkpoint = open_checkpoint(PARITY / case)
    check_shapes(checkpoint, dense_shapes(checkpoint.config))
    check_dtypes(checkpoint)
    tensors = {name: checkpoint.read(name) for name in checkpoint.tensors}
    with np.load(PARITY / case / "reference.npz") as arrays:
        return tensors, text_config(checkpoint.config), dict(arrays)


@pytest.fixture(scope="module")
def dense():
    return load("dense")


def test_fixtures_stay_small():
    files = [file for file in PARITY.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < MAX_BYTES


@pytest.mark.parametrize("case", CASES)
def test_the_oracle_equals_transformers(case):
    tensors, config, reference = load(case)
    assert reference["ids"].shape == (97,)
    assert reference["logits"].shape == (97, 256)
    logits = forward(tensors, config, reference["ids"]).logits
    assert np.abs(logits - reference["logits"]).max() <= TOLERANCE


def test_the_oracle_equals_transformers_decoding_with_its_cache(dense):
    tensors, config, reference = dense
    logits = forward(tensors, config, reference["ids"]).logits
    assert np.abs(logits - reference["decode_logits"]).max() <= TOLERANCE


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_caught(dense, mistake):
    tensors, config, reference = dense
    wrong = np.abs(
        forward(tensors, config, reference["ids"], mistake=mistake).logits - reference["logits"]
    ).max()
    assert wrong > 10 * CATCHES


def test_all_eleven_mistakes_are_there():
    assert len(set(MISTAKES)) == 11
    with pytest.raises(ValueError, match="unknown mistake"):
        forward({}, {}, np.zeros(1, np.int32), mistake="none")


def test_a_prefix_does_not_see_what_follows(dense):
    tensors, config, reference = dense
    whole = forward(tensors, config, reference["ids"])
    part = forward(tensors, config, reference["ids"][:40])
    assert np.abs(whole.logits[:40] - part.logits).max() < 1e-12
    assert np.abs(whole.hidden[:40] - part.hidden).max() < 1e-12
    assert np.abs(whole.layers[:, :40] - part.layers).max() < 1e-12


def test_the_mtp_head_is_causal_and_uses_each_of_its_inputs():
    config = tiny_dense_config()
    tensors = tensor_values(config, seed=21, mtp=True)
    ids = np.random.default_rng(21).integers(0, 256, 20)
    hidden = forward(tensors, config, ids).hidden[:-1]
    positions = np.arange(1, 20)
    logits, y = mtp_forward(tensors, config, hidden, ids[1:], positions)
    assert logits.shape == (19, 256)
    assert y.shape == (19, 64)
    assert 0.8 < logits.std() < 1.2
    np.testing.assert_array_equal(logits, y @ tensors["lm_head.weight"].astype(np.float64).T)
    prefix, _ = mtp_forward(tensors, config, hidden[:9], ids[1:10], positions[:9])
    assert np.abs(prefix - logits[:9]).max() < 1e-12
    # Rotary scores depend on distances alone: a common shift of all positions changes nothing.
    shifted, _ = mtp_forward(tensors, config, hidden, ids[1:], positions + 7)
    assert np.abs(shifted - logits).max() < 1e-6
    stretched, _ = mtp_forward(tensors, config, hidden, ids[1:], positions * 2)
    other_token, _ = mtp_forward(tensors, config, hidden, (ids[1:] + 1) % 256, positions)
    other_hidden, _ = mtp_forward(tensors, config, hidden[::-1], ids[1:], positions)
    for changed in (stretched, other_token, other_hidden):
        assert np.abs(changed - logits).max() > 10 * CATCHES


def test_the_mtp_head_joins_the_embedding_first():
    config = tiny_dense_config()
    tensors = tensor_values(config, seed=22, mtp=True)
    ids = np.random.default_rng(22).integers(0, 256, 6)
    hidden = forward(tensors, config, ids).hidden[:-1]
    blind = dict(tensors)
    blind["mtp.fc.weight"] = tensors["mtp.fc.weight"].copy()
    blind["mtp.fc.weight"][:, 64:] = 0  # the half that meets the hidden state
    one, _ = mtp_forward(blind, config, hidden, ids[1:], np.arange(1, 6))
    two, _ = mtp_forward(blind, config, -3 * hidden[::-1], ids[1:], np.arange(1, 6))
    np.testing.assert_array_equal(one, two)
