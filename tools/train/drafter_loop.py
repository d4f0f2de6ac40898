"""The drafter's training step: frozen target forward, anchors, loss, update."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tools.train.batches import TokenIds, segments_of
from tools.train.clocked import Job, norm_of
from tools.train.drafter_data import GeneratedRows, rows_of_step
from tools.train.drafter_loss import Objective, drafter_loss
from tools.train.drafter_shapes import DrafterShape
from tools.train.fake_quant import QUANTISED, fake_quant
from tools.train.model import forward
from tools.train.optimizer import make_optimizer
from tools.train.shapes import ModelShape

FOUR_BIT_FROM = 0.9  # share of the run from which on the body is rounded in the forward
NAMES = ("loss", "selector", "accepted", "accepted_plain", "norm")


@dataclass(frozen=True)
class DrafterPlan:
    """What one drafter's training does."""

    shape: DrafterShape
    target_shape: ModelShape
    ids: TokenIds
    objective: Objective
    rows: int  # rows a step
    optimizer: str  # "muon" | "adamw"
    dtype: jnp.dtype  # compute dtype
    nvfp4: bool  # end with the body rounded to NVFP4
    selector_from: float  # share of the run at which the selector joins at the latest
    selector_at: float  # accepted tokens of the plain argmax at which it joins earlier
    seed: int


def fake_quant_body(params: dict, amount):
    """Return the drafter with every NVFP4 matrix as stored (amount 1) or unchanged (amount 0)."""
    def visit(tree):
        return {name: visit(value) if isinstance(value, dict)
                else jnp.where(amount > 0, fake_quant(value), value) if name in QUANTISED
                else value for name, value in tree.items()}
    return visit(params)


def borrowed(target: dict) -> tuple[jax.Array, jax.Array]:
    """Return the target's (embedding [V D], head [V D])."""
    return target["embed"], target["head"] if "head" in target else target["embed"]


def read_rows(plan: DrafterPlan, target, tokens, written, index):
    """Return ((embed, head, taps), (tokens, segments, written)) of the rows `index` [B]."""
    tokens, written = tokens[index].astype(jnp.int32), written[index]
    segments = segments_of(tokens, plan.ids)
    _, taps = forward(target, tokens[:, :-1], segments[:, :-1], plan.target_shape,
                      dtype=plan.dtype, remat=False, taps=plan.shape.taps)
    return (*borrowed(target), jax.lax.stop_gradient(taps)), (tokens, segments, written)


def make_step(plan: DrafterPlan):
    """Return the jitted step of `clocked.Job`; its frozen part is (target, tokens, written)."""
    optimizer = make_optimizer(plan.optimizer)

    def loss(params, target, batch, key, knobs):
        if plan.nvfp4:
            params = fake_quant_body(params, knobs["four_bit"])
        return drafter_loss(params, plan.shape, target, batch, key, knobs["selector"],
                            objective=plan.objective)

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(params, state, frozen, index, key, knobs):
        target, batch = read_rows(plan, *frozen, index)
        gradients, figures = jax.grad(loss, has_aux=True)(params, target, batch, key, knobs)
        updates, state = optimizer.update(gradients, state, params)
        updates = jax.tree.map(lambda u: -knobs["rate"] * u, updates)
        figures = jnp.append(figures, norm_of(gradients))
        return optax.apply_updates(params, updates), state, figures

    return step


class _SelectorSwitch:
    """Turns the selector's loss on once, at a share of the run or at an acceptance."""

    def __init__(self, plan: DrafterPlan):
        self.plan, self.on = plan, False

    def __call__(self, share: float, step: int, latest: dict) -> dict:
        good = latest.get("accepted_plain", 0.0) >= self.plan.selector_at
        self.on = self.on or good or share >= self.plan.selector_from
        return {"selector": np.float32(self.on), "rate": np.float32(0),
                "four_bit": np.float32(share >= FOUR_BIT_FROM)}


def drafter_job(plan: DrafterPlan, target: dict, data: GeneratedRows) -> Job:
    """Return the job that trains the plan's drafter behind `target` on `data`."""
    return Job(step=make_step(plan), frozen=(target, data.tokens, data.written),
               rows=lambda step: rows_of_step(plan.seed, step, data.training, plan.rows),
               knobs=_SelectorSwitch(plan), names=NAMES, seed=plan.seed + 1,
               tokens_per_step=plan.rows * (data.tokens.shape[1] - 1))
