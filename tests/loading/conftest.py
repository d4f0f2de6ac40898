"""Tiny checkpoints on disk, and a guard that sees any use of device memory."""

import gc

import jax
import pytest
from safetensors.numpy import load_file, save_file

from checkpoints.synthetic import tiny_dense_config, write_checkpoint
from tandem_jax import loading
from tandem_jax.models.config import FULL, LINEAR

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="session")
def small():
    """small(**overrides): a config of one layer of each kind."""

    def build(**overrides):
        return tiny_dense_config(num_hidden_layers=2, layer_types=[LINEAR, FULL], **overrides)

    return build


@pytest.fixture
def directory(tmp_path, small):
    """A sound checkpoint with an MTP head, to be damaged."""
    return write_checkpoint(tmp_path / "ck", small(), seed=1, mtp=True)


@pytest.fixture(scope="session")
def edit_tensors():
    """edit_tensors(directory, edit): rewrite the weights after `edit` changed their dict."""

    def rewrite(directory, edit):
        tensors = load_file(directory / WEIGHTS)
        edit(tensors)
        save_file(tensors, directory / WEIGHTS)

    return rewrite


@pytest.fixture
def no_device_memory(monkeypatch):
    """Fails the test if a leaf is loaded or if more device arrays are alive afterwards."""
    gc.collect()
    before = len(jax.live_arrays())

    def loaded(*_):
        raise AssertionError("a weight was put on the device")

    monkeypatch.setattr(loading, "_load_leaf", loaded)
    yield
    gc.collect()
    assert len(jax.live_arrays()) <= before
