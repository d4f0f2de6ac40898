"""The clocked scene is one in which a decision leaves nothing out; nothing here reads the clock."""

from tandem_jax.drafters.lookup import LookupDrafter
from tandem_jax.staircut.cut import MAX_NODES
from tools.measure.decision_time import parts, run_scene, scene

VOCABULARY = 5000


def test_every_round_has_a_full_lookup_tree_and_drafts():
    found = scene(VOCABULARY, tokens=1024)
    lookup = LookupDrafter()
    lookup.reset(found.prompt)
    tree = lookup.propose_tree(found.prompt[-1], MAX_NODES, MAX_NODES)
    assert tree.n_draft == MAX_NODES
    assert not tree.is_chain
    policy = run_scene(found, 64)
    assert len(policy.decision_ms) == len(policy.observe_ms) == len(policy.labels) == 64
    assert policy.labels.count("merged") > 32
    assert "plain" not in policy.labels


def test_every_part_is_timed_as_often_as_asked():
    took = parts(scene(VOCABULARY, tokens=1024), 3)
    assert set(took) == {"lookup", "lattice tree", "greedy chain", "merge", "four cuts"}
    assert {len(each) for each in took.values()} == {3}
    assert min(min(each) for each in took.values()) > 0.0


def test_the_scene_is_the_same_for_the_same_seed():
    first, again, other = (scene(VOCABULARY, seed=seed, tokens=256) for seed in (1, 1, 2))
    assert first.prompt == again.prompt != other.prompt
    assert first.blocks == again.blocks
