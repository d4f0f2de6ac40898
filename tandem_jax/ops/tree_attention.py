"""Attention over tree rows, over prefill chunks and over draft blocks."""

from pallas_kernels.tree_attention.block import block_attention
from pallas_kernels.tree_attention.prefill import prefill_attention
from pallas_kernels.tree_attention.reference import tree_attention
from tandem_jax.ops.choose import Implementation

TREE_ATTENTION = {
    "reference": Implementation(
        where="pallas_kernels.tree_attention.reference:tree_attention",
        why_not=lambda platform: "",
        exact=True,
    ),
}

__all__ = ["TREE_ATTENTION", "block_attention", "prefill_attention", "tree_attention"]
