"""A random drafter twice: on the device for our forward, as float64 tensors for the oracle."""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from checkpoints.synthetic import tiny_dense_config
from checkpoints.synthetic_drafter import drafter_values, tiny_drafter_config, write_drafter
from tandem_jax.loading_drafter import open_drafter
from tandem_jax.models import dflash2
from tandem_jax.models.hybrid import HybridWeights
from tandem_jax.models.qwen35 import QWEN35
from tandem_jax.state.model_state import KvCache, scatter_rows
from tests.models import numpy_dflash2 as oracle

TARGET = tiny_dense_config()
PAGE, N_PAGES = 64, 4
ROOM = 140  # tokens there are residual streams for


@dataclass(frozen=True)
class Pair:
    """One drafter beside a target of which only embedding and head exist."""

    config: dict[str, Any]  # config.json of the drafter
    seed: int = 7

    @cached_property
    def tensors(self) -> dict[str, np.ndarray]:
        """What the oracle reads."""
        return drafter_values(self.config, seed=self.seed)

    @cached_property
    def model(self) -> dflash2.DraftModel:
        """What our forward runs, float32."""
        with TemporaryDirectory() as folder:
            write_drafter(folder, self.config, seed=self.seed)
            return open_drafter(folder, QWEN35.read_config(TARGET)).load()

    @cached_property
    def embed(self) -> np.ndarray:
        """[vocab, D] embedding and head in one."""
        rng = np.random.default_rng(self.seed)
        return rng.standard_normal((TARGET["vocab_size"], TARGET["hidden_size"])) / 8

    @cached_property
    def taps(self) -> np.ndarray:
        """[n, ROOM, D] residual streams of a text."""
        shape = (len(self.model.config.taps), ROOM, self.model.config.width)
        return 3 * np.random.default_rng(self.seed).standard_normal(shape)

    @cached_property
    def weights(self) -> HybridWeights:
        """The target's weights as far as a drafter sees them."""
        nothing = dict.fromkeys(("norm", "head", "delta", "attention", "mlp", "mtp"))
        embed = jnp.asarray(self.embed, jnp.float32)
        return replace(HybridWeights(embed=embed, **nothing), draft=self.model.weights)

    @cached_property
    def compiled(self):
        """Our forward; a new Pair traces it anew, patches included."""
        return jax.jit(partial(_draft, self.model.config))

    def ours(self, anchor: int, n_tokens: int, taps=None) -> tuple[np.ndarray, ...]:
        """(hidden [L, D], candidates [L, k], scores [L, k, k]) behind the first `n_tokens`."""
        taps = jnp.asarray(self.taps if taps is None else taps, jnp.float32)
        given = (jnp.full(1, x, jnp.int32) for x in (n_tokens, anchor))
        return tuple(np.asarray(out)[0] for out in self.compiled(self.weights, taps, *given))

    def theirs(self, anchor: int, n_tokens: int) -> tuple[np.ndarray, np.ndarray]:
        """(hidden [L, D], logits [L, vocab]) of the oracle."""
        cfg = self.model.config
        context = oracle.context_of(self.tensors, self.config, self.taps[:, :n_tokens])
        ids = [anchor] + [cfg.mask_id] * cfg.slots
        hidden = oracle.block_hidden(self.tensors, self.config, self.embed, context, ids)[1:]
        return hidden, hidden @ self.embed.T


def _draft(cfg, weights, taps, count, anchor):
    """The context of the first `count` tokens, in a cache full of NaN, and the block behind it."""
    shape = (cfg.layers, N_PAGES, PAGE, cfg.kv_heads, cfg.head)
    empty = KvCache(*(jnp.full(shape, jnp.nan, jnp.float32) for _ in range(2)))
    pages = jnp.asarray([[2, 0, 3, 1]], jnp.int32)
    position = jnp.arange(ROOM, dtype=jnp.int32)
    k, v = dflash2.context_rows(cfg, weights.draft, taps, position)
    kv = scatter_rows(empty, k[:, None], v[:, None], pages, jnp.zeros(1, jnp.int32), count)
    anchors = dflash2.Anchors(anchor, count, pages)
    hidden = dflash2.block_hidden(cfg, weights, kv, anchors)
    return hidden, *dflash2.draft_block(cfg, weights, kv, anchors)


def pair(**overrides: Any) -> Pair:
    """A drafter with other config keys than `tiny_drafter_config`'s."""
    return Pair(tiny_drafter_config(TARGET, **overrides))


def v1_pair(**overrides: Any) -> Pair:
    """A DFlash v1 drafter of one sliding and one full layer, its block size at top level."""
    config = {
        "architectures": ["DFlashDraftModel"],
        "is_causal": ...,
        "block_size": 6,
        "layer_types": ["sliding_attention", "full_attention"],
        **overrides,
    }
    made = tiny_drafter_config(TARGET, **config)
    block = {"target_layer_ids": [0, 2, 3], "mask_token_id": 250}
    return Pair({**made, "dflash_config": block})
