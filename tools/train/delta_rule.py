"""The gated delta rule, sequentially (the definition) and in chunks (WY form, for training)."""

from functools import partial

import jax
import jax.numpy as jnp

CHUNK = 64
HIGHEST = jax.lax.Precision.HIGHEST


def sequential_delta_rule(q, k, v, g, beta, state):
    """Run the recurrence token by token.

    q, k [B T H K], v [B T H V], g, beta [B T H], state [B H K V], all float32; q and k are
    normalised and q is scaled. Returns outputs [B T H V] and the last state.
    """
    def step(s, inputs):
        q_t, k_t, v_t, g_t, beta_t = inputs
        s = s * jnp.exp(g_t)[..., None, None]
        u = beta_t[..., None] * (v_t - jnp.einsum("bhkv,bhk->bhv", s, k_t, precision=HIGHEST))
        s = s + k_t[..., None] * u[..., None, :]
        return s, jnp.einsum("bhkv,bhk->bhv", s, q_t, precision=HIGHEST)

    inputs = jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), (q, k, v, g, beta))
    state, out = jax.lax.scan(step, state, inputs)
    return jnp.moveaxis(out, 0, 1), state


def _product(a, b):
    """a @ b of matrices [... C C]; up to 8 x 8 as one fused sum, for which no library is fast."""
    size = a.shape[-1]
    if size > 8:
        return jnp.matmul(a, b, precision=HIGHEST)
    return sum(a[..., :, k, None] * b[..., k, None, :] for k in range(size))


def _inverse(a):
    """Return (I + a)^-1 for strictly lower triangular a [... C C], by recursive 2x2 blocks.

    The doubling series diverges for correlated keys; blocks down to 4x4 do not, and for 4x4
    (I - a)(I + a^2) is exact because a^4 = 0.
    """
    size = a.shape[-1]
    if size <= 4:
        eye = jnp.eye(size, dtype=a.dtype)
        return _product(eye - a, eye + _product(a, a))
    half = size // 2
    blocks = jnp.stack([a[..., :half, :half], a[..., half:, half:]])
    upper, lower = _inverse(blocks)
    corner = -_product(lower, _product(a[..., half:, :half], upper))
    top = jnp.concatenate([upper, jnp.zeros_like(corner)], -1)
    return jnp.concatenate([top, jnp.concatenate([corner, lower], -1)], -2)


@jax.custom_vjp
def unit_lower_inverse(a):
    """Return (I + a)^-1 for strictly lower triangular a [... C C] float32, C a power of two."""
    return _inverse(a)


def _forward(a):
    inverse = _inverse(a)
    return inverse, inverse


def _backward(inverse, cotangent):
    # d(M^-1) = -M^-1 dM M^-1; only the strictly lower part of a is free.
    turned = jnp.swapaxes(inverse, -1, -2)
    product = jnp.matmul(turned, jnp.matmul(cotangent, turned, precision=HIGHEST),
                         precision=HIGHEST)
    return (-jnp.tril(product, -1),)


unit_lower_inverse.defvjp(_forward, _backward)


def chunk_delta_rule(q, k, v, g, beta, state, *, precision=None):
    """Run the same recurrence chunk by chunk; shapes as in `sequential_delta_rule`.

    T must be a multiple of CHUNK. `precision` is that of the products outside the inverse
    (None lets a GPU use its float32 matrix units' default).
    """
    n_chunks = q.shape[1] // CHUNK
    dot = partial(jnp.einsum, precision=precision)
    # [N B H C ...]: chunks first, so that the scan below walks over them.
    q, k, v, g, beta = (
        jnp.moveaxis(x.reshape(x.shape[0], n_chunks, CHUNK, *x.shape[2:]), (1, 3), (0, 2))
        for x in (q, k, v, g, beta))
    decay = jnp.cumsum(g, -1)
    lower = jnp.tril(jnp.ones((CHUNK, CHUNK), bool))
    # Mask the exponent, not the exponential: exp of a masked positive number would be inf.
    difference = jnp.where(lower, decay[..., :, None] - decay[..., None, :], 0.0)
    ratio = jnp.where(lower, jnp.exp(difference), 0.0)
    keys = jnp.einsum("nbhik,nbhjk->nbhij", k, k, precision=HIGHEST)
    a = jnp.tril(beta[..., None] * keys * ratio, -1)
    inverse = unit_lower_inverse(a)
    w = dot("nbhij,nbhjk->nbhik", inverse, (beta * jnp.exp(decay))[..., None] * k)
    u = dot("nbhij,nbhjv->nbhiv", inverse, beta[..., None] * v)
    p = dot("nbhik,nbhjk->nbhij", q, k) * ratio
    q_decayed = jnp.exp(decay)[..., None] * q
    k_rest = jnp.exp(decay[..., -1:] - decay)[..., None] * k
    total = jnp.exp(decay[..., -1])

    def step(s, inputs):
        w_n, u_n, p_n, q_n, k_n, total_n = inputs
        fresh = u_n - dot("bhik,bhkv->bhiv", w_n, s)
        out = dot("bhik,bhkv->bhiv", q_n, s) + dot("bhij,bhjv->bhiv", p_n, fresh)
        s = total_n[..., None, None] * s + dot("bhik,bhiv->bhkv", k_n, fresh)
        return s, out

    state, out = jax.lax.scan(step, state, (w, u, p, q_decayed, k_rest, total))
    out = jnp.moveaxis(out, (0, 2), (1, 3))  # [B N C H V]
    return out.reshape(out.shape[0], -1, *out.shape[3:]), state
