"""Self-generation: the step is the model, rows are packed as promised, loops are found."""

import json
from itertools import pairwise
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tools.train.decode import decode_step, empty_state, fused
from tools.train.drafter_data import load_generated
from tools.train.generate import greedy_references, judge_rows, parse, run, summary
from tools.train.model import forward, init_params, logits_of
from tools.train.packing import PATIENCE, Plan, Prompts, Writer
from tools.train.repeats import has_loop, looped_tokens
from tools.train.shapes import ModelShape
from tools.train.tokenizer import load_tokenizer

NANO = Path(__file__).resolve().parents[2] / "checkpoints" / "demo" / "nano"
TINY = ModelShape(d_model=32, n_layers=4, d_ffn=48, key_heads=1, value_heads=2, d_delta=16,
                  query_heads=4, kv_heads=2, d_head=16, vocabulary=64)
END, STOP = 63, 62


@pytest.fixture(scope="module")
def tiny():
    params = init_params(jax.random.key(0), TINY)
    # Larger weights than a fresh model's, so that picks differ from place to place.
    return jax.tree.map(lambda x: 4 * x if x.ndim > 1 else x, params)


@jax.jit
def _logits(params, tokens, segments):
    hidden = forward(params, tokens, segments, TINY, dtype=jnp.float32, remat=False,
                     sequential=True)
    return logits_of(params, hidden)


def true_logits(params, tokens, segments):
    return np.asarray(_logits(params, jnp.asarray(tokens), jnp.asarray(segments)))


def test_steps_equal_the_whole_row_over_document_borders(tiny):
    rng = np.random.default_rng(1)
    tokens = rng.integers(0, 64, (3, 20)).astype(np.int32)
    segments = np.sort(rng.integers(0, 4, (3, 20)), 1)
    weights, state = fused(tiny, TINY, jnp.float32), empty_state(TINY, 3, 20, jnp.float32)
    found = []
    for at in range(20):
        begin = segments[:, at] != segments[:, at - 1] if at else np.ones(3, bool)
        logits, state = decode_step(weights, state, jnp.asarray(tokens[:, at]),
                                    jnp.asarray(begin), jnp.int32(at), TINY)
        found.append(np.asarray(logits))
    np.testing.assert_allclose(np.stack(found, 1), true_logits(tiny, tokens, segments), atol=2e-4,
                               rtol=2e-4)


@pytest.fixture(scope="module")
def batch(tiny):
    """One batch of 8 rows x 64 tokens over prompts of 3 to 9 tokens that differ."""
    rng = np.random.default_rng(2)
    sizes = rng.integers(3, 10, 40).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    limit = rng.integers(2, 12, 40).astype(np.int32)
    ids = rng.integers(0, 60, starts[-1]).astype(np.uint16)
    prompts = Prompts(*map(jnp.asarray, (ids, starts[:-1], sizes, limit)))
    plan = Plan(TINY, rows=8, length=64, stops=(STOP,), end=END, dtype=jnp.float32)
    writer = Writer(plan, fused(tiny, TINY, jnp.float32), prompts)
    *parts, taken = writer.batch(5, jax.random.key(0))
    tokens, written, number = (np.asarray(part).T for part in parts)
    return plan, [ids[a:b].tolist() for a, b in pairwise(starts)], limit, (
        tokens, written, number, int(taken))


def documents(tokens, written, number):
    """Yield (row, prompt number, tokens, written) of every document of a batch."""
    for row in range(len(tokens)):
        cuts = [0, *(np.flatnonzero(tokens[row] == END) + 1).tolist(), tokens.shape[1]]
        for a, b in pairwise(cuts):
            if a < b:
                yield row, int(number[row, a]), tokens[row, a:b].tolist(), written[row, a:b]


def test_rows_hold_prompt_answer_and_end_in_turn(batch):
    plan, prompts, limit, (tokens, written, number, taken) = batch
    assert tokens.shape == (8, 65)
    numbers, forced = [], 0
    for _, at, text, marks in documents(tokens, written, number):
        numbers.append(at)
        size = min(len(prompts[at]), len(text))
        assert text[:size] == prompts[at][:size]
        assert not marks[:size].any()
        answer, inside = text[size:], marks[size:]
        assert inside.sum() <= limit[at]
        assert all(inside[:-1])
        if answer and answer[-1] == END and not inside[-1]:
            forced += 1
            assert answer[-2] == STOP or inside.sum() == limit[at]  # none of these loops
        assert STOP not in answer[:-2]
    # Prompts are taken one after the other, from the sixth on, and none twice before the last.
    expected = [at % 40 for at in range(5, taken)]
    assert sorted(numbers) == sorted(expected)
    assert taken > 5 + 8
    assert forced > 5
    assert plan.sampled == 1


def test_greedy_rows_are_the_argmax_of_the_whole_row(tiny, batch):
    plan, _, _, (tokens, written, _, _) = batch
    ended = tokens == END
    segments = np.cumsum(ended, 1) - ended
    logits = true_logits(tiny, tokens[:, :-1].astype(np.int32), segments[:, :-1])
    best, two = logits.argmax(-1), np.sort(logits, -1)[..., -2:]
    clear = written[:, 1:] & (two[..., 1] - two[..., 0] > 1e-3)
    greedy = clear[plan.sampled:]
    assert greedy.sum() > 100
    assert (best[plan.sampled:][greedy] == tokens[plan.sampled:, 1:][greedy]).all()
    sampled = clear[:plan.sampled]
    assert (best[:plan.sampled][sampled] != tokens[:plan.sampled, 1:][sampled]).any()


def test_a_loop_closes_the_answer(tiny):
    # A body of zeros and a head that knows one pattern: token t is always followed by t + 1 mod 8.
    still = jax.tree.map(lambda x: 0 * x, tiny)
    table = jnp.eye(64, 32).at[8:].set(0)
    head = jnp.zeros((64, 32)).at[(jnp.arange(8) + 1) % 8, jnp.arange(8)].set(1.0)
    params = {**still, "embed": table, "head": head}
    prompts = Prompts(*map(jnp.asarray, (np.array([3, 4], np.uint16), *np.array(
        [[0, 1], [1, 1], [200, 20]], np.int32))))
    plan = Plan(TINY, rows=2, length=128, stops=(STOP,), end=END, dtype=jnp.float32)
    writer = Writer(plan, fused(params, TINY, jnp.float32), prompts)
    tokens, written, _ = (np.asarray(part).T for part in writer.batch(0, jax.random.key(0))[:3])
    # 24 tokens are three periods of 8, then the patience; one prompt token is not written.
    ends = np.flatnonzero(tokens[0] == END)
    assert written[0, :ends[0]].sum() == 24 + PATIENCE - 1
    assert tokens[0, :ends[0]].tolist() == [(3 + at) % 8 for at in range(24 + PATIENCE)]
    assert not written[0, ends[0]]
    # The other prompt's limit of 20 comes first.
    assert written[1, :np.flatnonzero(tokens[1] == END)[0]].sum() == 20


def test_references_continue_each_prompt_alone(tiny):
    prompts = [[3, 5, 8], [1, 4, 9, 16, 25, 36, 49], [7]]
    together = greedy_references(tiny, prompts, 6, shape=TINY)
    for prompt, found in zip(prompts, together, strict=True):
        row = list(prompt)
        for _ in range(6):
            padded = np.array([row + [0] * (16 - len(row))], np.int32)
            logits = true_logits(tiny, padded, np.zeros_like(padded))
            row.append(int(logits[0, len(row) - 1].argmax()))
        assert found == row[len(prompt):]
    stop = together[1][2]
    cut = greedy_references(tiny, prompts[1:2], 6, shape=TINY, stops=(stop,))
    assert cut == [together[1][:together[1].index(stop) + 1]]


@pytest.mark.parametrize(("text", "from_place"), [
    ([1, 2, 3, 4, 5, 6, 7, 8] * 6, 24),  # the fourth period of 8
    (list(range(32)) * 4, 96),
    ([9] * 40, 17),  # a period of one must repeat 16 times
    (list(range(33)) * 4, None),  # a period of 33 is no loop
    (list(range(20)) * 3, None),  # three periods are allowed
    ([5] * 17, None),
])
def test_loops(text, from_place):
    tokens = np.array([text])
    expected = np.zeros(tokens.shape, bool)
    if from_place is not None:
        expected[0, from_place:] = True
    np.testing.assert_array_equal(looped_tokens(tokens, np.zeros_like(tokens)), expected)
    assert has_loop(text) == (from_place is not None)
    # A document border breaks the repetition.
    half = np.arange(tokens.shape[1])[None] * 2 // tokens.shape[1]
    assert looped_tokens(tokens, half).sum() < max(1, expected.sum())


def test_counts_of_a_batch():
    tokens = np.array([[1, 2, STOP, END, 3] + [4] * 20 + [END]])
    written = np.ones(tokens.shape, bool)
    written[0, [0, 3, 4, -1]] = False
    number = np.array([[0] * 4 + [1] * 22])
    kept, counts = judge_rows(tokens, written, number, stops=(STOP,), end=END,
                              family=np.array([1, 0]), names=["a", "b"])
    assert counts.tolist() == [[1, 0, 1, 20, 3], [1, 1, 0, 2, 0]]
    assert kept[0].sum() == 19
    assert summary(counts, ["a", "b"])["all"] == {
        "documents": 2, "written": 22, "stop_share": 0.5, "looping_documents": 0.5,
        "loop_share": round(3 / 22, 4)}
    assert not has_loop([])


@pytest.mark.slow
def test_command_writes_rows_of_nano(tmp_path):
    tokenizer = load_tokenizer(NANO / "tokenizer.json")
    (tmp_path / "tokenizer.json").write_bytes((NANO / "tokenizer.json").read_bytes())
    texts = ["<|im_start|>user\nWhat does \"lantern\" mean?<|im_end|>\n<|im_start|>assistant\n"
             "<think>\n\n</think>\n\n", "def add(a, b):\n", "It is a truth"]
    prompts = [tokenizer.encode(text).ids for text in texts]
    (tmp_path / "prompts").mkdir()
    np.savez(tmp_path / "prompts" / "prompts.train.npz", family_names=np.array(["chat", "text"]),
             tokens=np.concatenate([np.array(ids, np.uint16) for ids in prompts]),
             starts=np.cumsum([0, *map(len, prompts)]).astype(np.int32),
             family=np.array([0, 1, 1], np.uint8))
    said = []
    figures = run(parse(["--preset", "nano", "--target", str(NANO), "--data", str(tmp_path),
                         "--out", str(tmp_path / "out"), "--rows", "4", "--length", "192",
                         "--max-batches", "2", "--dtype", "float32"]), said.append)
    rows = load_generated(tmp_path / "out")
    assert rows.tokens.shape == (8, 193)
    assert figures["tokens"] == 2 * 4 * 192
    assert figures["all"]["written"] >= int(rows.written.sum()) > 400
    assert figures["outputs"] == rows.sha256
    assert json.loads((tmp_path / "out" / "figures.json").read_text()) == figures
    assert any("tokens/s" in line for line in said)
