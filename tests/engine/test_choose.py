"""Choosing an implementation: by name or by order, with a reason for each one passed over."""

import pytest

from tandem_jax.errors import ConfigError
from tandem_jax.ops.choose import Implementation, choose
from tandem_jax.ops.plan import make_plan


def only_on(*platforms):
    return lambda platform: "" if platform in platforms else f"needs {' or '.join(platforms)}"


TABLE = {
    "fast": Implementation(where="a:fast", why_not=only_on("gpu"), exact=False),
    "plain": Implementation(where="a:plain", why_not=only_on("cpu", "gpu"), exact=True),
    "slow": Implementation(where="a:slow", why_not=only_on("cpu", "gpu"), exact=True),
    "rough": Implementation(where="a:rough", why_not=only_on("cpu", "gpu"), exact=False),
}


def test_the_first_that_runs_is_chosen():
    choice = choose("op", TABLE, "cpu")
    assert (choice.op, choice.name, choice.exact) == ("op", "plain", True)
    assert dict(choice.passed_over) == {
        "fast": "needs gpu",
        "slow": "comes later in the table",
        "rough": "equals plain decoding up to rounding only",
    }
    choice = choose("op", TABLE, "gpu")
    assert (choice.name, choice.exact) == ("fast", False)
    assert set(dict(choice.passed_over).values()) == {"comes later in the table"}


def test_a_wish_is_met_and_told():
    choice = choose("op", TABLE, "gpu", "slow")
    assert (choice.name, choice.exact) == ("slow", True)
    asked = "'slow' was asked for"
    assert dict(choice.passed_over) == {"fast": asked, "plain": asked, "rough": asked}


def test_a_wish_that_cannot_be_met_is_an_error():
    with pytest.raises(ConfigError, match="op: 'fast' cannot run here: needs gpu"):
        choose("op", TABLE, "cpu", "fast")
    with pytest.raises(ConfigError, match="op: no implementation 'quick'") as caught:
        choose("op", TABLE, "cpu", "quick")
    assert caught.value.hint == "one of fast, plain, slow, rough"


def test_nothing_runs_is_an_error_with_every_reason():
    told = "no implementation runs on tpu .fast: needs gpu; plain: needs cpu or gpu; slow: .*"
    with pytest.raises(ConfigError, match=told):
        choose("op", TABLE, "tpu")


def test_the_plan_is_exact_unless_an_op_is_not():
    plan = make_plan("cpu")
    assert (plan.tile, plan.unroll, plan.exactness) == (8, False, "bitwise")
    assert (make_plan("gpu").tile, make_plan("gpu").unroll) == (None, True)
    assert make_plan("cpu", delta_scan="wy").exactness == "near-tie"
    with pytest.raises(ConfigError, match="'sequential' cannot run here: takes chains only"):
        make_plan("cpu", delta_scan="sequential")
    # One plan is one set of executables.
    assert make_plan("cpu") == plan
    assert len({make_plan("cpu"), plan, make_plan("cpu", delta_scan="wy")}) == 2
