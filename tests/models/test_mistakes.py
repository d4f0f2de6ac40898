"""Each of the eleven classic mistakes, made in our JAX model, is caught by the parity tolerance.

A mistake is an edit of the weights or the config where that says the same, else a patch of one
small function. The wrong logits must also equal those of the oracle making the same mistake, so
the test shows that the mistake was really made, on the prefill path and on the row path.
"""

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import pytest

from pallas_kernels.delta_scan import walk, wy
from pallas_kernels.delta_scan.inverse import unit_lower_inverse
from tandem_jax.loading import open_model
from tandem_jax.models import attention, delta_net
from tandem_jax.models.norms import unit_rms
from tandem_jax.quant.dense import Dense
from tests.models.jax_forward import PARITY, Runner, largest, load_parity
from tests.models.numpy_forward import MISTAKES, forward

CATCHES = 1e-3  # the tolerance that must catch every mistake
SAME = 1e-4  # of our mistaken logits against the oracle's


@dataclass(frozen=True)
class Model:
    """The fixture `dense`, to be spoilt."""

    config: object
    weights: object
    reference: dict  # arrays of transformers
    oracle: object  # mistake or None -> logits [T, V] float64

    def spoilt(self, mistake, monkeypatch):
        """A Runner of the model with this mistake; it traces every function anew."""
        config, weights = MAKE[mistake](self.config, self.weights, monkeypatch)
        return Runner(config, weights, page=128, quick=True)


@pytest.fixture(scope="module")
def dense():
    config, weights, reference = load_parity("dense")
    opened, _, _, _ = open_model(PARITY / "dense")
    tensors = {name: opened.read(name) for name in opened.tensors}

    def oracle(mistake):
        return forward(tensors, opened.config, reference["ids"], mistake=mistake).logits

    return Model(config, weights, reference, oracle)


# Mistakes that an edit of the weights or the config expresses: (config, weights) of the wrong model


def norms_multiply_by_w(config, weights, _):
    def less_one(part):
        return replace(part, norm=part.norm - 1.0)

    kinds = ("delta", "attention", "mlp")
    parts = {name: less_one(getattr(weights, name)) for name in kinds}
    return config, replace(weights, norm=weights.norm - 1.0, **parts)


def delta_norm_around_one(config, weights, _):
    delta = replace(weights.delta, out_norm=weights.delta.out_norm + 1.0)
    return config, replace(weights, delta=delta)


def query_and_gate_as_blocks(config, weights, _):
    """Rows read as all queries and then all gates."""
    shape, w = config.attention, weights.attention.q.w
    layers, _, inner = w.shape
    blocks = w.reshape(layers, 2, shape.heads, shape.width, inner)
    per_head = jnp.swapaxes(blocks, 1, 2).reshape(w.shape)
    mixer = replace(weights.attention, q=Dense(per_head))
    return config, replace(weights, attention=mixer)


def taps_reversed(config, weights, _):
    delta = replace(weights.delta, conv=weights.delta.conv[..., ::-1])
    return config, replace(weights, delta=delta)


def rotary_full_width(config, weights, _):
    shape = replace(config.attention, rotary=config.attention.width)
    return replace(config, attention=shape), weights


# Mistakes in the code


def query_unscaled(shape, c, *, right=delta_net.split_heads):
    q, k, v = right(shape, c)
    return q * shape.key_dim**0.5, k, v


def heads_tiled(shape, x):
    return jnp.tile(x, (1,) * (x.ndim - 2) + (shape.value_heads // shape.key_heads, 1))


def late_decay_step(s, k, v, g, beta):
    u = beta[:, None] * (v - jnp.sum(s * k[:, :, None], axis=1))
    return s * jnp.exp(g)[:, None, None] + k[:, :, None] * u[:, None, :]


def late_decay_wy(q, k, v, g, beta, s0, ancestors):
    """`tree_wy` of a chain whose corrections read the state before the token's own decay."""
    einsum = partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)
    strict = jnp.tril(jnp.ones_like(ancestors), -1)
    gates = jnp.cumsum(g, axis=0)
    before = (gates - g).T
    gap = jnp.where(strict[None], before[:, :, None] - gates.T[:, None, :], 0.0)
    decay = jnp.where(strict[None], jnp.exp(gap), 0.0)
    a = beta.T[:, :, None] * decay * einsum("thk,jhk->htj", k, k)
    read = jnp.exp(before).T[:, :, None] * einsum("thk,hkv->thv", k, s0)
    u = einsum("htj,jhv->thv", unit_lower_inverse(a), beta[:, :, None] * (v - read))
    m = wy._masked_decay(gates.T, ancestors) * einsum("thk,jhk->htj", q, k)
    o = jnp.exp(gates)[:, :, None] * einsum("thk,hkv->thv", q, s0)
    return o + einsum("htj,jhv->thv", m, u), u, gates


def sigmoid_on_z(x, w, gate, eps):
    scale = w.reshape((1,) * (x.ndim - 1) + w.shape)
    return unit_rms(x, eps) * scale * jax.nn.sigmoid(gate)


def silu_gate(o, gate):
    return o * jax.nn.silu(gate)


def rotate_neighbours(x, cos, sin):
    width = 2 * cos.shape[-1]
    cos, sin = cos[:, None], sin[:, None]
    a, b = x[..., 0:width:2], x[..., 1:width:2]
    turned = jnp.stack([a * cos - b * sin, b * cos + a * sin], axis=-1)
    return jnp.concatenate([turned.reshape(*x.shape[:-1], width), x[..., width:]], axis=-1)


def patched(*places):
    """Weights and config stay; each (module, name, function) is patched in."""

    def make(config, weights, monkeypatch):
        for module, name, function in places:
            monkeypatch.setattr(module, name, function)
        return config, weights

    return make


MAKE = {
    "layer norm multiplies by w": norms_multiply_by_w,
    "DeltaNet norm multiplies by 1 + w": delta_norm_around_one,
    "query and gate as two blocks": query_and_gate_as_blocks,
    "convolution taps reversed": taps_reversed,
    "query without 1/sqrt(key width)": patched((delta_net, "split_heads", query_unscaled)),
    "key heads tiled": patched((delta_net, "serve_value_heads", heads_tiled)),
    "decay after the read": patched(
        (walk, "delta_update", late_decay_step), (wy, "tree_wy", late_decay_wy)
    ),
    "sigmoid on z": patched((delta_net, "gated_norm", sigmoid_on_z)),
    "silu on the attention gate": patched((attention, "output_gate", silu_gate)),
    "rotary over the full width": rotary_full_width,
    "rotary pairs interleaved": patched((attention, "rotate", rotate_neighbours)),
}


def test_every_mistake_of_the_oracle_is_made_here():
    assert tuple(MAKE) == MISTAKES
    assert len(MAKE) == 11


def test_the_right_model_passes_in_the_same_runs(dense):
    """Without a mistake these runs agree, so what the next tests see is the mistake."""
    runner = Runner(dense.config, dense.weights, page=128, quick=True)
    ids, wanted = dense.reference["ids"], dense.reference["logits"]
    logits, _ = runner.prefill(ids, runner.state())
    assert largest(logits, wanted) <= CATCHES / 10
    assert largest(runner.decode(ids, 32), wanted) <= CATCHES / 10
    assert largest(dense.oracle(None), wanted) <= CATCHES / 10


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_caught_on_both_paths(dense, mistake, monkeypatch):
    ids, right = dense.reference["ids"], dense.reference["logits"]
    wrong = dense.oracle(mistake)
    measured = largest(wrong, right)
    runner = dense.spoilt(mistake, monkeypatch)
    prefilled, _ = runner.prefill(ids, runner.state())
    for logits in (prefilled, runner.decode(ids, 32)):
        assert largest(logits, right) > CATCHES
        assert largest(logits, right) >= measured / 3
        assert largest(logits, wrong) <= SAME


def test_the_mistakes_leave_no_trace(dense):
    """A fresh Runner after all patches is right again: nothing wrong stayed in a jit cache."""
    runner = Runner(dense.config, dense.weights, page=128, quick=True)
    ids = dense.reference["ids"][:16]
    assert largest(runner.decode(ids, 32), dense.reference["logits"][:16]) <= CATCHES / 10
