"""The state is updated in place: donated buffers are reused and no pool is ever copied whole."""

import re
from tempfile import TemporaryDirectory

import jax
import pytest

from checkpoints.synthetic import tiny_dense_config, write_checkpoint
from tandem_jax.engine.engine import Engine
from tandem_jax.loading import load_model
from tests.laws.bench import drafted_engine
from tests.laws.states import PAGE

HLO_NAMES = {"float32": "f32", "bfloat16": "bf16"}


def copied_pools(engine, step):
    """Lines of a compiled module that copy a whole pool of the state.

    Two slots keep the pools' shapes apart from the share of one request.
    """
    leaves = jax.tree.leaves(engine.state)
    shapes = {f"{HLO_NAMES[str(x.dtype)]}[{','.join(map(str, x.shape))}]" for x in leaves}
    text, lines = step.as_text(), []
    for shape in shapes:
        assert shape in text
        lines += re.findall(rf"^.* = {re.escape(shape)}\S* copy(?:-start)?\(.*$", text, re.M)
    return lines


@pytest.fixture(params=["mtp", "dflash2"])
def engine(request, engine):
    """The shared engine, or the one with a block drafter and the buckets that its tests need."""
    if request.param == "mtp":
        return engine
    drafted = drafted_engine()
    drafted.executables.build([("round", 1, drafted.row_buckets[0]), ("prefill", 1, PAGE)], None)
    return drafted


@pytest.fixture(params=["round", "prefill"])
def modules(engine, request):
    """The compiled modules of one kind of step, by bucket."""
    built = engine.executables.built.items()
    kept = {key: step for key, step in built if key[:2] == (request.param, 1)}
    assert kept
    return kept


def test_the_state_is_aliased(engine, modules):
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(engine.state))
    for key, step in modules.items():
        assert step.memory_analysis().alias_size_in_bytes >= size, key


def test_no_pool_is_copied(engine, modules):
    for key, step in modules.items():
        assert copied_pools(engine, step) == [], key


def test_no_pool_is_copied_where_layers_are_one_group(engine):
    """A loop over one group is written out, so reads and writes of a pool meet in one body."""
    with TemporaryDirectory() as folder:
        write_checkpoint(folder, tiny_dense_config(), seed=1)
        model = load_model(folder)
    assert model.config.period == len(model.config.kinds)
    small = Engine(model, engine.config)
    step = small.executables.get(("prefill", 1, PAGE))
    assert copied_pools(small, step) == []
