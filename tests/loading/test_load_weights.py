"""What loading puts on the device: values, dtypes, both prefixes, tied heads, MTP, progress."""

import json

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from checkpoints.synthetic import tensor_values, tiny_dense_config, tiny_vl_config, write_checkpoint
from tandem_jax.loading import load_model
from tandem_jax.quant.dense import Dense

VL = "model.language_model."
INDEX = "model.safetensors.index.json"


def assert_equal_trees(a, b):
    """Same structure, dtypes and bits."""
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for left, right in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(np.asarray(left), np.asarray(right))


def test_every_tensor_lands_where_it_belongs(tmp_path):
    config = tiny_dense_config()
    model = load_model(write_checkpoint(tmp_path / "ck", config, seed=2, mtp=True))
    values, w = tensor_values(config, seed=2, mtp=True), model.weights
    same = np.testing.assert_array_equal
    same(w.embed, values["embed_tokens.weight"])
    same(w.norm, values["norm.weight"])
    same(w.head.w, values["lm_head.weight"])
    for place, layer in enumerate((0, 1, 2)):
        at = f"layers.{layer}.linear_attn."
        same(w.delta.norm[place], values[f"layers.{layer}.input_layernorm.weight"])
        same(w.delta.qkv.w[place], values[at + "in_proj_qkv.weight"])
        same(w.delta.z.w[place], values[at + "in_proj_z.weight"])
        same(w.delta.a.w[place], values[at + "in_proj_a.weight"])
        same(w.delta.b.w[place], values[at + "in_proj_b.weight"])
        same(w.delta.conv[place], values[at + "conv1d.weight"][:, 0])
        same(w.delta.a_log[place], values[at + "A_log"])
        same(w.delta.dt_bias[place], values[at + "dt_bias"])
        same(w.delta.out_norm[place], values[at + "norm.weight"])
        same(w.delta.out.w[place], values[at + "out_proj.weight"])
    mixers = [("layers.3.", jax.tree.map(lambda a: a[0], w.attention))]
    mixers.append(("mtp.layers.0.", w.mtp.attention))
    for at, mixer in mixers:
        same(mixer.norm, values[at + "input_layernorm.weight"])
        same(mixer.q.w, values[at + "self_attn.q_proj.weight"])
        same(mixer.k.w, values[at + "self_attn.k_proj.weight"])
        same(mixer.v.w, values[at + "self_attn.v_proj.weight"])
        same(mixer.q_norm, values[at + "self_attn.q_norm.weight"])
        same(mixer.k_norm, values[at + "self_attn.k_norm.weight"])
        same(mixer.out.w, values[at + "self_attn.o_proj.weight"])
    blocks = [(f"layers.{i}.", jax.tree.map(lambda a, i=i: a[i], w.mlp)) for i in range(4)]
    for at, mlp in [*blocks, ("mtp.layers.0.", w.mtp.mlp)]:
        same(mlp.norm, values[at + "post_attention_layernorm.weight"])
        same(mlp.gate.w, values[at + "mlp.gate_proj.weight"])
        same(mlp.up.w, values[at + "mlp.up_proj.weight"])
        same(mlp.down.w, values[at + "mlp.down_proj.weight"])
    same(w.mtp.norm_embed, values["mtp.pre_fc_norm_embedding.weight"])
    same(w.mtp.norm_hidden, values["mtp.pre_fc_norm_hidden.weight"])
    same(w.mtp.norm, values["mtp.norm.weight"])
    same(w.mtp.fc.w, values["mtp.fc.weight"])
    assert sum(leaf.size for leaf in jax.tree.leaves(w)) == sum(v.size for v in values.values())


def test_prefixes_shards_and_vision_change_nothing(tmp_path, small):
    vision = tiny_vl_config(num_hidden_layers=2, layer_types=small()["layer_types"])
    plain = load_model(write_checkpoint(tmp_path / "a", small(), seed=3))
    nested = load_model(
        write_checkpoint(tmp_path / "b", vision, seed=3, prefix=VL, vision=True, shards=3)
    )
    assert plain.config.family == "Qwen3_5ForCausalLM"
    assert nested.config.family == "Qwen3_5ForConditionalGeneration"
    assert len(nested.checkpoint.skipped) > 0
    assert (plain.warnings, nested.warnings) == ((), ())
    assert_equal_trees(plain.weights, nested.weights)


def test_bfloat16_weights_keep_the_decay_in_float32(tmp_path, small):
    stored = load_model(
        write_checkpoint(tmp_path / "a", small(), seed=4, dtype="bfloat16"), "bfloat16"
    )
    rounded = load_model(write_checkpoint(tmp_path / "b", small(), seed=4), "bfloat16")
    leaves = jax.tree_util.tree_leaves_with_path(rounded.weights)
    wide = {jax.tree_util.keystr(path) for path, leaf in leaves if leaf.dtype == jnp.float32}
    assert wide == {".delta.a_log", ".delta.dt_bias"}
    assert {str(leaf.dtype) for _, leaf in leaves} == {"float32", "bfloat16"}
    values = tensor_values(small(), seed=4)
    exact = values["layers.0.linear_attn.A_log"]
    np.testing.assert_array_equal(rounded.weights.delta.a_log[0], exact)
    low = exact.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(stored.weights.delta.a_log[0], low)
    embed = values["embed_tokens.weight"].astype(ml_dtypes.bfloat16)
    for model in (stored, rounded):
        np.testing.assert_array_equal(np.asarray(model.weights.embed), embed)


def test_files_of_mixed_dtypes(directory, edit_tensors):
    """Releases differ in the dtype of A_log and of the DeltaNet norm."""
    exact = load_model(directory)

    def mix(tensors):
        for name in tensors:
            if name.endswith(("A_log", "linear_attn.norm.weight")):
                tensors[name] = tensors[name].astype(ml_dtypes.bfloat16)
            elif name.endswith("lm_head.weight"):
                tensors[name] = tensors[name].astype(np.float16)

    edit_tensors(directory, mix)
    mixed = load_model(directory)
    assert mixed.weights.delta.out_norm.dtype == mixed.weights.head.w.dtype == jnp.float32
    np.testing.assert_allclose(mixed.weights.head.w, exact.weights.head.w, rtol=1e-3, atol=1e-6)
    np.testing.assert_array_equal(mixed.weights.embed, exact.weights.embed)


def test_the_files_may_change_after_the_load(directory):
    """The weights are copies: the mapping does not outlive the load."""
    model = load_model(directory)
    before = jax.tree.map(lambda a: np.array(a, copy=True), model.weights)
    file = directory / "model.safetensors"
    size = file.stat().st_size
    with file.open("r+b") as stream:
        stream.write(b"\xff" * size)
    assert_equal_trees(model.weights, jax.tree.map(jnp.asarray, before))


def test_tied_and_untied_heads(tmp_path, small):
    untied = load_model(write_checkpoint(tmp_path / "a", small(), seed=5))
    tied = load_model(write_checkpoint(tmp_path / "b", small(tie_word_embeddings=True), seed=5))
    assert isinstance(untied.weights.head, Dense)
    assert (tied.weights.head, tied.config.tied) == (None, True)
    assert_equal_trees(untied.weights.embed, tied.weights.embed)


def test_the_stored_copy_of_a_tied_head_is_ignored_and_told(tmp_path, small, edit_tensors):
    directory = write_checkpoint(tmp_path / "ck", small(tie_word_embeddings=True), seed=5)
    plain = load_model(directory)

    def store_head(tensors):
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].copy()

    edit_tensors(directory, store_head)
    model = load_model(directory)
    assert_equal_trees(model.weights, plain.weights)
    (warning,) = model.warnings
    assert "lm_head.weight" in warning
    assert "tie_word_embeddings" in warning


def test_an_mtp_head_that_is_announced_but_absent(tmp_path, small):
    directory = write_checkpoint(tmp_path / "ck", small(mtp_num_hidden_layers=1), seed=6)
    model = load_model(directory)
    assert (model.config.mtp, model.weights.mtp) == (False, None)
    (warning,) = model.warnings
    assert "MTP head" in warning


def test_an_mtp_head_that_is_there_but_not_announced(directory):
    config = json.loads((directory / "config.json").read_text())
    del config["mtp_num_hidden_layers"]
    (directory / "config.json").write_text(json.dumps(config))
    model = load_model(directory)
    assert model.config.mtp
    assert model.weights.mtp.fc.w.shape == (64, 128)


def test_an_index_without_the_mtp_keys(tmp_path, small):
    directory = write_checkpoint(tmp_path / "ck", small(), seed=7, mtp=True, shards=2)
    whole = load_model(directory)
    index = json.loads((directory / INDEX).read_text())
    kept = {k: v for k, v in index["weight_map"].items() if not k.startswith("mtp.")}
    assert len(index["weight_map"]) - len(kept) == 15
    (directory / INDEX).write_text(json.dumps({**index, "weight_map": kept}))
    model = load_model(directory)
    assert model.config.mtp
    assert_equal_trees(model.weights, whole.weights)
    (warning,) = model.warnings
    assert "omits 15 mtp.* tensors" in warning


@pytest.mark.parametrize(("mtp", "total"), [(False, 28), (True, 43)])
def test_progress_counts_every_tensor(tmp_path, small, mtp, total):
    calls = []
    directory = write_checkpoint(tmp_path / "ck", small(), seed=8, mtp=mtp)
    model = load_model(directory, progress=lambda *call: calls.append(call))
    assert {(phase, n) for phase, _, n in calls} == {("load", total)}
    assert len(model.checkpoint.tensors) == total
    done = [count for _, count, _ in calls]
    assert done == sorted(set(done))
    assert done[-1] == total
    assert done[0] == 1
