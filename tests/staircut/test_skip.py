"""Never slower than the plain step: verdicts, probes, ageing, turns."""

import json

import pytest

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


def test_classes_are_apart():
    skip = losing(context=500)
    assert skip.is_losing(900, PLAIN)
    assert not skip.is_losing(5000, PLAIN)


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


def test_it_can_be_saved():
    skip, other = losing(), NeverSlower()
    skip.observe_plain(500, PLAIN)
    other.load_dict(json.loads(json.dumps(skip.to_dict())))
    assert other.to_dict() == skip.to_dict()
    assert other.is_losing(500, PLAIN)
    with pytest.raises(ValueError, match="unpack"):
        other.load_dict({"1024": [1.0]})
