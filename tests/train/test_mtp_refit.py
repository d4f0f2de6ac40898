"""The MTP refit: chains equal the head run along one chain; only mtp.* changes; the loss falls."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from checkpoints import open_checkpoint
from checkpoints.writing import save_tensors
from tools.train.batches import TokenIds
from tools.train.clocked import Clock, curves, new_content, train_by_clock
from tools.train.drafter_data import GeneratedRows
from tools.train.export import stored_tensors
from tools.train.model import init_params, mtp_forward
from tools.train.mtp_chain import chain_hidden
from tools.train.mtp_refit import NAMES, RefitPlan, refit_job, stores_nvfp4, write_checkpoint
from tools.train.optimizer import make_optimizer
from tools.train.shapes import ModelShape, hf_config

VOCABULARY = 96
SHAPE = ModelShape(d_model=32, n_layers=4, d_ffn=64, key_heads=1, value_heads=3, d_delta=32,
                   query_heads=2, kv_heads=1, d_head=32, vocabulary=VOCABULARY)
LENGTH = 64


@pytest.fixture(scope="module")
def params():
    return init_params(jax.random.key(0), SHAPE)


@pytest.fixture(scope="module")
def rows():
    """[24, T+1] rows of two documents each, a counting pattern that a head can learn."""
    rng = np.random.default_rng(1)
    first = rng.integers(0, 8, (24, 2, 1)) * 8
    tokens = (first + np.arange(33) % 8).reshape(24, -1)[:, :LENGTH + 1]
    tokens[:, 30] = VOCABULARY - 1
    written = np.ones(tokens.shape, bool)
    written[:, :4] = False
    return tokens.astype(np.uint16), written


def test_chain_equals_the_head_run_along_each_chain(params):
    rng = np.random.default_rng(2)
    length, depths = 12, 4
    hidden = jnp.asarray(rng.normal(size=(1, length, SHAPE.d_model)), jnp.float32)
    tokens = rng.integers(0, VOCABULARY, (1, length + depths))
    following = np.stack([tokens[:, d:d + length] for d in range(1, depths + 1)])
    segments = jnp.asarray(np.repeat([[0, 1]], [5, 7], axis=1))
    chain = np.asarray(chain_hidden(params["mtp"], params["embed"], hidden, jnp.asarray(following),
                                    segments, SHAPE))
    along = jax.jit(lambda *arguments: mtp_forward(params, *arguments, SHAPE))
    for t in (0, 4, 5, 11):
        begin, states = (0 if t < 5 else 5), hidden[:, :t + 1]
        for depth in range(1, depths + 1):
            # Padded to one length, so that it is compiled once; the head is causal.
            rest = length + depths - states.shape[1]
            own = jnp.asarray(np.arange(length + depths) < begin, jnp.int32)[None]
            out = along(jnp.pad(states, ((0, 0), (0, rest), (0, 0))),
                        jnp.asarray(np.pad(tokens[:, 1:], ((0, 0), (0, 1)))), own)
            last = out[:, t + depth - 1]
            np.testing.assert_allclose(chain[depth - 1, :, t], last, atol=2e-5, rtol=1e-4)
            states = jnp.concatenate([states, last[:, None]], 1)


@pytest.fixture(scope="module", params=["bfloat16", "nvfp4"])
def refitted(request, params, rows, tmp_path_factory):
    """Folder of the target, folder of the refitted target, curves of 30 steps."""
    folder, nvfp4 = tmp_path_factory.mktemp(request.param), request.param == "nvfp4"
    target_folder, out = folder / "target", folder / "out"
    target_folder.mkdir()
    config = hf_config(SHAPE, end_of_text=VOCABULARY - 1, pad=0, nvfp4=nvfp4)
    (target_folder / "config.json").write_text(json.dumps(config))
    save_tensors(stored_tensors(params, SHAPE, nvfp4=nvfp4), target_folder / "model.safetensors")
    assert stores_nvfp4(target_folder) == nvfp4
    plan = RefitPlan(shape=SHAPE, ids=TokenIds(VOCABULARY - 1, 1, 2, 3), rows=4, optimizer="adamw",
                     dtype=jnp.dtype("float32"), nvfp4=nvfp4, seed=1)
    target = {key: value for key, value in params.items() if key != "mtp"}
    data = GeneratedRows(jnp.asarray(rows[0]), jnp.asarray(rows[1]), 4, {})
    job = refit_job(plan, target, data)
    content = train_by_clock(job, new_content(jax.tree.map(jnp.copy, params["mtp"]),
                                              make_optimizer("adamw"), NAMES),
                             Clock(60.0, 30, 1e-2), folder / "state.pickle",
                             say=lambda text: None)
    write_checkpoint(target_folder, {**target, "mtp": content["params"]}, SHAPE, out)
    return target_folder, out, curves(job, content)


def test_only_the_head_changes(refitted):
    before, after = (open_checkpoint(folder) for folder in refitted[:2])
    assert before.tensors.keys() == after.tensors.keys()
    assert before.config == after.config
    changed = set()
    for name, info in before.tensors.items():
        assert (info.dtype, info.shape) == (after.tensors[name].dtype, after.tensors[name].shape)
        if before.read(name).tobytes() != after.read(name).tobytes():
            changed.add(name)
    assert changed
    assert all(name.startswith("mtp.") for name in changed)
    assert "mtp.fc.weight" in changed
    assert "mtp.layers.0.self_attn.q_proj.weight" in changed


def test_loss_falls_at_every_depth(refitted):
    found = refitted[2]
    assert found["step"] == list(range(1, 31))
    for depth in range(1, 5):
        losses = found[f"loss_{depth}"]
        assert abs(losses[0] - np.log(VOCABULARY)) < 0.3
        assert losses[-1] < losses[0] - 0.4
    assert found["accepted"][-1] > found["accepted"][0]
    assert 1.0 <= max(found["accepted"]) <= 5.0
