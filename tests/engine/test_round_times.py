"""What a drafter hears of a round's price, and which buckets are compiled when."""

from tests.drafters.scripted import ScriptedDrafter
from tests.laws.bench import VOCAB, new_engine, random_prompt
from tests.laws.texts import answer


class ClockSpy(ScriptedDrafter):
    """Drafts by its script and notes every time it hears."""

    name = "clock spy"
    uses_model_head = True

    def __init__(self, **script):
        super().__init__(vocab_size=VOCAB, **script)
        self.times = []

    def measured(self, time):
        self.times.append(time)


def test_every_round_is_told_with_its_shape(engine, plain_text):
    spy = ClockSpy(counts=(3, 0), rights=(None,), wants=(True, False))
    got = answer(engine, random_prompt(20), 16, spy, truth=plain_text(random_prompt(20), 16))
    rounds = got.events[1:]
    assert [time.rows for time in spy.times] == [event.rows for event in rounds]
    assert [time.rows for time in spy.times[:4]] == [4, 1, 4, 1]
    assert [time.drafted for time in spy.times[:4]] == [True, False, True, False]
    assert all(time.is_chain for time in spy.times)
    # The prompt and the first token, then four tokens and one token in turn.
    assert [time.length for time in spy.times[:4]] == [21, 25, 26, 30]
    assert all(0 < time.ms <= event.round_ms for time, event in zip(spy.times, rounds, strict=True))


def test_a_round_that_compiled_is_not_told(platform, plain_text):
    cold, spy = new_engine(), ClockSpy(counts=(2, 12))
    truth = plain_text(random_prompt(20), 40)
    got = answer(cold, random_prompt(20), 40, spy, truth=truth)
    rounds = [("round", 1, rows) for rows in cold.row_buckets]
    n_compiled = sum(key in cold.executables.built for key in rounds)
    assert 1 <= n_compiled <= 2
    assert len(spy.times) == len(got.events) - 1 - n_compiled


def test_the_rest_is_compiled_one_by_one(platform):
    cold = new_engine()
    cold.warm_up(smallest=True)
    rest = cold.row_buckets[1:]
    assert set(cold.missing_rows()) == set(rest)
    assert all(ms > 0 for ms in cold.missing_rows().values())
    for left in range(len(rest), 0, -1):
        assert len(cold.missing_rows()) == left
        assert cold.compile_one()
    assert not cold.compile_one()
    assert cold.missing_rows() == {}
