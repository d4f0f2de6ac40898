"""The UT form of the DeltaNet op: close to the walk, and honest about not being equal to it."""

from dataclasses import replace

import numpy as np
import pytest

from tandem_jax.engine.describe import describe
from tests.laws.bench import VOCAB, Bench, new_engine
from tests.laws.growth import random_tree

TOLERANCE = 5e-5  # of logits whose standard deviation is about 1


@pytest.fixture(scope="module")
def near(platform):
    return Bench(new_engine(delta_scan="wy", use_mtp=False))


def test_describe_names_the_class_and_the_op(bench, near):
    told = describe(near.engine)
    assert told["exactness_class"] == "near-tie"
    assert told["ops"]["delta_scan"]["implementation"] == "wy"
    assert "'wy' was asked for" in told["ops"]["delta_scan"]["passed_over"]["walk"]
    told = describe(bench.engine)
    assert told["exactness_class"] == "bitwise"
    assert told["ops"]["delta_scan"]["implementation"] == "walk"


@pytest.mark.parametrize("n_prompt", [1, 150])
def test_logits_lie_close_to_the_walk(bench, near, n_prompt):
    rng, rows, plain = np.random.default_rng(n_prompt), bench.buckets[-1], bench.plain(n_prompt)
    equal = []
    for _ in range(5):
        tree = random_tree(rng, plain.tokens[0], plain.tokens[1:], rows - 1, VOCAB)
        _, _, wanted = bench.round(plain.fork(), tree, n_prompt, rows=rows)
        state = replace(plain.fork(), mtp_kv=None)
        _, _, found = near.round(state, tree, n_prompt, rows=rows)
        assert np.abs(found - wanted).max() <= TOLERANCE
        equal.append(np.array_equal(found, wanted))
    # Were they equal, the class would be too modest.
    assert not all(equal)
