"""Chains of the MTP head, teacher-forced: a chain of four behind every token of a row at once.

Row t of depth 1 joins the target's hidden state h_t with token t+1 and speaks of token t+2. Depth
d joins depth d - 1's own normed output with token t+d and speaks of token t+d+1; it attends to the
depth-1 rows up to t and to its own chain, as the served drafter does. Letters: B rows, T tokens,
D width, H query heads, G key/value heads, K head width.
"""

import jax
import jax.numpy as jnp

from tools.train.drafter_model import NEVER, dot, rotate
from tools.train.loss import ROWS_PER_BLOCK
from tools.train.model import logits_of, rms_norm
from tools.train.shapes import ModelShape


def _attend(q, keys, values, chain_keys, chain_values, visible):
    """Return attention [B T H K] of q over depth-1 rows [B T G K] and chain rows [E B T G K].

    Chain row e of token t is seen by token t alone; visible [B T T].
    """
    rows, length, heads, width = q.shape
    groups = keys.shape[2]
    q = q.reshape(rows, length, groups, heads // groups, width)
    far = jnp.einsum("btghk,bsgk->bghts", q, keys, preferred_element_type=jnp.float32)
    near = jnp.einsum("btghk,ebtgk->bghte", q, chain_keys, preferred_element_type=jnp.float32)
    far = jnp.where(visible[:, None, None], far * width**-0.5, NEVER)
    weights = jax.nn.softmax(jnp.concatenate([far, near * width**-0.5], -1), -1)
    weights = weights.astype(q.dtype)
    out = (jnp.einsum("bghts,bsgk->btghk", weights[..., :length], values)
           + jnp.einsum("bghte,ebtgk->btghk", weights[..., length:], chain_values))
    return out.reshape(rows, length, heads, width)


def _step(p, embedded, hidden, position, earlier, visible, s: ModelShape):
    """Return (normed output [B T D], keys, values) of one depth.

    earlier = (depth-1 keys, values, chain keys, chain values), or None at depth 1.
    """
    x = dot(jnp.concatenate([rms_norm(embedded, p["embed_norm"], s.eps),
                             rms_norm(hidden, p["hidden_norm"], s.eps)], -1), p["fc"])
    layer = p["layer"]
    y = rms_norm(x, layer["input_norm"], s.eps)
    shape = (*y.shape[:2], -1)
    q, gate = jnp.split(dot(y, layer["q"]).reshape(*shape, 2 * s.d_head), 2, -1)
    k, v = (dot(y, layer[name]).reshape(*shape, s.d_head) for name in ("k", "v"))
    q, k = (rotate(rms_norm(part, layer[norm], s.eps), position, s.rope_theta, s.d_rotary)
            for part, norm in ((q, "q_norm"), (k, "k_norm")))
    if earlier is None:
        keys, values, chain = k, v, (k[None][:0], v[None][:0])  # no chain row yet
    else:
        keys, values, *chain = earlier
        chain = [jnp.concatenate([old, new[None]]) for old, new in zip(chain, (k, v), strict=True)]
    out = jax.checkpoint(_attend)(q, keys, values, *chain, visible)
    out = (out * jax.nn.sigmoid(gate)).reshape(*shape[:2], -1)
    x = x + dot(out, layer["o"])
    y = rms_norm(x, layer["post_norm"], s.eps)
    mlp = layer["mlp"]
    x = x + dot(jax.nn.silu(dot(y, mlp["gate"])) * dot(y, mlp["up"]), mlp["down"])
    return rms_norm(x, p["norm"], s.eps), (keys, values, *chain)


def chain_hidden(p, embed, hidden, following, segments, s: ModelShape):
    """Return the head's normed outputs [depths B T D] of chains behind hidden [B T D].

    p is the tree's "mtp"; following [depths B T] holds token t + d of each depth d = 1, 2, ...
    """
    at = jnp.arange(hidden.shape[1])
    visible = (at[:, None] >= at) & (segments[:, :, None] == segments[:, None, :])
    embedding, earlier, out = embed.astype(hidden.dtype), None, []
    for depth, tokens in enumerate(following, 1):
        hidden, earlier = _step(p, embedding[tokens], hidden, at + depth, earlier, visible, s)
        out.append(hidden)
    return jnp.stack(out)


def nats_and_hits(head, hidden, targets):
    """Return nats and whether the argmax is right, [B T] each, of hidden [B T D], in blocks."""
    @jax.checkpoint
    def block(inputs):
        logits = logits_of({"embed": head}, inputs[0])
        picked = jnp.take_along_axis(logits, inputs[1][..., None], -1)[..., 0]
        return jax.nn.logsumexp(logits, -1) - picked, jnp.argmax(logits, -1) == inputs[1]

    rows = hidden.shape[0]
    size = next(size for size in range(min(ROWS_PER_BLOCK, rows), 0, -1) if rows % size == 0)
    shaped = jax.tree.map(lambda x: x.reshape(rows // size, size, *x.shape[1:]), (hidden, targets))
    return jax.tree.map(lambda x: x.reshape(rows, -1), jax.lax.map(block, shaped))
