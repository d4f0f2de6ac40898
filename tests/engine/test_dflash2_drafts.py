"""The block drafter beside the steps: its lattice against the oracle, its context row by row."""

from contextlib import closing

import numpy as np
import pytest

from checkpoints.synthetic import tensor_values
from checkpoints.synthetic_drafter import drafter_values
from tandem_jax.engine.executables import pack_chunk
from tandem_jax.sampling.params import SamplingParams
from tandem_jax.tree import DraftTree
from tests.drafters.scripted import ScriptedDrafter
from tests.laws.bench import (
    CONFIG,
    DRAFTER,
    SEED,
    VOCAB,
    drafted_bench,
    drafted_engine,
    new_engine,
    random_prompt,
    tiny_drafter,
)
from tests.laws.states import HOME, PAGE, Place
from tests.models import numpy_dflash2 as oracle
from tests.models.numpy_forward import forward

TOLERANCE = 1e-4
PARAMS = SamplingParams(max_tokens=24)
CACHE = ("k", "v")


class LatticeSpy(ScriptedDrafter):
    """Drafts by its script and notes the lattice beside each step."""

    name = "lattice spy"
    uses_draft_model = True

    def __init__(self, **script):
        super().__init__(vocab_size=VOCAB, **script)
        self.lattices = []

    def observe(self, tokens, head):
        super().observe(tokens, head)
        self.lattices.append(head)


@pytest.fixture(scope="module")
def engine(platform):
    return drafted_engine()


@pytest.fixture(scope="module")
def tensors():
    """(target's, drafter's) values."""
    return tensor_values(CONFIG, seed=SEED, mtp=True), drafter_values(DRAFTER, seed=SEED)


def check_lattice(lattice, tensors, config, ids):
    """The lattice behind `ids`, whose last one is the anchor, is the oracle's."""
    target, drafter = tensors
    entering = target["embed_tokens.weight"].astype(np.float64)[ids[:-1]]
    streams = [entering, *forward(target, CONFIG, np.array(ids[:-1])).layers]
    taps = np.stack([streams[layer] for layer in config.taps])
    context = oracle.context_of(drafter, DRAFTER, taps)
    block = [ids[-1]] + [config.mask_id] * config.slots
    rows = (drafter, DRAFTER, target["embed_tokens.weight"], context, block)
    hidden = oracle.block_hidden(*rows)[1:]
    logits = hidden @ target["lm_head.weight"].astype(np.float64).T
    best = np.argsort(-logits, axis=-1, kind="stable")[:, : config.top_k]
    assert lattice.cand.tolist() == best.tolist()
    unary = np.take_along_axis(logits, best, axis=1)
    scores = oracle.selector_scores(drafter, hidden, ids[-1], best, unary)
    np.testing.assert_allclose(lattice.scores, scores, rtol=0, atol=TOLERANCE)
    assert lattice.temperature == 1.4


@pytest.mark.parametrize("n_prompt", [1, 2, 64, 150])
def test_after_prefill(engine, tensors, n_prompt):
    """Within the first page, up to its border, and behind several chunks."""
    prompt, spy = random_prompt(n_prompt), LatticeSpy(counts=(0,))
    with closing(engine.run(prompt, PARAMS, spy, truth=[])) as run:
        (first,) = next(run).tokens
    check_lattice(spy.lattices[0], tensors, engine.options.draft, [*prompt, first])


@pytest.mark.parametrize("n_right", [0, 1, 4, 6])
def test_after_rounds_that_accepted_drafts(engine, tensors, n_right):
    """Six drafted, some of them right: rejected rows never enter the context."""
    prompt = random_prompt(60)
    truth = drafted_bench().plain(60).tokens
    spy, text = LatticeSpy(counts=(6,), rights=(n_right,)), []
    with closing(engine.run(prompt, PARAMS, spy, truth=truth)) as run:
        for turn in range(4):
            event = next(run)
            text.extend(event.tokens)
            check_lattice(spy.lattices[turn], tensors, engine.options.draft, prompt + text)
            assert event.accepted == (n_right if turn else 0)
    assert text == truth[: len(text)]


def test_rounds_without_a_draft_keep_the_context_in_sync(engine, tensors):
    """Nothing is heard in rounds that ask for no draft, and the next lattice is the oracle's."""
    prompt = random_prompt(60)
    truth = drafted_bench().plain(60).tokens
    spy, text = LatticeSpy(counts=(6,), rights=(3, 0, 2), wants=(False, True, False)), []
    with closing(engine.run(prompt, PARAMS, spy, truth=truth)) as run:
        for turn in range(6):
            text.extend(next(run).tokens)
            if turn in (0, 2, 5):
                check_lattice(spy.lattices[turn], tensors, engine.options.draft, prompt + text)
            else:
                assert spy.lattices[turn] is None
    assert text == truth[: len(text)]


def context(state, place, length):
    """Keys and values [2, L, length, G, D] of the drafter's context."""
    page, row = place.cells(length)
    return np.stack([np.array(getattr(state.draft_kv, name))[:, page, row] for name in CACHE])


def test_the_context_holds_exactly_the_tokens_before_the_anchor():
    """A prompt of one whole page, so that prefill leaves nothing behind its end."""
    fresh = new_engine(draft=tiny_drafter())
    fresh.executables = drafted_engine().executables
    truth = drafted_bench().plain(PAGE).tokens
    drafter = LatticeSpy(counts=(7, 0, 3), rights=(None, 2, 0))
    fed = 0
    for event in fresh.run(random_prompt(PAGE), PARAMS, drafter, truth=truth):
        fed += event.accepted + 1 if event.rows else 0
        slot = next(slot for slot, held in enumerate(fresh.pages.held) if held)
        place = Place(slot, fresh.pages.table[slot])
        wanted = np.zeros(fresh.state.draft_kv.k.shape[1:3], bool)
        wanted[place.cells(PAGE + fed)] = True
        for name in CACHE:
            held = ~np.isnan(np.array(getattr(fresh.state.draft_kv, name)))
            assert (held.all(axis=(0, 3, 4)) == wanted).all()
            assert (held.any(axis=(0, 3, 4)) == wanted).all()
    assert fed == 23


def test_rounds_keep_the_context_of_a_cold_prefill():
    """Chains with right and wrong ends, then the same tokens as one prompt."""
    bench = drafted_bench()
    plain = bench.plain(50)
    state, fed = plain.fork(), 0
    drafter = LatticeSpy(counts=(7, 0, 4), rights=(None, 2))
    drafter.reset([], truth=plain.tokens)
    drafter.observe(plain.tokens[:1], None)
    while fed < 40:
        tree = drafter.propose(plain.tokens[fed], 7, 7)
        tree = tree or DraftTree.root_only(plain.tokens[fed])
        state, result, _ = bench.round(state, tree, plain.n_prompt + fed)
        drafter.observe(plain.tokens[fed + 1 : fed + 1 + len(result.path)], result.head)
        fed += len(result.path)
    text = random_prompt(50) + plain.tokens[:fed]
    cold, _ = bench.prefill(bench.poisoned(), text)
    ours, wanted = (context(x, HOME, len(text)) for x in (state, cold))
    assert np.isfinite(wanted).all()
    assert np.abs(wanted).max() > 1
    np.testing.assert_allclose(ours, wanted, rtol=0, atol=TOLERANCE)


def test_a_chunk_before_the_last_drafts_nothing():
    """The block pass runs behind the whole prompt only; earlier chunks return zeros."""
    bench, prompt = drafted_bench(), random_prompt(100)
    results = []
    built = bench.engine.executables.get(("prefill", 1, PAGE))
    state = bench.poisoned()
    for start in (0, PAGE):
        tokens = np.array(prompt[start : start + PAGE], np.int32)
        upcoming = prompt[PAGE] if start == 0 else -1
        packed = pack_chunk(HOME.slot, start, tokens, upcoming, PAGE, HOME.pages)
        state, out, _ = built(bench.engine.model.weights, state, packed)
        results.append(np.asarray(out)[1:])
    assert not results[0].any()
    assert results[1].any()
