"""What an engine runs and why, as plain data: for `tandem info`, `/props` and bug reports."""

from typing import Any

import jax

from tandem_jax.drafters import DRAFTERS, drafter_class
from tandem_jax.engine.engine import Engine


def describe(engine: Engine) -> dict[str, Any]:
    """JSON-serialisable facts about an engine.

    `exactness_class` is "bitwise" where every op in use makes verify rows equal plain rows bit for
    bit, else "near-tie"; `ops` names each op's implementation and why the others were passed over.
    """
    config = engine.model.config
    leaves = jax.tree.leaves(engine.model.weights)
    device = leaves[0].devices().pop()
    ops = {}
    for choice in (engine.plan.delta_scan, engine.plan.tree_attention):
        ops[choice.op] = {"implementation": choice.name, "passed_over": dict(choice.passed_over)}
    return {
        "device": device.device_kind,
        "platform": device.platform,
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
        "row_buckets": list(engine.row_buckets),
        "prefill_buckets": list(engine.config.prefill_buckets),
        "compiled": [f"{kind} {n}x{size}" for kind, n, size in sorted(engine.executables.built)],
        "matmul_precision": "highest",
        "ops": ops,
        "drafters": [
            name
            for name in DRAFTERS
            if config.mtp or not drafter_class(name).uses_model_head or name == "auto"
        ],
    }
