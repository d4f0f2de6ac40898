"""Pages are handed out as a request grows, and a verify may straddle two of them."""

import pytest

from tandem_jax.drafters import make_drafter
from tandem_jax.sampling.params import SamplingParams
from tests.drafters.scripted import ScriptedDrafter
from tests.laws.bench import VOCAB, random_prompt, tiny_bench
from tests.laws.states import PAGE, Place, committed, differing
from tests.laws.texts import answer

N_PROMPT = 60
PARAMS = SamplingParams(max_tokens=49)


@pytest.fixture(scope="module")
def plain(engine):
    return tiny_bench().plain(N_PROMPT)


def place_of(engine):
    """Where the one running request lives."""
    (slot,) = (slot for slot, held in enumerate(engine.pages.held) if held)
    return Place(slot, engine.pages.table[slot])


def test_plain_decoding_takes_a_page_when_it_needs_one(fresh_engine, plain):
    none, fed = make_drafter("none", vocab_size=VOCAB), 0
    for event in fresh_engine.run(random_prompt(N_PROMPT), PARAMS, none):
        fed += event.rows
        place = place_of(fresh_engine)
        assert fresh_engine.pages.held[place.slot] == -(-(N_PROMPT + fed) // PAGE)
        found = committed(fresh_engine.state, place, N_PROMPT + fed)
        assert differing(found, plain.committed(fed)) == []
    assert fed == 48


@pytest.mark.parametrize("n_right", [0, 2, 3, 4, 8])
def test_a_verify_that_straddles_two_pages(fresh_engine, plain, n_right):
    """Rows at positions 60 to 68: the border lies behind the fourth."""
    drafter = ScriptedDrafter(counts=(8,), rights=(n_right,), vocab_size=VOCAB)
    fed = [0]

    def compare(tree, path):
        assert (len(tree), len(path)) == (9, 1 + n_right)
        fed.append(fed[-1] + len(path))
        place = place_of(fresh_engine)
        found = committed(fresh_engine.state, place, N_PROMPT + fed[-1])
        assert differing(found, plain.committed(fed[-1])) == []

    run = fresh_engine.run(
        random_prompt(N_PROMPT), PARAMS, drafter, truth=plain.tokens, on_tree=compare
    )
    texts = [next(run).tokens, next(run).tokens, next(run).tokens]
    run.close()
    tokens = [token for text in texts for token in text]
    assert tokens == plain.tokens[: 3 + 2 * n_right]
    assert fed == [0, 1 + n_right, 2 + 2 * n_right]


def test_a_whole_context_uses_every_page_of_a_slot(fresh_engine, plain_text):
    prompt = random_prompt(600)
    truth = plain_text(prompt, 40)
    held = []
    drafter = ScriptedDrafter(counts=(7, 31), rights=(None, 4), vocab_size=VOCAB)

    def note(tree, path):
        held.append(max(fresh_engine.pages.held))

    got = answer(fresh_engine, prompt, SamplingParams(), drafter, truth=truth, on_tree=note)
    assert got.tokens == truth
    assert held[-1] == fresh_engine.config.pages_per_slot == 10
