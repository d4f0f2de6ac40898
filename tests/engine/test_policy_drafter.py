"""A policy at the place of a drafter: what it is told, and when the head drafts."""

import pytest

from tandem_jax.drafters import RoundTime
from tandem_jax.engine.policy_drafter import NARROW_SLOTS, PolicyDrafter
from tandem_jax.engine.round_clock import RoundClock
from tandem_jax.staircut.policy import Decision, Policy
from tandem_jax.staircut.price_model import PriceModel
from tandem_jax.tree import DraftTree
from tests.laws.bench import drafted_engine, random_prompt
from tests.laws.texts import answer


class Notes(Policy):
    """Drafts one wrong token in the rounds of a script and notes what it hears."""

    name = "notes"
    heads = ("wide",)

    def __init__(self, wants):
        self.wants, self.given, self.outcomes, self.lattices = wants, [], [], []

    def reset(self, prompt_ids):
        self.prompt = list(prompt_ids)

    def propose(self, given):
        self.given.append(given)
        wide, narrow = given.wide(), given.narrow()
        self.lattices.append((wide, narrow))
        tree = DraftTree.chain(given.anchor, [given.anchor], source="lookup")
        return Decision(tree if len(self.given) % 2 else None, "lookup")

    def observe(self, outcome):
        self.outcomes.append(outcome)

    @property
    def wants_draft(self):
        return self.wants[(len(self.given) - 1) % len(self.wants)]


@pytest.fixture(scope="module")
def engine(platform):
    engine = drafted_engine()
    engine.warm_up()
    return engine


def test_what_a_policy_hears(engine):
    policy = Notes(wants=(True, False, True))
    prompt = random_prompt(20)
    got = answer(engine, prompt, 12, PolicyDrafter(policy, PriceModel(None)))
    assert policy.prompt == prompt
    heard = [token for outcome in policy.outcomes for token in outcome.tokens]
    assert heard == got.tokens
    rounds = got.events[1:]
    # The prefill's token belongs to no round; the last token of an answer is not proposed for.
    n = len(policy.given)
    assert [o.rows for o in policy.outcomes[: n + 1]] == [0, *(e.rows for e in rounds[:n])]
    assert policy.outcomes[0].verify_ms is None
    assert all(o.verify_ms > 0 for o in policy.outcomes[1 : n + 1])
    lengths = [given.context for given in policy.given]
    assert lengths[0] == 21
    assert lengths == sorted(lengths)
    assert all(given.max_nodes == engine.max_nodes == 31 for given in policy.given)
    assert policy.given[0].max_depth == 10


def test_the_head_drafts_one_round_ahead(engine):
    policy = Notes(wants=(True, False, True))
    answer(engine, random_prompt(20), 12, PolicyDrafter(policy, PriceModel(None)))
    # The first draft comes with the prefill; then each round brings what the last one asked for.
    wanted = [True, *(policy.wants[i % 3] for i in range(len(policy.given) - 1))]
    assert [given.paid for given in policy.given] == wanted
    for has, (wide, narrow) in zip(wanted, policy.lattices, strict=True):
        assert (wide is not None) == has
        if has:
            assert len(narrow.cand) == NARROW_SLOTS
            assert (narrow.scores == wide.scores[:NARROW_SLOTS]).all()


def time(rows, ms, drafted, length=100):
    return RoundTime(rows=rows, is_chain=True, length=length, ms=ms, drafted=drafted)


def test_a_draft_is_what_it_adds_to_the_same_shape():
    clock = RoundClock(lambda context: 4.0)
    assert clock.split(time(8, 30.0, True)) == (26.0, None)  # the table's draft, until it is known
    assert clock.split(time(8, 20.0, False)) == (20.0, None)
    assert clock.split(time(8, 32.0, True)) == (20.0, 12.0)
    # Another shape was never seen alone: the draft learned from this one is taken off.
    assert clock.split(time(16, 42.0, True)) == (30.0, None)
    assert clock.split(time(16, 42.0, True, length=5000)) == (38.0, None)  # another class


def test_an_unknown_draft_is_part_of_the_verify():
    clock = RoundClock(lambda context: 0.0)
    assert clock.split(time(8, 30.0, True)) == (30.0, None)
