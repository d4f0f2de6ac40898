"""Law 4 on the prefill grid: a prompt's pages and its state there do not depend on what follows."""

import numpy as np
import pytest

from tests.laws.bench import VOCAB, Bench
from tests.laws.states import AWAY, HOME, PAGE, committed, differing, fork, poison_unused

GRID = 2 * PAGE  # tokens that the prompts share


@pytest.fixture(scope="module")
def prompts():
    """Three prompts that share two pages and differ in length and text behind them."""
    rng = np.random.default_rng(40)
    shared = rng.integers(0, VOCAB, GRID).tolist()
    return [shared + rng.integers(0, VOCAB, n).tolist() for n in (1, 40, 100)]


def cold(bench: Bench, prompt, place=HOME):
    """(state, first token, what the shared pages left) of a prefill from nothing."""
    state = bench.poisoned()
    for start in range(0, GRID, PAGE):
        state, _ = bench.chunk(state, prompt, start, place)
    on_grid = committed(state, place, GRID)
    pick = -1
    for start in range(GRID, len(prompt), PAGE):
        state, pick = bench.chunk(state, prompt, start, place)
    return state, pick, on_grid


def test_the_grid_does_not_see_what_follows(bench, prompts):
    states = [cold(bench, prompt) for prompt in prompts]
    for state, _, on_grid in states:
        assert differing(on_grid, states[0][2]) == []
        later = committed(state, HOME, GRID)
        assert (later.k.tobytes(), later.v.tobytes()) == (on_grid.k.tobytes(), on_grid.v.tobytes())


def test_a_prefill_continued_from_the_grid_equals_a_cold_one(bench, prompts):
    """The grid's state comes from one prompt, the rest from another, with a use in between."""
    state = bench.poisoned()
    for start in range(0, GRID, PAGE):
        state, _ = bench.chunk(state, prompts[0], start)
    on_grid = poison_unused(state, [(HOME, GRID)])
    for prompt in prompts:
        resumed, pick = fork(on_grid), -1
        for start in range(GRID, len(prompt), PAGE):
            resumed, pick = bench.chunk(resumed, prompt, start)
        wanted, wanted_pick, _ = cold(bench, prompt)
        assert pick == wanted_pick
        size = len(prompt)
        assert differing(committed(resumed, HOME, size), committed(wanted, HOME, size)) == []


def test_where_a_prompt_lies_moves_nothing(bench, prompts):
    here, pick, _ = cold(bench, prompts[2])
    there, pick_there, _ = cold(bench, prompts[2], AWAY)
    size = len(prompts[2])
    assert pick_there == pick
    assert differing(committed(there, AWAY, size), committed(here, HOME, size)) == []


def test_a_used_slot_starts_like_a_fresh_one(bench, prompts):
    """A first chunk takes nothing over from the request that had the slot before."""
    wanted, wanted_pick, _ = cold(bench, prompts[0])
    used, _, _ = cold(bench, prompts[2])
    used, pick = bench.prefill(used, prompts[0])
    assert pick == wanted_pick
    size = len(prompts[0])
    assert differing(committed(used, HOME, size), committed(wanted, HOME, size)) == []
