"""What a round may cost: no compilation after warm-up, one dispatch, one small read."""

from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np

from tandem_jax.drafters import make_drafter
from tandem_jax.engine.steps import TRACES
from tests.drafters.scripted import ScriptedDrafter
from tests.laws.bench import VOCAB, drafted_engine, new_engine, random_prompt, tiny_drafter
from tests.laws.states import PAGE
from tests.laws.texts import answer

N_ROUNDS = 300


@contextmanager
def compile_events():
    """Names of JAX's tracing, lowering and compiling events while the block runs."""
    seen = []

    def listen(event, duration, **_):
        if event.startswith("/jax/core/compile"):
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seen
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def test_the_listener_hears_a_compilation(platform):
    with compile_events() as seen:
        jax.jit(lambda x: x * 3)(jnp.ones(7))
    assert any("backend_compile" in event for event in seen)


def test_warm_up_builds_every_bucket_and_nothing_else(engine):
    rounds = {("round", 1, rows) for rows in engine.row_buckets}
    assert rounds | {("prefill", 1, PAGE)} <= set(engine.executables.built)
    told = []
    engine.warm_up(lambda *progress: told.append(progress))
    assert told == []


def test_random_rounds_compile_nothing(engine, plain_text):
    truths = [(random_prompt(n), plain_text(random_prompt(n), 100)) for n in (3, 64, 130)]
    before, rounds, buckets, seed = dict(TRACES), 0, set(), 0
    with compile_events() as seen:
        while rounds < N_ROUNDS:
            prompt, truth = truths[seed % len(truths)]
            drafter = make_drafter("random", vocab_size=VOCAB, seed=seed)
            got = answer(engine, prompt, 100, drafter, truth=truth)
            assert got.tokens == truth
            rounds += len(got.events) - 1
            buckets |= {-(-event.rows // 8) for event in got.events[1:]}
            seed += 1
    assert seen == []
    assert dict(TRACES) == before
    assert buckets == {1, 2, 3, 4}


class Sealed:
    """An array or state that only the next step may open."""

    def __init__(self, value):
        self.value = value


class Counted:
    """An array that counts its reads."""

    def __init__(self, value, tally):
        self._value, self._tally = value, tally

    def __array__(self, dtype=None, copy=None):
        self._tally["reads"] += 1
        return np.asarray(self._value, dtype)


def counted(step, tally):
    """A step that counts its calls and lets the host read nothing but the packed result."""

    def call(weights, state, packed):
        tally["dispatches"] += 1
        tally["host arguments"] += isinstance(packed, np.ndarray)
        state, result, logits = step(weights, state.value, packed)
        tally["bytes read"] += result.nbytes
        return Sealed(state), Counted(result, tally), Sealed(logits)

    return call


def tallied(engine, monkeypatch):
    """Counts what `engine` does with the device from now on."""
    tally = dict.fromkeys(("dispatches", "host arguments", "bytes read", "reads"), 0)
    steps = {key: counted(step, tally) for key, step in engine.executables.built.items()}
    monkeypatch.setattr(engine.executables, "built", steps)
    engine.state = Sealed(engine.state)
    return tally


def test_a_round_is_one_dispatch_and_one_small_read(fresh_engine, plain_text, monkeypatch):
    prompt = random_prompt(130)
    truth = plain_text(prompt, 100)
    tally = tallied(fresh_engine, monkeypatch)
    drafter = ScriptedDrafter(counts=(3, 0, 20, 9), rights=(None, 2), vocab_size=VOCAB)
    got = answer(fresh_engine, prompt, 100, drafter, truth=truth)
    assert got.tokens == truth
    chunks = -(-len(prompt) // PAGE)
    calls = chunks + len(got.events) - 1
    assert (tally["dispatches"], tally["reads"], tally["host arguments"]) == (calls, calls, calls)
    # Path length, bonus token, the path, and the MTP head's tokens and probabilities.
    widest = 4 * (2 + fresh_engine.row_buckets[-1] + 2 * fresh_engine.config.mtp_depth)
    assert tally["bytes read"] <= widest * calls


def test_a_block_drafter_adds_neither_a_dispatch_nor_a_read(plain_text, monkeypatch):
    """Its lattice rides in the same packed result; after warm-up nothing compiles."""
    prompt, n_tokens = random_prompt(130), 60
    truth = plain_text(prompt, n_tokens)
    engine = new_engine(draft=tiny_drafter())
    engine.executables = drafted_engine().executables
    rows = engine.row_buckets[0]
    engine.executables.build([("round", 1, rows), ("prefill", 1, PAGE)], None)
    before, tally = dict(TRACES), tallied(engine, monkeypatch)
    with compile_events() as seen:
        got = answer(engine, prompt, n_tokens, make_drafter("dflash2", vocab_size=VOCAB))
    assert got.tokens == truth
    assert got.drafted > n_tokens
    assert (seen, dict(TRACES)) == ([], before)
    calls = -(-len(prompt) // PAGE) + len(got.events) - 1
    assert (tally["dispatches"], tally["reads"], tally["host arguments"]) == (calls, calls, calls)
    slots, k = engine.options.draft.slots, engine.options.draft.top_k
    lattice = slots * k * (1 + k)
    chunks = -(-len(prompt) // PAGE)
    exact = chunks * (1 + lattice) + (calls - chunks) * (2 + rows + lattice)
    assert tally["bytes read"] == 4 * exact
