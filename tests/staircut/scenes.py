"""Lattices and rounds made by hand, for tests of the policies."""

from dataclasses import replace

import numpy as np

from tandem_jax.drafters import HeadDraft, Lattice
from tandem_jax.staircut.policy import Outcome, Policy, PolicySetup, RoundInput, make_policy
from tandem_jax.staircut.price_model import PriceModel
from tandem_jax.staircut.prices import load_prices, read_prices

K = 16
GB10 = "gb10"
FLAT = {"1024": {"tree": {"2": 50.0, "32": 50.0}}, "draft": {"wide": {"1024": 10.0}}}


def lattice(tokens, *, sharp=8.0, k=K):
    """A lattice whose greedy walk is `tokens`; sharpness is the logit of the right candidate."""
    slots = len(tokens)
    cand = np.arange(slots * k, dtype=np.int32).reshape(slots, k) + 50_000
    cand[:, 0] = tokens
    scores = np.zeros((slots, k, k), np.float32)
    scores[:, :, 0] = sharp
    return Lattice(cand, scores, 1.4)


def chain(tokens, probs, second=None, second_probs=None):
    """What an MTP head says."""
    n = len(tokens)
    second = [60_000 + i for i in range(n)] if second is None else second
    second_probs = [0.05] * n if second_probs is None else second_probs
    pair = np.stack([tokens, second], 1).astype(np.int32)
    return HeadDraft.of_pairs(pair, np.stack([probs, second_probs], 1).astype(np.float32))


def new_policy(name, prices=GB10, **options) -> Policy:
    """A policy that starts from a packaged table or a parsed one."""
    table = load_prices(prices) if isinstance(prices, str) else read_prices(prices)
    setup = PolicySetup(PriceModel(table), table.draft)
    return make_policy(name, replace(setup, **options))


def start(policy, prompt, first):
    """Begin a request whose first token is `first`; returns the text so far."""
    policy.reset(prompt)
    policy.observe(Outcome([first]))
    return [*prompt, first]


def ask(policy, text, *, max_nodes=31, max_depth=31, **heads):
    """The policy's decision behind a text."""
    given = RoundInput(text[-1], len(text), max_nodes, max_depth)
    said = {name: (lambda value=value: value) for name, value in heads.items()}
    return policy.propose(replace(given, **said))


def play(policy, text, truth, verify_ms=None, draft_ms=None, **heads):
    """One round against a truth [at least one token]: (decision, tokens committed).

    `text` grows by the tokens.
    """
    decision = ask(policy, text, max_depth=max(len(truth) - 1, 0), **heads)
    got = 0 if decision.tree is None else decision.tree.accepted_against(truth)
    tokens = list(truth[: got + 1])
    rows = 1 if decision.tree is None else len(decision.tree)
    policy.observe(Outcome(tokens, rows, verify_ms, draft_ms))
    text += tokens
    return decision, tokens
