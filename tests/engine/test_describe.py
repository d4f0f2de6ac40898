"""What an engine says about itself."""

import json
from math import prod

import jax

from checkpoints.synthetic_drafter import drafter_shapes
from tandem_jax.engine.describe import describe
from tests.laws.bench import DRAFTER, VOCAB, drafted_engine
from tests.laws.states import CONTEXT, PAGE


def test_facts(engine):
    told = describe(engine)
    assert json.loads(json.dumps(told)) == told
    wanted = {
        "platform": jax.default_backend(),
        "exactness_class": "bitwise",
        "family": "Qwen3_5ForCausalLM",
        "dtype": "float32",
        "layers": {"delta_net": 4, "attention": 2},
        "vocab_size": VOCAB,
        "tied_head": False,
        "mtp_head": True,
        "max_context": CONTEXT,
        "page_tokens": PAGE,
        "node_budget": 31,
        "row_buckets": list(engine.row_buckets),
        "matmul_precision": "highest",
    }
    assert {name: told[name] for name in wanted} == wanted
    assert told["weight_bytes"] == 4 * told["parameters"]
    assert told["state_bytes"] == sum(leaf.nbytes for leaf in jax.tree.leaves(engine.state))
    assert f"round 1x{engine.row_buckets[0]}" in told["compiled"]


def test_every_op_names_its_reasons(engine):
    ops = describe(engine)["ops"]
    assert set(ops) == {"delta_scan", "tree_attention"}
    assert ops["tree_attention"] == {"implementation": "reference", "passed_over": {}}
    scan = ops["delta_scan"]
    assert scan["implementation"] == "walk"
    assert scan["passed_over"] == {
        "wy": "equals plain decoding up to rounding only",
        "sequential": "takes chains only: it is the oracle of the tests",
    }


def test_drafters_that_need_the_head_are_listed(engine):
    told = describe(engine)
    assert {"none", "lookup", "mtp", "auto"} <= set(told["drafters"])
    assert "dflash2" not in told["drafters"]
    assert told["block_drafter"] is None


def test_a_block_drafter_and_what_it_replaces(engine):
    drafted = drafted_engine()
    told = describe(drafted)
    assert json.loads(json.dumps(told)) == told
    assert {"none", "lookup", "dflash2", "auto"} <= set(told["drafters"])
    assert "mtp" not in told["drafters"]
    assert told["parameters"] == describe(engine)["parameters"]
    wanted = {
        "family": "DFlash2DraftModel",
        "layers": 2,
        "block_size": 8,
        "window": 40,
        "tap": "output",
        "taps_before_layers": [1, 4, 6],
        "candidates": 4,
        "lattice_temperature": 1.4,
    }
    block = told["block_drafter"]
    assert {name: block[name] for name in wanted} == wanted
    sizes = map(prod, drafter_shapes(DRAFTER).values())
    assert block["parameters"] == sum(sizes)
