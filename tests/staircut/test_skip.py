"""Never slower than the plain step: verdicts, probes, ageing, turns."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_jax.staircut.skip import NeverSlower

PLAIN = 10.0


def losing(context=500, rounds=8, ms=50.0, tokens=2):
    """Drafted rounds of 25 ms a token against plain steps of 10."""
    skip = NeverSlower()
    for _ in range(rounds):
        skip.observe_drafted(context, ms, tokens, PLAIN)
    return skip


def test_drafting_is_given_eight_rounds():
    assert not losing(rounds=7).is_losing(500, PLAIN)
    assert losing(rounds=8).is_losing(500, PLAIN)
    assert not losing(rounds=8, ms=15.0).is_losing(500, PLAIN)


def test_probes_after_16_plain_rounds_then_32_up_to_256():
    skip, gaps, waited = losing(), [], 0
    for _ in range(1200):
        if skip.wants_draft(500, PLAIN):
            gaps.append(waited)
            waited = 0
            skip.observe_drafted(500, 90.0, 1, PLAIN)
        else:
            waited += 1
            skip.observe_plain(500, PLAIN)
    assert gaps[:5] == [16, 32, 64, 128, 256]
    assert set(gaps[5:]) == {256}


def test_a_class_that_won_again_is_probed_often_when_it_loses_again():
    skip = losing()
    for _ in range(3):  # three probes that lose
        while not skip.wants_draft(500, PLAIN):
            skip.observe_plain(500, PLAIN)
        skip.observe_drafted(500, 90.0, 1, PLAIN)
    assert skip.to_dict()["1024"][6] == 128
    while skip.is_losing(500, PLAIN):
        skip.observe_drafted(500, 50.0, 16, PLAIN)
    assert skip.to_dict()["1024"][6:] == [16, 0]
    while not skip.is_losing(500, PLAIN):
        skip.observe_drafted(500, 90.0, 1, PLAIN)
    waited = 0
    while not skip.wants_draft(500, PLAIN):
        waited += 1
        skip.observe_plain(500, PLAIN)
    assert waited == 16


def test_break_even_is_not_losing():
    assert not losing(ms=20.0).is_losing(500, PLAIN)
    assert losing(ms=20.1).is_losing(500, PLAIN)
    assert losing(ms=20.1).wants_draft(500, 10.06)


def test_a_long_answer_pays_the_means():
    """Rounds of 10 ms and 1 token and of 40 ms and 15 tokens: 25 ms for 8, not 6.3 ms a token."""
    skip = NeverSlower()
    for ms, tokens in ((10.0, 1), (40.0, 15)) * 4:
        skip.observe_drafted(500, ms, tokens, PLAIN)
    assert not skip.is_losing(500, 25 / 8 + 0.01)
    assert skip.is_losing(500, 25 / 8 - 0.01)


def test_a_probe_is_known_one_round_ahead():
    skip = losing()
    for _ in range(15):
        assert not skip.is_probe_next(500)
        skip.observe_plain(500, PLAIN)
    assert skip.is_probe_next(500)
    skip.observe_plain(500, PLAIN)
    assert skip.wants_draft(500, PLAIN)


def test_it_comes_back_when_drafting_wins():
    skip, rounds = losing(), 0
    while skip.is_losing(500, PLAIN) and rounds < 3000:
        rounds += 1
        if skip.wants_draft(500, PLAIN):
            skip.observe_drafted(500, 50.0, 16, PLAIN)
        else:
            skip.observe_plain(500, PLAIN)
    assert not skip.is_losing(500, PLAIN)
    assert rounds < 200
    for _ in range(3):
        assert skip.wants_draft(500, PLAIN)
        skip.observe_drafted(500, 50.0, 16, PLAIN)


def test_a_losing_estimate_ages_towards_break_even():
    skip = losing()
    before = skip.to_dict()["1024"][2]
    for _ in range(10):
        skip.observe_plain(500, PLAIN)
    after = skip.to_dict()["1024"][2]
    assert before == pytest.approx(50.0)
    assert after == pytest.approx(20.0 + 30.0 * 0.98**10)
    assert skip.is_losing(500, PLAIN)
    for _ in range(3000):
        skip.observe_plain(500, PLAIN)
    assert skip.to_dict()["1024"][2] == pytest.approx(20.0)


def test_an_estimate_ages_only_while_it_is_known_to_lose():
    unknown, winning, trial = losing(), losing(ms=15.0), losing(rounds=7)
    for _ in range(10):
        unknown.observe_plain(500, None)  # no plain step was measured
        winning.observe_plain(500, PLAIN)
        trial.observe_plain(500, PLAIN)
    assert unknown.to_dict()["1024"][2] == pytest.approx(50.0)
    assert winning.to_dict()["1024"][2] == pytest.approx(15.0)
    assert trial.to_dict()["1024"][2] == pytest.approx(50.0)
    assert unknown.to_dict()["1024"][7] == 10  # they count as waited all the same


def test_one_slow_request_does_not_close_a_class():
    skip = NeverSlower()
    for _ in range(20):
        skip.observe_drafted(500, 50.0, 8, PLAIN)
    slow = 0
    while not skip.is_losing(500, PLAIN):
        slow += 1
        skip.observe_drafted(500, 50.0, 1, PLAIN)
    assert slow == 6
    rounds = 0
    while skip.is_losing(500, PLAIN) and rounds < 100:
        rounds += 1
        if skip.wants_draft(500, PLAIN):
            skip.observe_drafted(500, 50.0, 8, PLAIN)
        else:
            skip.observe_plain(500, PLAIN)
    assert rounds == 17  # sixteen plain ones and the first probe


def test_classes_are_apart():
    skip = losing(context=500)
    assert skip.is_losing(900, PLAIN)
    assert not skip.is_losing(5000, PLAIN)
    assert not skip.is_losing(1025, PLAIN)
    assert skip.is_losing(1024, PLAIN)
    for _ in range(30):
        skip.observe_plain(5000, PLAIN)
    assert not skip.wants_draft(500, PLAIN)  # it waited elsewhere


def test_a_measured_plain_step_counts_before_the_price():
    skip = losing(ms=18.0)  # nine a token
    assert not skip.is_losing(500, PLAIN)
    for _ in range(3):
        skip.observe_plain(500, 6.0)
    assert skip.is_losing(500, PLAIN)
    skip.observe_plain(500, None)  # a round whose time is not known


def test_a_turn_must_pay_for_the_unread_rows():
    skip = NeverSlower()
    assert skip.pays_turn(500, PLAIN, backlog=0, prime_ms=1.0, expected=1)
    # Half of a plain step is assumed saved before anything is known: 5 ms a token.
    assert skip.pays_turn(500, PLAIN, backlog=1000, prime_ms=0.28, expected=100)
    assert not skip.pays_turn(500, PLAIN, backlog=1000, prime_ms=0.28, expected=50)
    assert not losing().pays_turn(500, PLAIN, backlog=1, prime_ms=0.1, expected=10_000)
    assert losing().pays_turn(500, PLAIN, backlog=0, prime_ms=0.1, expected=10_000)
    # Measured: 8 ms a token, so two saved; 280 ms of reading are 140 tokens, and must be won.
    good = losing(ms=16.0)
    assert not good.pays_turn(500, PLAIN, backlog=1000, prime_ms=0.28, expected=140)
    assert good.pays_turn(500, PLAIN, backlog=1000, prime_ms=0.28, expected=141)
    assert good.pays_turn(500, PLAIN, backlog=1000, prime_ms=0.0, expected=1)


def test_it_can_be_saved():
    skip, other = losing(), NeverSlower()
    skip.observe_plain(500, PLAIN)
    other.load_dict(json.loads(json.dumps(skip.to_dict())))
    assert other.to_dict() == skip.to_dict()
    assert other.is_losing(500, PLAIN)
    with pytest.raises(ValueError, match="unpack"):
        other.load_dict({"1024": [1.0]})
    with pytest.raises(ValueError, match="slow"):
        other.load_dict({"1024": ["slow", 1, 1.0, 1, 1.0, 1, 16, 0]})
    with pytest.raises(TypeError):
        other.load_dict({"1024": None})
    assert other.to_dict() == skip.to_dict()  # nothing of those was taken


ROUNDS = st.lists(
    st.tuples(st.sampled_from([500, 5000]), st.floats(1.0, 200.0), st.integers(1, 16)),
    max_size=60,
)


@given(ROUNDS, ROUNDS)
def test_what_was_saved_goes_on_alike(before, after):
    skip, other = NeverSlower(), NeverSlower()

    def play(each, rounds):
        said = []
        for context, ms, tokens in rounds:
            said.append(each.wants_draft(context, PLAIN))
            if said[-1]:
                each.observe_drafted(context, ms, tokens, PLAIN)
            else:
                assert each.is_losing(context, PLAIN)
                each.observe_plain(context, PLAIN)
        return said

    play(skip, before)
    other.load_dict(json.loads(json.dumps(skip.to_dict())))
    assert play(other, after) == play(skip, after)
    assert other.to_dict() == skip.to_dict()
