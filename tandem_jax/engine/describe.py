"""What an engine runs and why, as plain data: for `tandem info`, `/props` and bug reports."""

from dataclasses import replace
from typing import Any

import jax

from tandem_jax.drafters import DRAFTERS
from tandem_jax.engine.available import refusal
from tandem_jax.engine.engine import Engine


def describe(engine: Engine) -> dict[str, Any]:
    """JSON-serialisable facts about an engine.

    `exactness_class` is "bitwise" where every op in use makes verify rows equal plain rows bit for
    bit, else "near-tie"; `ops` names each op's implementation and why the others were passed over.
    """
    config = engine.model.config
    leaves = jax.tree.leaves(replace(engine.model.weights, draft=None))
    platform = leaves[0].devices().pop().platform
    ops = {}
    for choice in (engine.plan.delta_scan, engine.plan.tree_attention):
        ops[choice.op] = {"implementation": choice.name, "passed_over": dict(choice.passed_over)}
    return {
        "device": engine.device_kind,
        "platform": platform,
        "exactness_class": engine.plan.exactness,
        "family": config.family,
        "parameters": sum(leaf.size for leaf in leaves),
        "weight_bytes": sum(leaf.nbytes for leaf in leaves),
        "state_bytes": sum(leaf.nbytes for leaf in jax.tree.leaves(engine.state)),
        "dtype": engine.config.dtype,
        "layers": {"delta_net": config.n_delta, "attention": config.n_attention},
        "vocab_size": config.vocab,
        "tied_head": config.tied,
        "mtp_head": config.mtp,
        "max_context": engine.config.max_context,
        "page_tokens": engine.config.page_tokens,
        "node_budget": engine.node_budget,
        "max_nodes": engine.max_nodes,
        "row_buckets": list(engine.row_buckets),
        "prefill_buckets": list(engine.config.prefill_buckets),
        "compiled": [f"{kind} {n}x{size}" for kind, n, size in sorted(engine.executables.built)],
        "matmul_precision": "highest",
        "ops": ops,
        "block_drafter": _block_drafter(engine),
        "drafters": [name for name in DRAFTERS if refusal(engine, name) is None],
    }


def _block_drafter(engine: Engine) -> dict[str, Any] | None:
    """Facts about the block drafter beside the model, None without one."""
    draft = engine.options.draft
    if draft is None:
        return None
    return {
        "family": draft.family,
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(engine.model.weights.draft)),
        "layers": draft.layers,
        "block_size": draft.block,
        "window": max((w for w in draft.windows if w is not None), default=None),
        "tap": draft.tap,
        "taps_before_layers": list(draft.taps),
        "candidates": draft.top_k,
        "lattice_temperature": draft.temperature,
    }
