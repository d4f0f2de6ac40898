"""The drafter's training forward against plain loops, and what a block may see."""


import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tools.train.drafter_export import drafter_tensors
from tools.train.drafter_loss import (
    Objective,
    accepted_tokens,
    sample_anchors,
    slot_losses,
    slot_weights,
)
from tools.train.drafter_model import (
    block_hidden,
    candidates,
    context_of,
    head_logits,
    init_drafter,
    lattice_scores,
    two_tap_conv,
    walk,
)
from tools.train.drafter_shapes import DrafterShape

SHAPE = DrafterShape(d_model=32, n_layers=2, d_ffn=48, heads=4, kv_heads=2, d_head=16, block=4,
                     taps=(0, 2), target_layers=4, window=7, rank=4, top_k=4, mask_id=63,
                     vocabulary=64)
LENGTH = 24


@pytest.fixture(scope="module")
def params():
    """Parameters with nothing at its neutral start: norms, convolutions and codebooks drawn."""
    tree = init_drafter(jax.random.key(0), SHAPE)
    leaves, kind = jax.tree.flatten(tree)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    return jax.tree.unflatten(kind, [leaf + 0.1 * jax.random.normal(key, leaf.shape)
                                     for leaf, key in zip(leaves, keys, strict=True)])


@pytest.fixture(scope="module")
def scene():
    """Embedding and head [V D], taps [2 2 T D], segments, anchor tokens and places [2 3]."""
    rng = np.random.default_rng(2)
    embed, head = rng.normal(size=(2, SHAPE.vocabulary, SHAPE.d_model)).astype(np.float32)
    taps = rng.normal(size=(2, 2, LENGTH, SHAPE.d_model)).astype(np.float32)
    segments = np.repeat([[0, 1], [0, 0]], [10, 14], axis=1).astype(np.int32)
    at = np.array([[4, 10, 20], [0, 9, 23]], np.int32)
    token = rng.integers(0, 60, at.shape).astype(np.int32)
    return embed, head, taps, segments, token, at


@jax.jit
def _hidden(params, embed, taps, segments, token, at):
    return block_hidden(params, SHAPE, embed, context_of(params, SHAPE, taps), segments, token, at)


def _norm(x, weight):
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + SHAPE.eps) * weight


def _turn(x, position):
    half = SHAPE.d_head // 2
    angle = position * SHAPE.rope_theta ** (-np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def _loop_conv(base, coefficients, y, side):
    """Row by row and channel by channel; coefficients [R, 2, 2, D/16] of the sublayer's input."""
    out = np.zeros_like(y)
    for row in range(len(y)):
        for channel in range(y.shape[1]):
            group = channel // SHAPE.conv_group
            for tap in range(min(row, 1) + 1):
                weight = base[side, tap, channel] + coefficients[row, side, tap, group]
                out[row, channel] += weight * y[row - tap, channel]
    return out


def _loop_attention(w, x, ctx, first):
    """Attention of block rows x [R D] at first.. over context rows [(position, features)]."""
    heads = SHAPE.heads // SHAPE.kv_heads

    def head(y, name, at, norm, position):
        part = (y @ w(f"self_attn.{name}_proj.weight").T).reshape(-1, SHAPE.d_head)[at]
        return part if norm is None else _turn(_norm(part, w(f"self_attn.{norm}.weight")), position)

    out = np.zeros((len(x), SHAPE.heads, SHAPE.d_head))
    for row in range(len(x)):
        place = first + row
        seen = [(p, y) for p, y in ctx if place - p < SHAPE.window]
        seen += [(first + other, x[other]) for other in range(len(x))]
        for at in range(SHAPE.heads):
            q = head(x[row], "q", at, "q_norm", place)
            keys = np.array([head(y, "k", at // heads, "k_norm", p) for p, y in seen])
            values = np.array([head(y, "v", at // heads, None, p) for p, y in seen])
            weights = np.exp(keys @ q / np.sqrt(SHAPE.d_head))
            out[row, at] = weights @ values / weights.sum()
    return out.reshape(len(x), -1) @ w("self_attn.o_proj.weight").T


def _loop_block(tensors, embed, taps, token, first, begin):
    """One block in float64 from the checkpoint's tensors; its document starts at `begin`."""
    features = _norm(np.concatenate(list(taps), -1) @ tensors["fc.weight"].T,
                     tensors["hidden_norm.weight"])
    ctx = [(p, features[p]) for p in range(begin, first)]
    h = embed[[token] + [SHAPE.mask_id] * (SHAPE.block - 1)].astype(np.float64)
    for layer in range(SHAPE.n_layers):
        def w(name, layer=layer):
            return tensors[f"layers.{layer}.{name}"]

        def mlp(x, w=w):
            gate = x @ w("mlp.gate_proj.weight").T
            up = x @ w("mlp.up_proj.weight").T
            return (gate / (1 + np.exp(-gate)) * up) @ w("mlp.down_proj.weight").T

        def attention(x, w=w):
            return _loop_attention(w, x, ctx, first)

        for norm, conv, sublayer in (("input_layernorm", "attention_conv", attention),
                                     ("post_attention_layernorm", "mlp_conv", mlp)):
            x = _norm(h, w(f"{norm}.weight"))
            delta = (x @ w(f"{conv}.kernel_projection.weight").T).reshape(len(x), 2, 2, -1)
            base = w(f"{conv}.base_kernel")
            y = sublayer(_loop_conv(base, delta, x, 0))
            h = h + _loop_conv(base, delta, y, 1)
    return _norm(h, tensors["norm.weight"])


def test_forward_equals_plain_loops(params, scene):
    embed, _, taps, segments, token, at = scene
    tensors = {name: value.astype(np.float64)
               for name, value in drafter_tensors(params, SHAPE).items()}
    hidden = np.asarray(_hidden(params, embed, taps, segments, token, at))
    for row, anchor in np.ndindex(at.shape):
        first = at[row, anchor]
        begin = 10 if row == 0 and first >= 10 else 0
        wanted = _loop_block(tensors, embed, taps[:, row], token[row, anchor], first, begin)
        np.testing.assert_allclose(hidden[row, anchor], wanted, atol=3e-5, rtol=1e-4)


def test_a_block_sees_only_what_is_before_its_anchor(params, scene):
    embed, _, taps, segments, token, at = scene
    before = np.asarray(_hidden(params, embed, taps, segments, token, at))
    changed = taps.copy()
    changed[:, 0, 4:] = 7.0  # from the first block's anchor on, the next document included
    after = np.asarray(_hidden(params, embed, changed, segments, token, at))
    np.testing.assert_array_equal(after[0, 0], before[0, 0])
    assert np.abs(after[0, 2] - before[0, 2]).max() > 1e-3
    changed = taps.copy()
    changed[:, 0, :10] = 7.0  # the first document, which ends right before the second block
    after = np.asarray(_hidden(params, embed, changed, segments, token, at))
    np.testing.assert_array_equal(after[0, 1:], before[0, 1:])
    changed = taps.copy()
    changed[:, 1, :17] = 7.0  # row 0 of the block at 23 sees keys from 17 on
    after = np.asarray(_hidden(params, embed, changed, segments, token, at))
    np.testing.assert_array_equal(after[1, 2], before[1, 2])
    other = token.copy()
    other[:, 0] += 1
    after = np.asarray(_hidden(params, embed, taps, segments, other, at))
    np.testing.assert_array_equal(after[:, 1:], before[:, 1:])
    assert np.abs(after[:, 0] - before[:, 0]).max() > 1e-3


def test_conv_stops_at_the_border_and_starts_as_the_identity():
    y = jnp.arange(2 * 3 * 32, dtype=jnp.float32).reshape(2, 3, 32)
    two = two_tap_conv(jnp.stack([jnp.full(y.shape, 2.0), jnp.full(y.shape, 10.0)]), y)
    np.testing.assert_array_equal(two[:, 0], 2 * y[:, 0])
    np.testing.assert_array_equal(two[:, 1:], 2 * y[:, 1:] + 10 * y[:, :-1])
    base = np.asarray(init_drafter(jax.random.key(0), SHAPE)["layers"]["mlp_conv"]["base"])
    assert (base[:, :, 0] == 1).all()
    assert (base[:, :, 1] == 0).all()


def test_lattice_and_walk_follow_the_chosen_predecessor(params, scene):
    embed, head, taps, segments, token, at = scene
    hidden = _hidden(params, embed, taps, segments, token, at)[:, :, 1:]
    cand, unary = candidates(params, SHAPE, head, hidden)
    scores = np.asarray(lattice_scores(params, SHAPE, hidden, jnp.asarray(token), cand, unary))
    logits = np.asarray(hidden) @ head.T
    selector = {name: np.asarray(value) for name, value in params["selector"].items()}
    cand = np.asarray(cand)
    np.testing.assert_array_equal(cand[..., 0], logits.argmax(-1))
    np.testing.assert_allclose(unary, np.take_along_axis(logits, cand, -1), atol=1e-4)
    chosen = np.asarray(walk(jnp.asarray(scores)))
    for row, anchor in np.ndindex(at.shape):
        before, taken = [token[row, anchor]] * SHAPE.top_k, 0
        for slot in range(SHAPE.slots):
            r = np.asarray(hidden)[row, anchor, slot] @ selector["hidden"]
            here = cand[row, anchor, slot]
            pairs = (selector["predecessor"][before] * r) @ selector["successor"][here].T
            wanted = logits[row, anchor, slot, here] + pairs
            np.testing.assert_allclose(scores[row, anchor, slot], wanted, atol=1e-4)
            taken = int(np.argmax(scores[row, anchor, slot, taken]))
            assert chosen[row, anchor, slot] == taken
            before = here


def test_anchors_lie_in_written_text_and_targets_in_their_document():
    segments = np.repeat([[0, 1, 2]], [9, 6, 10], axis=1)
    tokens = np.arange(25)[None]
    written = np.ones((1, 25), bool)
    written[0, [0, 1, 2, 3, 9, 10, 17]] = False
    fits = {at for at in range(24) if written[0, at + 1] and segments[0, at] == segments[0, at + 1]}
    at, targets, valid = (np.asarray(x)[0] for x in sample_anchors(
        jax.random.key(0), tokens, segments, jnp.asarray(written), anchors=20, slots=3))
    assert len(set(at.tolist())) == 20
    assert {int(a) for a, ok in zip(at, valid, strict=True) if ok[0]} == fits
    for a, target, ok in zip(at, targets, valid, strict=True):
        good = True
        for slot in range(3):
            place = a + 1 + slot
            good = (good and place < 25 and written[0, place]
                    and segments[0, place] == segments[0, a])
            assert ok[slot] == good
            assert not good or target[slot] == place


def test_slot_losses_inject_the_missing_target(params, scene):
    embed, head, taps, segments, token, at = scene
    hidden = _hidden(params, embed, taps, segments, token, at)[:, :, 1:]
    order = np.argsort(-np.asarray(head_logits(head, hidden)), -1)
    targets = np.where(np.arange(3) == 1, order[..., 30], order[..., 2])  # slot 1 is no candidate
    previous = np.concatenate([token[..., None], targets[..., :-1]], -1)
    nats, choice, cand, _ = (np.asarray(x) for x in jax.jit(
        lambda: slot_losses(params, SHAPE, head, hidden, previous, targets))())
    np.testing.assert_array_equal(cand, order[..., :4])
    logits = np.asarray(head_logits(head, hidden))
    selector = {name: np.asarray(value) for name, value in params["selector"].items()}
    for index in np.ndindex(targets.shape):
        row = logits[index]
        assert nats[index] == pytest.approx(np.log(np.exp(row).sum()) - row[targets[index]], 1e-4)
        ids = order[index][:4].copy()
        if index[-1] == 1:
            ids[3] = targets[index]
        r = np.asarray(hidden)[index] @ selector["hidden"]
        scores = row[ids] + selector["successor"][ids] @ (
            selector["predecessor"][previous[index]] * r)
        right = scores[ids.tolist().index(targets[index])]
        assert choice[index] == pytest.approx(np.log(np.exp(scores).sum()) - right, 1e-4)


def test_slot_weights():
    valid = jnp.asarray([[True, True, True], [True, False, False]])
    weights = slot_weights(Objective(1, "exp", 4.0), jnp.ones((2, 3)), valid)
    np.testing.assert_allclose(weights, [np.exp([0, -0.25, -0.5]), [1, 0, 0]], rtol=1e-6)
    probability = jnp.asarray([[0.5, 0.2, 0.9], [0.4, 0.3, 0.2]])

    def length(logs):
        return jnp.sum(jnp.cumprod(jnp.exp(logs), -1))

    weights = np.asarray(slot_weights(Objective(1, "dpace", 4.0), probability, valid))
    wanted = np.asarray(jax.grad(length)(jnp.log(0.5 + 0.5 * probability[0])))
    np.testing.assert_allclose(weights[0], wanted, rtol=1e-5)
    np.testing.assert_allclose(weights[1], [0.7, 0, 0], rtol=1e-6)


def test_accepted_tokens_count_the_bonus():
    match = jnp.asarray([[[1, 1, 0], [0, 1, 1], [1, 1, 1], [1, 1, 1]]], bool)
    valid = jnp.asarray([[[1, 1, 1], [1, 1, 1], [1, 0, 0], [0, 0, 0]]], bool)
    assert float(accepted_tokens(match, valid)) == pytest.approx((3 + 1 + 2) / 3)
