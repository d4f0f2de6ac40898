"""The state is updated in place: donated buffers are reused and no pool is ever copied whole."""

import re

import jax
import pytest

NAMES = {"float32": "f32", "bfloat16": "bf16", "int32": "s32"}


@pytest.fixture(params=["round", "prefill"])
def modules(engine, request):
    """The compiled modules of one kind of step, by bucket."""
    built = engine.executables.built.items()
    kept = {key: step for key, step in built if key[:2] == (request.param, 1)}
    assert kept
    return kept


def pools(engine):
    """HLO shape of every pool of the state; two slots keep them apart from a request's share."""
    leaves = jax.tree.leaves(engine.state)
    shapes = {f"{NAMES[str(x.dtype)]}[{','.join(map(str, x.shape))}]" for x in leaves}
    # Keys and values look alike in the target's cache and in the head's: four shapes of six.
    assert (len(leaves), len(shapes)) == (6, 4)
    return shapes


def test_the_state_is_aliased(engine, modules):
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(engine.state))
    for key, step in modules.items():
        assert step.memory_analysis().alias_size_in_bytes >= size, key


def test_no_pool_is_copied(engine, modules):
    for key, step in modules.items():
        text = step.as_text()
        for shape in pools(engine):
            assert shape in text
            copies = re.findall(rf"^.* = {re.escape(shape)}\S* copy(?:-start)?\(.*$", text, re.M)
            assert copies == [], key
