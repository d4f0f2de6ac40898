"""Muon for the body's matrices, Adam for embeddings, gates, norms and the convolution."""

import jax
import jax.numpy as jnp
import optax

MATRICES = frozenset(["qkv", "z", "out", "q", "k", "v", "o", "gate", "up", "down", "fc"])
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # quintic of Jordan et al. 2024, tuned for five steps


def orthogonalise(matrix, steps: int = 5):
    """Return matrices [... I O] with all singular values near 1, by Newton-Schulz in bfloat16."""
    a, b, c = NEWTON_SCHULZ
    x = matrix.astype(jnp.bfloat16)
    wide = x.shape[-2] > x.shape[-1]
    x = jnp.swapaxes(x, -1, -2) if wide else x
    norm = jnp.linalg.norm(x.astype(jnp.float32), axis=(-2, -1), keepdims=True)
    x = x / (norm + 1e-7).astype(x.dtype)

    def improve(_, x):
        gram = x @ jnp.swapaxes(x, -1, -2)
        return a * x + (b * gram + c * (gram @ gram)) @ x

    x = jax.lax.fori_loop(0, steps, improve, x)
    return (jnp.swapaxes(x, -1, -2) if wide else x).astype(jnp.float32)


def scale_by_muon(momentum: float = 0.95) -> optax.GradientTransformation:
    """Nesterov momentum, orthogonalised; scaled so that an entry's RMS matches Adam's (0.2)."""
    def init(params):
        return jax.tree.map(jnp.zeros_like, params)

    def update(gradients, state, params=None):
        del params
        state = jax.tree.map(lambda m, g: momentum * m + g, state, gradients)
        look = jax.tree.map(lambda m, g: g + momentum * m, state, gradients)
        scaled = jax.tree.map(
            lambda x: orthogonalise(x) * (0.2 * max(x.shape[-2:]) ** 0.5), look)
        return scaled, state

    return optax.GradientTransformation(init, update)


def labels(params) -> dict:
    """Label each leaf "matrix" or "other" by its name."""
    return jax.tree_util.tree_map_with_path(
        lambda path, _: "matrix" if path[-1].key in MATRICES else "other", params)


def make_optimizer(kind: str = "muon") -> optax.GradientTransformation:
    """Return the optimizer with learning rate 1; the caller scales by -lr (set by the clock).

    kind "muon" or "adamw" says what the matrices use. Raises KeyError for another kind.
    """
    adam = optax.scale_by_adam(b1=0.9, b2=0.95, eps=1e-8)
    matrices = {"muon": scale_by_muon(), "adamw": adam}[kind]
    return optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.multi_transform(
            {"matrix": optax.chain(matrices, optax.add_decayed_weights(0.1)), "other": adam},
            labels))
