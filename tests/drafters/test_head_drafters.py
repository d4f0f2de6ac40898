"""MTP chains, and their merge with lookup."""

import numpy as np
import pytest

from tandem_jax.drafters import HeadDraft, make_drafter
from tandem_jax.drafters.combined import CombinedDrafter
from tandem_jax.drafters.mtp import MtpDrafter


def head(tokens, probs):
    return HeadDraft(np.array(tokens, np.int32), np.array(probs, np.float32))


def started(drafter, prompt, tokens, draft):
    drafter.reset(prompt)
    drafter.observe(tokens, draft)
    return drafter


def test_mtp_scores_are_running_products():
    drafter = started(MtpDrafter(), [1], [2], head([7, 8, 9], [0.5, 0.5, 0.25]))
    tree = drafter.propose(2, 16, 16)
    assert tree.tokens.tolist() == [2, 7, 8, 9]
    assert tree.scores.tolist() == [1.0, 0.5, 0.25, 0.0625]
    assert set(tree.source_names[1:]) == {"mtp"}
    assert drafter.propose(2, 16, 2).tokens.tolist() == [2, 7, 8]
    assert drafter.propose(2, 1, 16).tokens.tolist() == [2, 7]
    assert drafter.propose(2, 0, 16) is None


def test_mtp_declines_without_a_fresh_head_draft():
    drafter = MtpDrafter()
    drafter.reset([1])
    assert drafter.propose(1, 16, 16) is None
    drafter.observe([2], head([7], [0.5]))
    drafter.observe([3], None)
    assert drafter.propose(3, 16, 16) is None
    drafter.observe([4], head([7], [0.5]))
    drafter.reset([1])
    assert drafter.propose(1, 16, 16) is None
    drafter.observe([2], head([], []))
    assert drafter.propose(2, 16, 16) is None


def test_probabilities_rounded_above_one_make_no_path_rise():
    drafter = started(MtpDrafter(), [1], [2], head([7, 8], [1.0000001, 1.0]))
    assert drafter.propose(2, 16, 16).scores.tolist() == [1.0, 1.0, 1.0]


def test_a_head_draft_has_one_probability_a_token():
    with pytest.raises(ValueError, match=r"\(2,\) tokens and \(1,\) probabilities"):
        head([1, 2], [0.5])


def test_combined_shares_nodes_and_names_the_head_first():
    drafter = started(
        make_drafter("auto", vocab_size=50), [1, 2, 3, 4, 1], [2], head([3, 9], [0.5, 0.5])
    )
    tree = drafter.propose(2, 16, 2)
    assert tree.tokens.tolist() == [2, 3, 4, 9]
    assert tree.source_names == ("target", "mtp", "lookup", "mtp")
    assert tree.scores.tolist() == pytest.approx([1.0, 0.625, 0.390625, 0.25])
    assert drafter.propose(2, 2, 2).tokens.tolist() == [2, 3, 4]


def test_combined_lives_with_either_part_alone():
    drafter = started(make_drafter("auto", vocab_size=50), [1, 2, 3, 1], [2], None)
    assert set(drafter.propose(2, 16, 16).source_names[1:]) == {"lookup"}
    drafter = started(drafter, [1, 2], [3], head([4], [0.75]))
    assert set(drafter.propose(3, 16, 16).source_names[1:]) == {"mtp"}
    drafter = started(drafter, [1, 2], [3], None)
    assert drafter.propose(3, 16, 16) is None


def test_combined_takes_other_parts():
    drafter = started(CombinedDrafter([MtpDrafter()]), [1, 2, 3, 1], [2], None)
    assert drafter.propose(2, 16, 16) is None
