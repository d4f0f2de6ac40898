"""Greedy text is a function of the prompt, whoever drafts: the laws at the height of the engine."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_jax.drafters import DRAFTERS, make_drafter
from tandem_jax.drafters.protocol import TruthDrafter
from tandem_jax.sampling.params import SamplingParams
from tests.drafters.scripted import ScriptedDrafter
from tests.laws.bench import VOCAB, random_prompt
from tests.laws.growth import random_tree
from tests.laws.states import Place, committed, differing
from tests.laws.texts import PlainTexts, answer


class ForestDrafter(TruthDrafter):
    """Trees of `tests.laws.growth` with a scripted number of nodes a round."""

    name = "forest"

    def __init__(self, *, counts, seed):
        super().__init__(vocab_size=VOCAB, seed=seed)
        self._counts = counts

    def propose(self, anchor, max_nodes, max_depth):
        turn = len(self._committed)
        count = min(self._counts[turn % len(self._counts)], max_nodes)
        truth = self.upcoming(anchor, max_depth)
        tree = random_tree(np.random.default_rng([self._seed, turn]), anchor, truth, count, VOCAB)
        kept = [node for node in range(len(tree)) if tree.depth[node] <= max_depth]
        return tree.subset(kept) if len(kept) > 1 else None


@pytest.fixture(scope="module")
def engine(bench):
    return bench.engine


@pytest.fixture(scope="module")
def plain_text(engine):
    return PlainTexts(engine)


@pytest.fixture(scope="module")
def copying_prompt():
    """A prompt that repeats itself, so that lookup finds something."""
    return random_prompt(25) * 3


def test_the_engine_writes_what_the_bench_decodes(bench, plain_text):
    for n_prompt in (1, 150):
        plain = bench.plain(n_prompt)
        assert plain_text(random_prompt(n_prompt), plain.steps + 1) == plain.tokens


@pytest.mark.parametrize("name", [name for name in DRAFTERS if name != "dflash2"])
def test_every_drafter_writes_the_same_text(engine, plain_text, copying_prompt, name):
    truth = plain_text(copying_prompt, 160)
    drafter = make_drafter(name, vocab_size=VOCAB, seed=1)
    got = answer(engine, copying_prompt, 160, drafter, truth=truth)
    assert got.tokens == truth
    assert (got.drafted > 0) == (name != "none")
    if name in ("half-right", "random"):
        assert got.accepted > 20
        assert set(got.sources) == {"target", name}
    if name in ("none", "wrong"):
        assert (got.accepted, set(got.sources)) == (0, {"target"})


def test_rounds_with_and_without_drafts(bench, engine):
    """Reports A1 and A2: the text, and the state after every single round."""
    plain = bench.plain(40, 256)
    drafter = ScriptedDrafter(counts=(3, 0, 2, 0, 0, 4), vocab_size=VOCAB)
    fed = [0]

    def compare(tree, path):
        fed.append(fed[-1] + len(path))
        slot = next(slot for slot, held in enumerate(engine.pages.held) if held)
        place = Place(slot, engine.pages.table[slot])
        found = committed(engine.state, place, plain.n_prompt + fed[-1])
        assert differing(found, plain.committed(fed[-1])) == []

    got = answer(engine, random_prompt(40), 257, drafter, truth=plain.tokens, on_tree=compare)
    assert got.tokens == plain.tokens
    assert drafter.drafted[:6] == [3, 0, 2, 0, 0, 4]
    assert got.accepted == got.drafted
    assert fed[1:7] == [4, 5, 8, 9, 10, 15]


@pytest.mark.parametrize("right", [None, 0], ids=["always right", "always wrong"])
def test_a_single_drafted_token(engine, plain_text, right):
    """Report A3: one drafted token a round over 512 tokens."""
    prompt = random_prompt(50)
    truth = plain_text(prompt, 512)
    drafter = ScriptedDrafter(counts=(1,), rights=(right,), vocab_size=VOCAB)
    got = answer(engine, prompt, 512, drafter, truth=truth)
    assert got.tokens == truth
    assert got.accepted == (got.drafted if right is None else 0)
    assert got.drafted == (255 if right is None else 510)


counts = st.lists(st.integers(0, 31), min_size=1, max_size=6)
rights = st.lists(st.none() | st.integers(0, 31), min_size=1, max_size=5)
prompts = st.sampled_from([1, 31, 32, 60, 64, 100]).map(random_prompt)


@given(counts=counts, rights=rights, prompt=prompts)
def test_hostile_chains(engine, plain_text, counts, rights, prompt):
    truth = plain_text(prompt, 60)
    drafter = ScriptedDrafter(counts=counts, rights=rights, vocab_size=VOCAB)
    assert answer(engine, prompt, 60, drafter, truth=truth).tokens == truth


@given(counts=counts, seed=st.integers(0, 1 << 30), prompt=prompts, lies=st.booleans())
def test_hostile_trees(engine, plain_text, counts, seed, prompt, lies):
    """Trees along the truth, or along another one, of any size and shape."""
    truth = plain_text(prompt, 60)
    told = truth[:1] + [(token + 1) % VOCAB for token in truth[1:]] if lies else truth
    got = answer(engine, prompt, 60, ForestDrafter(counts=counts, seed=seed), truth=told)
    assert got.tokens == truth


def test_two_requests_that_take_turns(engine, plain_text):
    """Rounds of two live requests interleave; each writes its own text."""
    prompts = [random_prompt(40), random_prompt(90)]
    truths = [plain_text(prompt, 60) for prompt in prompts]
    drafter = [
        ScriptedDrafter(counts=(5, 0, 9), rights=(3, None), vocab_size=VOCAB) for _ in prompts
    ]
    params = SamplingParams(max_tokens=60)
    runs = [
        engine.run(prompt, params, one, truth=truth)
        for prompt, one, truth in zip(prompts, drafter, truths, strict=True)
    ]
    texts, live = [[], []], [0, 1]
    while live:
        for i in list(live):
            event = next(runs[i], None)
            if event is None:
                live.remove(i)
            else:
                texts[i].extend(event.tokens)
    assert texts == truths
