"""A request gives its slot and pages back however it ends, and leaves nothing for the next one."""

import pytest

from tandem_jax.drafters import make_drafter
from tandem_jax.drafters.protocol import TruthDrafter
from tandem_jax.sampling.params import SamplingParams
from tests.drafters.scripted import ScriptedDrafter
from tests.laws.bench import VOCAB, random_prompt
from tests.laws.states import CONTEXT, PAGE, SLOTS
from tests.laws.texts import answer

POOL = SLOTS * (CONTEXT // PAGE)
PARAMS = SamplingParams(max_tokens=60)


class Fault(Exception):
    """Raised on purpose."""


class BrokenDrafter(TruthDrafter):
    """Fails in its third round."""

    name = "broken"

    def propose(self, anchor, max_nodes, max_depth):
        if len(self._committed) >= 3:
            raise Fault


def is_idle(engine):
    return (engine.pages.n_free, engine.pages.held) == (POOL, [0] * SLOTS)


def blocks():
    return ScriptedDrafter(counts=(4, 0, 9), rights=(None, None, 5), vocab_size=VOCAB)


@pytest.fixture(scope="module")
def prompt():
    return random_prompt(100)


@pytest.fixture(scope="module")
def truth(plain_text, prompt):
    return plain_text(prompt, 60)


@pytest.mark.parametrize("n_events", range(8))
def test_closing_frees_slot_and_pages(fresh_engine, prompt, truth, n_events):
    run = fresh_engine.run(random_prompt(70), PARAMS, blocks(), truth=truth[::-1])
    for _ in range(n_events):
        next(run)
    assert is_idle(fresh_engine) == (n_events == 0)
    run.close()
    assert is_idle(fresh_engine)
    # The next request finds the slot as on an engine that has served nobody.
    assert answer(fresh_engine, prompt, PARAMS, blocks(), truth=truth).tokens == truth
    assert is_idle(fresh_engine)


def test_a_forgotten_iterator_frees_too(fresh_engine, prompt):
    run = fresh_engine.run(prompt, PARAMS, blocks(), truth=[])
    next(run)
    assert fresh_engine.pages.held.count(0) == SLOTS - 1
    del run
    assert is_idle(fresh_engine)


def test_a_fault_in_the_drafter_frees(fresh_engine, prompt, truth):
    run = fresh_engine.run(prompt, PARAMS, BrokenDrafter(vocab_size=VOCAB), truth=truth)
    with pytest.raises(Fault):
        list(run)
    assert is_idle(fresh_engine)
    assert answer(fresh_engine, prompt, PARAMS).tokens == truth


def test_a_fault_while_prefilling_frees(fresh_engine, prompt, truth):
    def progress(phase, done, total):
        assert (phase, done, total) == ("prefill", PAGE, len(prompt))
        raise Fault

    none = make_drafter("none", vocab_size=VOCAB)
    with pytest.raises(Fault):
        list(fresh_engine.run(prompt, PARAMS, none, progress=progress))
    assert is_idle(fresh_engine)
    assert answer(fresh_engine, prompt, PARAMS).tokens == truth


def test_prefill_tells_its_progress(fresh_engine):
    told, none = [], make_drafter("none", vocab_size=VOCAB)
    params = SamplingParams(max_tokens=1)
    prompt = random_prompt(2 * PAGE + 3)
    list(fresh_engine.run(prompt, params, none, progress=lambda *p: told.append(p)))
    size = len(prompt)
    assert told == [("prefill", n, size) for n in (PAGE, 2 * PAGE, size)]


def test_more_requests_than_slots(fresh_engine, prompt, truth):
    none = make_drafter("none", vocab_size=VOCAB)
    runs = [fresh_engine.run(prompt, PARAMS, none) for _ in range(SLOTS + 1)]
    assert [next(run).tokens for run in runs[:SLOTS]] == [(truth[0],)] * SLOTS
    with pytest.raises(RuntimeError, match="no free slot"):
        next(runs[SLOTS])
    runs[0].close()
    assert answer(fresh_engine, prompt, PARAMS, blocks(), truth=truth).tokens == truth
    runs[1].close()
    assert is_idle(fresh_engine)


def test_fifty_equal_requests_have_equal_answers(engine, prompt, truth):
    """Report A12: the first token of an identical request never differs."""
    for _ in range(50):
        assert answer(engine, prompt, 4).tokens == truth[:4]
