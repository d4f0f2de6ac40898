"""Two prefixes, one canonical name; vision is skipped by name, MTP is kept."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from checkpoints import errors, open_checkpoint
from checkpoints.layouts import dense_shapes
from checkpoints.names import canonical_name, is_mtp, is_vision
from checkpoints.synthetic import tiny_dense_config, tiny_vl_config, write_checkpoint

CANONICAL = {
    "model.language_model.layers.0.mlp.up_proj.weight": "layers.0.mlp.up_proj.weight",
    "model.layers.0.mlp.up_proj.weight": "layers.0.mlp.up_proj.weight",
    "layers.0.mlp.up_proj.weight": "layers.0.mlp.up_proj.weight",
    "model.language_model.embed_tokens.weight": "embed_tokens.weight",
    "model.norm.weight": "norm.weight",
    "lm_head.weight": "lm_head.weight",
    "mtp.fc.weight": "mtp.fc.weight",
    "mtp.layers.0.self_attn.q_norm.weight": "mtp.layers.0.self_attn.q_norm.weight",
}


def test_canonical_names():
    assert {name: canonical_name(name) for name in CANONICAL} == CANONICAL
    assert all(canonical_name(name) == name for name in CANONICAL.values())


def test_vision_and_mtp_are_told_by_name():
    vision = ["model.visual.pos_embed.weight", "visual.merger.norm.bias"]
    text = ["model.language_model.visualise.weight", "model.norm.weight"]
    assert [is_vision(name) for name in vision + text] == [True, True, False, False]
    mtp = ["mtp.fc.weight", "model.mtp.fc.weight"]
    assert [is_mtp(name) for name in [*mtp, "model.layers.0.mtp.weight"]] == [True, True, False]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_two_prefixes_give_equal_tensors(tmp_path, dtype):
    text = open_checkpoint(
        write_checkpoint(tmp_path / "text", tiny_dense_config(), seed=5, dtype=dtype, mtp=True)
    )
    vl = open_checkpoint(
        write_checkpoint(
            tmp_path / "vl",
            tiny_vl_config(),
            seed=5,
            prefix="model.language_model.",
            dtype=dtype,
            mtp=True,
            vision=True,
            shards=2,
        )
    )
    assert set(text.tensors) == set(vl.tensors) == set(dense_shapes(text.config, mtp=True))
    for name in text.tensors:
        a, b = text.read(name), vl.read(name)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.tobytes() == b.tobytes()
    assert text.skipped == ()
    assert len(vl.skipped) == 2 * 12 + 6 + 2 + 1
    assert all(name.startswith("model.visual.") for name in vl.skipped)
    assert text.n_bytes == vl.n_bytes


def test_a_name_doubled_by_the_prefix_is_an_error(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    one = np.ones(1, np.float32)
    names = ("model.norm.weight", "model.language_model.norm.weight")
    save_file(dict.fromkeys(names, one), tmp_path / "model.safetensors")
    with pytest.raises(errors.DoubledNameError) as caught:
        open_checkpoint(tmp_path)
    assert all(name in str(caught.value) for name in names)
    assert caught.value.hint == "keep one of the two copies"


def test_vision_tensors_do_not_clash_with_text(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    one = np.ones(1, np.float32)
    names = ("model.visual.norm.weight", "visual.norm.weight", "model.norm.weight")
    save_file(dict.fromkeys(names, one), tmp_path / "model.safetensors")
    checkpoint = open_checkpoint(tmp_path)
    assert list(checkpoint.tensors) == ["norm.weight"]
    assert sorted(checkpoint.skipped) == sorted(names[:2])
