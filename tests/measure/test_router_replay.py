"""Replays on records made by hand: what is accepted, what it costs, and that it repeats."""

import json
import sys

import numpy as np
import pytest

from tandem_jax.staircut.policy import POLICIES, make_policy
from tandem_jax.staircut.prices import load_prices, read_prices
from tools.measure import router_replay
from tools.measure.record import Record, read_records, save_records
from tools.measure.replay import Priced, accepted_nodes, replay

K = 4
TABLE = read_prices(
    {
        "1024": {"tree": {"1": 50.0, "8": 52.0, "32": 76.0}, "plain": 49.0},
        "draft": {"wide": {"1024": 10.0}, "narrow": {"1024": 8.0}, "mtp": {"1024": 6.0}},
    }
)


def lattices(reference, slots, right, rng):
    """Lattices behind each anchor whose greedy walk is right up to `right` tokens."""
    n = len(reference) - 1
    cand = rng.integers(5000, 9000, (n, slots, K)).astype(np.int32)
    scores = rng.normal(size=(n, slots, K, K)).astype(np.float32)
    scores[:, :, :, 0] += 9.0
    for at in range(n):
        for slot in range(min(right, slots)):
            if at + 1 + slot < len(reference):
                cand[at, slot, 0] = reference[at + 1 + slot]
    return cand, scores


def record(seed=0, length=41, right=3):
    """Random text, so that the lookup finds nothing; heads that are right for `right` tokens."""
    rng = np.random.default_rng(seed)
    reference = rng.permutation(4000)[:length].astype(np.int32)
    pair = np.stack([np.roll(reference, -1)[:-1], np.full(length - 1, 4999)], 1)
    tokens = np.repeat(pair[:, None], 4, 1).astype(np.int32)
    tokens[:, 1:, 0] = 4998  # right for one token, wrong behind it
    probs = np.tile(np.float32([[0.9, 0.05]]), (length - 1, 4, 1))
    return Record(
        rng.integers(9000, 9900, 20).astype(np.int32),
        reference,
        lattices(reference, 15, right, rng),
        lattices(reference, 7, right, rng),
        (tokens, probs),
    )


def policy(name, table=TABLE):
    return make_policy(name, router_replay.setup_of(table, None))


def test_plain_decoding_takes_a_round_a_token():
    found = replay(policy("none"), record(), Priced(TABLE))
    assert (found.tokens, found.rounds, found.drafts) == (40, 40, 0)
    assert found.ms == pytest.approx(40 * 49.0)
    assert found.tok_s == pytest.approx(1000 / 49.0)
    assert dict(found.sources) == {"target": 40}


@pytest.mark.parametrize(("name", "head_ms"), [("fixed8", 8.0), ("fixed16", 10.0)])
def test_a_head_that_is_right_for_three_tokens(name, head_ms):
    rows = []
    found = replay(
        policy(name),
        record(),
        Priced(TABLE),
        lambda decision, *_: (
            rows.append(len(decision.tree)) if decision.tree is not None else rows.append(1)
        ),
    )
    assert (found.tokens, found.rounds) == (40, 10)
    assert found.sources["target"] == 10
    assert sum(found.sources.values()) == 40
    verify = sum(49.0 if n == 1 else TABLE.verify_ms("tree", 1024)[n] for n in rows)
    assert found.ms == pytest.approx(verify + head_ms * found.drafts)


def test_the_mtp_head_and_its_second_choice():
    found = replay(policy("mtp"), record(), Priced(TABLE))
    assert found.tokens == 40
    assert found.sources["mtp"] >= 15  # one right token a round


@pytest.mark.parametrize("name", list(POLICIES))
def test_replays_repeat_bit_for_bit(name):
    def run():
        seen = []
        one = policy(name)
        for seed in (0, 1):
            replay(
                one,
                record(seed),
                Priced(TABLE),
                lambda d, tokens, *ms: seen.append(
                    (
                        d.label,
                        d.head,
                        d.value,
                        None if d.tree is None else d.tree.tokens.tolist(),
                        list(tokens),
                        *ms,
                    )
                ),
            )
        return seen, one.state()

    assert run() == run()


def test_a_context_can_be_assumed():
    table = load_prices("gb10")
    near = replay(policy("none", table), record(), Priced(table))
    far = replay(policy("none", table), record(), Priced(table, context=32768))
    assert near.ms == pytest.approx(40 * 72.8)
    assert far.ms == pytest.approx(40 * table.plain_ms(32768))


def test_accepted_nodes():
    decisions = []
    replay(policy("fixed16"), record(), Priced(TABLE), lambda d, t, *_: decisions.append((d, t)))
    decision, tokens = decisions[0]
    path = accepted_nodes(decision.tree, tokens)
    assert decision.tree.tokens[path].tolist() == list(tokens[:-1])
    assert accepted_nodes(decision.tree, [77_777]) == []


def test_records_come_back_from_disk(tmp_path):
    one = record()
    bare = Record(one.prompt, one.reference, one.wide, None, None)
    save_records(tmp_path / "x.npz", [one, bare])
    first, second = read_records(tmp_path / "x.npz")
    assert first.reference.tolist() == one.reference.tolist()
    assert (first.lattice("narrow", 5).scores == one.narrow[1][5]).all()
    assert first.chain(3).second.tolist() == one.mtp[0][3, :, 1].tolist()
    assert second.lattice("narrow", 5) is None
    assert second.chain(3) is None


@pytest.fixture
def folder(tmp_path):
    for name, right in (("code_go", 3), ("prose_novel", 6)):
        save_records(tmp_path / f"{name}.npz", [record(seed, right=right) for seed in (0, 1)])
    return tmp_path


def test_the_command(folder, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out.json"
    arguments = ["--prices", "gb10", "--records", str(folder), "--json", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["router_replay", *arguments])
    router_replay.main()
    printed = capsys.readouterr()
    figures = json.loads(printed.out.splitlines()[-1])
    assert set(figures["mean_tok_s"]) == set(POLICIES)
    assert set(figures["staircut_wins"]) == set(POLICIES) - {"staircut"}
    assert figures["staircut_wins"]["none"] == 2
    assert figures["workloads"] == 2
    assert figures["samples"] == 4
    assert json.loads(out.read_text())["tok_s"].keys() == {"prose_novel", "code_go"}
    assert "StairCut above" in printed.err


def test_a_folder_without_records(tmp_path):
    with pytest.raises(SystemExit, match="no records"):
        router_replay.read_folder(tmp_path, None)
