"""The SwiGLU feed-forward block with its norm and residual."""

from dataclasses import dataclass

import jax

from tandem_jax.models.norms import centred_norm
from tandem_jax.quant import linear


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MlpWeights:
    """Weights of one feed-forward block (or a stack with a leading layer axis)."""

    norm: jax.Array  # [D] around zero
    gate: object  # [F, D] any weight format
    up: object  # [F, D]
    down: object  # [D, F]


def mlp(w: MlpWeights, x: jax.Array, eps: float) -> jax.Array:
    """x + down(silu(gate n) * up n) with n the normed input; x [R, D] activation dtype."""
    n = centred_norm(x, w.norm, eps).astype(x.dtype)
    hidden = jax.nn.silu(linear(n, w.gate)) * linear(n, w.up)
    return x + linear(hidden.astype(x.dtype), w.down).astype(x.dtype)
