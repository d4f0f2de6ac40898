"""Rounds on scripted proposals give known numbers; proposals see what a served round sees."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from tandem_jax.drafters.lookup import LookupDrafter
from tools.measure.acceptance import drafter_figures, figures_of, parse, rows_of, run, table_of
from tools.measure.common import Item, Target, read_workloads, shape_of_config
from tools.measure.proposals import BlockDrafter, Proposer, Row, load_drafters
from tools.measure.references import fill
from tools.measure.rounds import (
    Proposals,
    accepted_lengths,
    tally_drafter,
    tally_proposals,
    walk_rounds,
)
from tools.train.drafter_export import export_drafter
from tools.train.drafter_model import init_drafter
from tools.train.drafter_shapes import DRAFTERS, DrafterShape
from tools.train.model import forward, init_params, logits_of, mtp_forward
from tools.train.shapes import PRESETS, ModelShape, hf_config

NANO = Path(__file__).resolve().parents[2] / "checkpoints" / "demo" / "nano"
TINY = ModelShape(d_model=32, n_layers=4, d_ffn=48, key_heads=1, value_heads=2, d_delta=16,
                  query_heads=2, kv_heads=1, d_head=16, vocabulary=64)
TINY_DRAFTER = DrafterShape(d_model=32, n_layers=2, d_ffn=48, heads=2, kv_heads=1, d_head=16,
                            block=4, taps=(1, 3), target_layers=4, window=512, rank=4, mask_id=60,
                            vocabulary=64)


def scripted(reference, slots, wrong=()):
    """A drafter that is right except in the (anchor, slot) pairs given; wrong tokens are -1."""
    count = len(reference) - 1
    chain = np.full((count, slots), -1)
    for at in range(count):
        known = reference[at + 1:at + 1 + slots]
        chain[at, :len(known)] = known
    for at, slot in wrong:
        chain[at, slot] = -1
    return Proposals(chain, np.stack([chain, np.full_like(chain, -2)], -1))


def test_always_right_commits_a_block_a_round():
    reference = list(range(100, 157))  # 56 tokens behind the first one
    tally = tally_proposals(scripted(reference, 7), reference)
    assert (tally.committed, tally.rounds, tally.tokens_per_round) == (56, 7, 8.0)
    assert tally.accepted.tolist() == tally.reached.tolist()
    assert tally.first.tolist() == tally.anchors.tolist() == [56, 55, 54, 53, 52, 51, 50]


def test_a_reference_ends_where_its_loop_is_in_the_third_period():
    loop, plain = [1, 2, 3] + [5, 6, 7, 8, 9, 10, 11, 12] * 6, list(range(60))
    workloads = {"one": [Item([7], [], plain, {}), Item([8], [], loop, {})]}
    assert [len(row.reference) for _, row in rows_of(workloads, "greedy")] == [60, 51]
    cut = [row.reference for _, row in rows_of(workloads, "greedy", cut_loops=True)]
    assert cut == [plain, loop[:3 + 3 * 8]]


def test_always_wrong_commits_one_token_a_round():
    reference = list(range(20))
    nothing = Proposals(np.full((19, 7), -1), np.full((19, 7, 2), -1))
    tally = tally_proposals(nothing, reference)
    assert (tally.rounds, tally.tokens_per_round) == (19, 1.0)
    assert not tally.accepted.any()
    assert not tally.among.any()


def test_rounds_start_behind_a_miss():
    reference = list(range(11))
    # Slot 1 of anchor 0 misses: 1 accepted, the round ends at anchor 2; 3 accepted, anchor 6; the
    # last round has 4 tokens left and accepts 3 of them.
    proposals = scripted(reference, 3, wrong=[(0, 1), (1, 0)])
    assert accepted_lengths(proposals.chain, reference).tolist() == [1, 0, 3, 3, 3, 3, 3, 3, 2, 1]
    tally = tally_proposals(proposals, reference)
    assert (tally.committed, tally.rounds) == (10, 3)
    assert tally.accepted.tolist() == [3, 2, 2]
    assert tally.reached.tolist() == [3, 3, 3]
    assert tally.first.tolist() == [9, 8, 8]
    assert tally.anchors.tolist() == [10, 9, 8]


def test_nothing_counts_behind_the_end():
    assert walk_rounds(lambda anchor: 16, 6) == [(0, 5)]
    assert walk_rounds(lambda anchor: 4, 6) == [(0, 4)]
    assert walk_rounds(lambda anchor: 3, 6) == [(0, 3), (4, 1)]
    assert walk_rounds(lambda anchor: 3, 1) == []
    assert tally_proposals(scripted([5], 3), [5]).rounds == 0


def test_recall_among_candidates():
    reference = [1, 2, 3, 4]
    candidates = np.array([[[2, 9], [9, 3]], [[9, 3], [9, 9]], [[4, 9], [9, 9]]])
    tally = tally_proposals(Proposals(candidates[..., 0], candidates), reference)
    assert tally.first.tolist() == [2, 0]
    assert tally.among.tolist() == [3, 1]
    assert tally.anchors.tolist() == [3, 2]


def test_lookup_is_replayed():
    phrase = [11, 12, 13, 14, 15, 16, 17, 18]
    tally = tally_drafter(LookupDrafter(), [*phrase, 5, 6], [11, 12, *phrase[2:], 40, 41],
                          max_nodes=16, max_depth=16)
    # Anchor 11 has no earlier bigram (6, 11); then all that follows 12 is known up to 18, and
    # beyond it the old 5 and 6 are wrong; nothing precedes 40.
    assert (tally.committed, tally.rounds) == (9, 3)
    assert tally.accepted.tolist()[:7] == [1, 1, 1, 1, 1, 1, 0]


def test_figures_weigh_workloads_equally():
    long, short = list(range(33)), list(range(9))
    found = {"b8": {"prose_novel": tally_proposals(scripted(long, 7), long),
                    "tool_single": tally_proposals(
                        scripted(short, 7, wrong=[(at, 0) for at in range(8)]), short)}}
    figures = figures_of(found)
    row = figures["drafters"]["b8"]
    assert figures["workloads"] == {"prose_novel": {"b8": 8.0}, "tool_single": {"b8": 1.0}}
    assert row["tokens_per_round"] == 4.5
    assert row["groups"] == {"prose": 8.0, "tools_json": 1.0}
    assert row["accepted_by_slot"][0] == round(4 / 12, 4)
    assert row["recall_at_1"][0] == round(32 / 40, 4)
    assert drafter_figures(found["b8"]) == row
    assert len(table_of(figures, "t").rows) == 2 + 2 + 1


def test_reference_that_is_missing_is_named():
    items = {"chat_think": [Item([1], [2, 3], [], {})]}
    assert rows_of(items, "real")[0][1] == Row([1], [2, 3])
    with pytest.raises(ValueError, match="chat_think has no greedy reference"):
        rows_of(items, "greedy")
    with pytest.raises(ValueError, match="no workloads"):
        read_workloads(Path("nowhere"))


def test_shape_of_a_config():
    for name, shape in PRESETS.items():
        assert shape_of_config(hf_config(shape, end_of_text=1, pad=2)) == PRESETS[name]


@pytest.fixture(scope="module")
def tiny():
    params = jax.tree.map(lambda x: 3 * x if x.ndim > 1 else x,
                          init_params(jax.random.key(0), TINY))
    drafter = BlockDrafter("b4", init_drafter(jax.random.key(1), TINY_DRAFTER), TINY_DRAFTER)
    return Proposer(Target(params, TINY, Path("tiny")), [drafter], jnp.dtype("float32"))


def test_block_of_an_anchor_sees_only_what_precedes_it(tiny):
    rng = np.random.default_rng(3)
    prompt, reference = rng.integers(0, 60, 12).tolist(), rng.integers(0, 60, 20).tolist()
    whole = tiny.batch([Row(prompt, reference)])["b4"][0]
    assert whole.chain.shape == (19, 3)
    for anchor in (0, 7, 18):
        changed = reference[:anchor + 1] + [(token + 1) % 60 for token in reference[anchor + 1:]]
        again = tiny.batch([Row(prompt, changed)])["b4"][0]
        assert whole.chain[anchor].tolist() == again.chain[anchor].tolist()
        cut = tiny.batch([Row(prompt + reference[:anchor], [reference[anchor], 0])])["b4"][0]
        assert cut.candidates[0].tolist() == whole.candidates[anchor].tolist()


def test_first_slot_of_the_chain_is_the_mtp_head(tiny):
    rng = np.random.default_rng(4)
    tokens = rng.integers(0, 64, 64)
    found = tiny.batch([Row(tokens[:10].tolist(), tokens[10:].tolist())])["mtp"][0]
    params, row = tiny.target.params, jnp.asarray(tokens)[None]
    inside = jnp.zeros((1, 64), jnp.int32)
    hidden = forward(params, row, inside, TINY, dtype=jnp.float32, remat=False)
    ahead = mtp_forward(params, hidden[:, :-1], row[:, 1:], inside[:, 1:], TINY)
    best = np.asarray(jnp.argmax(logits_of(params, ahead), -1))[0]
    # Row t speaks of token t + 2: the row before the anchor at 10 + i speaks of token 11 + i.
    assert found.chain.shape == (53, 4)
    assert found.chain[:, 0].tolist() == best[9:62].tolist()


@pytest.mark.slow
def test_command_on_nano_with_an_untrained_drafter(tmp_path):
    folder = tmp_path / "workloads"
    folder.mkdir()
    for name, ids, real in (("prose_novel", [10, 20, 30, 40], [50, 60, 70, 80, 90]),
                            ("quote_verbatim", [7, 8, 9, 10] * 4, [7, 8, 9, 10] * 4)):
        (folder / f"{name}.jsonl").write_text(json.dumps(
            {"ids": ids, "real": real, "greedy": [], "meta": {}}) + "\n")
    assert fill(tmp_path, NANO, new=24, say=lambda text: None) == sum(
        len(items[0].greedy) for items in read_workloads(tmp_path).values())
    shape = DRAFTERS["nano-b8"]
    drafter = tmp_path / "drafter"
    export_drafter(init_drafter(jax.random.key(0), shape), shape, drafter, nvfp4=False,
                   temperature=1.4)
    out = tmp_path / "acceptance.json"
    record = run(parse(["--target", str(NANO), "--drafters", str(drafter), "--sets",
                        str(tmp_path), "--out", str(out), "--batch", "2", "--dtype", "float32"]),
                 Console(quiet=True))
    assert json.loads(out.read_text()) == record
    assert record["samples"] == 2
    assert set(record["drafters"]) == {"lookup", "b8", "b8-argmax", "mtp-4"}
    assert all(1.0 <= rate <= 17.0 for row in record["workloads"].values() for rate in row.values())
    assert record["drafters"]["b8"]["tokens_per_round"] < 1.5
    assert len(record["drafters"]["mtp-4"]["recall_at_16"]) == 4


def test_drafter_of_another_target_is_refused(tmp_path, tiny):
    shape = DRAFTERS["nano-b8"]
    export_drafter(init_drafter(jax.random.key(0), shape), shape, tmp_path, nvfp4=False,
                   temperature=1.4)
    with pytest.raises(ValueError, match="hidden_size is 32, it needs 128"):
        load_drafters([tmp_path], tiny.target)
