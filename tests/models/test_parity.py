"""Our JAX model equals transformers' logits, on the prefill path and on the row path."""

import jax.numpy as jnp
import numpy as np
import pytest

from checkpoints.synthetic import tensor_values, tiny_dense_config, write_checkpoint
from tandem_jax.config import EngineConfig
from tandem_jax.engine.executables import pack_chunk
from tandem_jax.engine.steps import (
    RoundResult,
    StepOptions,
    compiled,
    empty_state,
    prefill_step,
    read_head,
    round_step,
)
from tandem_jax.loading import load_model
from tandem_jax.models.config import FULL, LINEAR
from tandem_jax.ops.plan import make_plan
from tandem_jax.tree import DraftTree
from tandem_jax.tree.rows import Seat, pack_trees
from tests.models.jax_forward import PARITY, Runner, largest, load_parity
from tests.models.numpy_forward import forward, mtp_forward

CASES = ("dense", "dense_tied", "vl")
TOLERANCE = 1e-4  # of float32 logits; dense_tied's have a standard deviation of 8
DEPTH = 4  # tokens of an MTP chain


@pytest.fixture(scope="module", params=CASES)
def case(request):
    """(Runner on pages of 64 tokens, reference arrays) of one fixture."""
    config, weights, reference = load_parity(request.param)
    return Runner(config, weights), reference


def test_the_fixtures_cover_both_heads_and_both_prefixes(case):
    runner, reference = case
    assert reference["logits"].shape == (97, runner.config.vocab) == (97, 256)
    assert runner.config.family in (
        "Qwen3_5ForCausalLM",
        "Qwen3_5ForConditionalGeneration",
    )
    assert (runner.weights.head is None) == runner.config.tied
    assert 0.9 < reference["logits"].std() < 9


def test_prefill_over_a_page_border(case):
    runner, reference = case
    logits, _ = runner.prefill(reference["ids"], runner.state())
    assert largest(logits, reference["logits"]) <= TOLERANCE


@pytest.mark.slow
def test_rows_one_by_one_and_in_chains_of_every_bucket(case):
    """Each pass is committed; the page border lies inside a chain."""
    runner, reference = case
    ids = reference["ids"]
    plain = runner.decode(ids, 8, length=1)
    assert largest(plain, reference["logits"]) <= TOLERANCE
    # Two layers or four, the row code is the same: the small models leave out one compilation.
    for rows in (8, 16, 32) if len(runner.config.kinds) == 4 else (8, 16):
        logits = runner.decode(ids, rows, first=5)
        assert largest(logits, reference["logits"]) <= TOLERANCE
        np.testing.assert_array_equal(logits, plain)


def test_rows_after_a_prefill(case):
    runner, reference = case
    ids = reference["ids"]
    logits, state = runner.prefill(ids[:40], runner.state())
    rest = runner.decode(ids[40:], 16, first=3, state=state, start=40)
    assert largest(np.concatenate([logits, rest]), reference["logits"]) <= TOLERANCE


def test_prefill_in_one_chunk():
    config, weights, reference = load_parity("dense")
    runner = Runner(config, weights, page=128)
    logits, _ = runner.prefill(reference["ids"], runner.state())
    assert largest(logits, reference["logits"]) <= TOLERANCE
    # Transformers' own token-by-token decoding is another target, as far off as float32 is.
    assert largest(logits, reference["decode_logits"]) <= TOLERANCE


def test_rows_of_two_requests_in_one_pass():
    config, weights, reference = load_parity("dense")
    runner = Runner(config, weights, slots=2)
    ids = reference["ids"]
    prompts, steps, at = (ids, ids[::-1]), (7, 8), [0, 0]
    state, logits = runner.state(), ([], [])
    for _ in range(9):
        lines = [p[a : a + s] for p, a, s in zip(prompts, at, steps, strict=True)]
        parts, state = runner.chains(lines, at, state, 8)
        for slot, part in enumerate(parts):
            logits[slot].append(part)
            at[slot] += len(part)
    tensors, text = oracle_of("dense")
    for slot, prompt in enumerate(prompts):
        wanted = forward(tensors, text, prompt[: at[slot]]).logits
        assert largest(np.concatenate(logits[slot]), wanted) <= TOLERANCE


def oracle_of(case):
    """(tensors, config) of a fixture as the oracle wants them."""
    opened = load_model(PARITY / case).checkpoint
    return {name: opened.read(name) for name in opened.tensors}, opened.config


def oracle_draft(tensors, config, ids):
    """(tokens [K], probabilities [K]) that the oracle's MTP chain drafts behind ids [T]."""
    hidden, following = forward(tensors, config, ids[:-1]).hidden, list(ids[1:])
    tokens, probs = [], []
    for _ in range(DEPTH):
        positions = np.arange(1, len(following) + 1)
        logits, y = mtp_forward(tensors, config, hidden, np.array(following), positions)
        weights = np.exp(logits[-1] - logits[-1].max())
        tokens.append(int(np.argmax(weights)))
        probs.append(float(weights.max() / weights.sum()))
        hidden, following = np.concatenate([hidden, y[-1:]]), [*following, tokens[-1]]
    return tokens, probs


def oracle_next(tensors, config, ids):
    """The token that plain decoding puts behind ids."""
    return int(np.argmax(forward(tensors, config, np.array(ids)).logits[-1]))


class MtpSteps:
    """The engine's two jitted steps with the MTP head, on one slot."""

    def __init__(self, directory):
        self.model = load_model(directory)
        self.engine = EngineConfig(max_context=128, page_tokens=64, prefill_buckets=(64,))
        self.state = empty_state(self.model.config, self.engine, mtp_cache=True)
        self.pages = np.array([1, 0], np.int32)
        bound = (self.model.config, make_plan("cpu"))
        options = StepOptions(mtp_depth=DEPTH)
        self.chunk_step = compiled(prefill_step, *bound, 64, options)
        self.round_step = compiled(round_step, *bound, 8, options)

    def prefill(self, ids):
        """(picked token, drafted tokens, their probabilities) after a prompt."""
        for start in range(0, len(ids), 64):
            part, end = ids[start : start + 64], start + 64
            upcoming = int(ids[end]) if end < len(ids) else -1
            packed = pack_chunk(0, start, part, upcoming, 64, self.pages)
            self.state, out, _ = self.chunk_step(self.model.weights, self.state, packed)
        out = np.asarray(out)
        head = read_head(out[1:], None)
        return int(out[0]), head.tokens.tolist(), head.probs

    def verify(self, tree, length):
        """The result of a round whose root stands at position `length`."""
        packed = pack_trees([tree], [Seat(0, length, 8, self.pages)], 8)
        self.state, out, _ = self.round_step(self.model.weights, self.state, packed)
        return RoundResult.from_line(np.asarray(out)[0], 8)


@pytest.mark.slow
@pytest.mark.parametrize("n_prompt", [62, 70], ids=["border in a round", "border in the prompt"])
def test_the_mtp_chain_equals_the_oracle(tmp_path, n_prompt):
    text = tiny_dense_config(num_hidden_layers=2, layer_types=[LINEAR, FULL])
    directory = write_checkpoint(tmp_path / "ck", text, seed=5, mtp=True)
    tensors = tensor_values(text, seed=5, mtp=True)
    steps = MtpSteps(directory)
    assert steps.model.config.mtp
    prompt = np.random.default_rng(n_prompt).integers(0, 256, n_prompt, np.int32)
    pick, tokens, probs = steps.prefill(prompt)
    ids = [*prompt.tolist(), pick]
    assert pick == oracle_next(tensors, text, prompt)
    wanted = oracle_draft(tensors, text, np.array(ids))
    assert tokens == wanted[0]
    assert largest(probs, wanted[1]) <= TOLERANCE
    # How many right tokens each round's tree holds below a decoy branch, and how it goes on.
    for n_right in (2, 0, 3):
        right = list(ids)
        for _ in range(n_right + 1):
            right.append(oracle_next(tensors, text, right))
        right = right[len(ids) :]
        decoys = [(token + 1) % 256 for token in right]
        line = [*right[:n_right], decoys[n_right]]
        chain = range(1, len(line))
        draft = [ids[-1], decoys[0], *line] if n_right else [ids[-1]]
        parents = [-1, 0, 0, *(i + 1 for i in chain)] if n_right else [-1]
        tree = DraftTree.from_parents(draft, parents, source="random")
        result = steps.verify(tree, len(ids) - 1)
        ids += right
        assert len(result.path) == n_right + 1
        assert result.bonus == right[-1]
        wanted = oracle_draft(tensors, text, np.array(ids))
        assert result.head.tokens.tolist() == wanted[0]
        assert largest(result.head.probs, wanted[1]) <= TOLERANCE
    assert bool(jnp.isfinite(steps.state.mtp_kv.k).all())
