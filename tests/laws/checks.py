"""The laws as checks of one round, for any tree from any committed state."""

import numpy as np

from tandem_jax.state.model_state import ModelState
from tandem_jax.tree import DraftTree
from tests.laws.bench import Bench, PlainRun
from tests.laws.bits import same_bits
from tests.laws.states import HOME, committed, differing, fork


def check_round(
    bench: Bench, plain: PlainRun, state: ModelState, fed: int, tree: DraftTree
) -> tuple[ModelState, int]:
    """Laws 2 and 3 for one round after `fed` tokens; returns (state, tokens fed now).

    The accepted path is the one plain decoding takes, its logits and the bonus token are plain
    decoding's, and so is everything the commit leaves. Nothing else is written.
    """
    truth, length = plain.tokens, plain.n_prompt + fed
    limit = min(len(tree), plain.steps - fed)
    state, result, logits = bench.round(state, tree, length, limit=limit)
    count = len(result.path)
    assert tree.tokens[result.path].tolist() == truth[fed : fed + count]
    assert count == min(1 + tree.accepted_against(truth[fed + 1 :]), limit)
    assert result.bonus == truth[fed + count]
    assert same_bits(logits[result.path], plain.logits[fed : fed + count]), tree
    found = committed(state, HOME, length + count)
    assert differing(found, plain.committed(fed + count)) == [], tree
    check_nothing_else_written(state, length + count)
    return state, fed + count


def check_nothing_else_written(state: ModelState, length: int) -> None:
    """Rejected rows left no trace: what HOME has not committed is still NaN."""
    kept = np.zeros(state.kv.k.shape[1:3], bool)
    kept[HOME.cells(length)] = True
    for pool in (state.kv.k, state.kv.v):
        assert np.isnan(np.array(pool).astype(np.float32)[:, ~kept]).all()
    for pool in (state.delta.s, state.delta.conv):
        others = np.arange(pool.shape[1]) != HOME.slot
        assert np.isnan(np.array(pool).astype(np.float32)[:, others]).all()


def plain_rows(bench: Bench, state: ModelState, tree: DraftTree, length: int) -> np.ndarray:
    """Logits [nodes, vocab] of every node by plain decoding of its path, from one state."""
    logits, states = [], {-1: state}
    for node, parent in enumerate(tree.parents.tolist()):
        at = length + int(tree.depth[node])
        token = int(tree.tokens[node])
        states[node], _, row = bench.step(fork(states[parent]), token, at)
        logits.append(row)
    return np.stack(logits)
