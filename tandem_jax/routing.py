"""Which policy decides the rounds of an LLM, and from which prices, stores and past rounds."""

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tandem_jax.drafters.lookup import TextStore
from tandem_jax.engine.engine import Engine
from tandem_jax.engine.policy_drafter import NARROW_SLOTS, PolicyDrafter
from tandem_jax.errors import ConfigError
from tandem_jax.staircut.copy_rate import PACKAGED_PRIOR, load_prior
from tandem_jax.staircut.policy import (
    POLICIES,
    make_policy,
    policy_class,
    policy_lookup,
    setup_on,
)
from tandem_jax.staircut.price_model import PriceModel
from tandem_jax.staircut.prices import PACKAGED, PriceTable, load_prices, preferred_head

log = logging.getLogger("tandem_jax")

AUTO = "auto"
_BLOCKS = {"fixed8": 8, "fixed16": 16, "length": 16}  # policies that fix the block themselves
_STATE_FORMAT = 1


@dataclass(frozen=True)
class Routing:
    """How an LLM decides what to draft."""

    policy: str  # name of a policy
    prices: str  # name of the price table, "none" if there is none for this device
    drafter: PolicyDrafter  # the policy at the place of a drafter

    def describe(self) -> dict[str, Any]:
        """JSON-serialisable facts, with everything learned."""
        return {
            "policy": self.policy,
            "prices": self.prices,
            "learned": self.drafter.policy.state(),
        }


def policy_for(drafter: str, policy: str, has_draft_model: bool, has_mtp: bool) -> str | None:
    """Name of the policy that decides; None if the drafter was named and works alone.

    "auto" is StairCut on the block drafter, or on the MTP head where that is all there is. Raises
    ConfigError for an unknown policy, one beside a named drafter, or one without its head.
    """
    if policy == AUTO:
        if drafter != AUTO:
            return None
        return "mtp" if has_mtp and not has_draft_model else "staircut"
    kind = policy_class(policy)
    if drafter != AUTO:
        raise ConfigError(
            f"the policy {policy!r} chooses among the drafters, but the drafter {drafter!r} was "
            "asked for",
            hint="leave the drafter at 'auto', or leave out the policy",
        )
    if "mtp" in kind.heads and not has_mtp:
        raise ConfigError(
            f"the policy {policy!r} needs an MTP head without a draft model beside it",
            hint="a checkpoint with mtp.* tensors, and no draft_model",
        )
    if {"wide", "narrow"} & set(kind.heads) and not has_draft_model and policy != "staircut":
        raise ConfigError(
            f"the policy {policy!r} needs a draft model", hint="open it with draft_model=..."
        )
    return policy


def route(
    engine: Engine,
    policy: str,
    *,
    model: str,
    prices: str | Path | None,
    stores: tuple[TextStore, ...],
) -> Routing:
    """The policy of that name, fed by this engine.

    `prices` is a JSON file or a packaged table's name; None takes the one for the model and
    device, if there is one. Raises ConfigError for a file that cannot be used.
    """
    table, missing = find_prices(model, engine.device_kind, prices)
    live = PriceModel(table, missing=missing)
    kind = policy_class(policy)
    lookup = partial(policy_lookup, stores)
    head = _loaded_head(engine)
    setup = setup_on(table, live, lookup=lookup, copy_prior=load_prior(PACKAGED_PRIOR), head=head)
    heads = (head,) if policy == "staircut" else kind.heads
    drafter = PolicyDrafter(
        make_policy(policy, setup),
        live,
        draft_ms=_draft_ms(table, heads),
        missing_rows=engine.missing_rows,
        row_buckets=engine.row_buckets,
    )
    return Routing(policy, "none" if table is None else table.name, drafter)


def preferred_block(policy: str, model: str, device_kind: str, prices: str | Path | None) -> int:
    """Rows of the block that a policy would draft with, where there is a choice of draft models.

    StairCut takes the one that is worth more at the prices of the device.
    """
    if policy in _BLOCKS:
        return _BLOCKS[policy]
    head = preferred_head(find_prices(model, device_kind, prices)[0])
    return NARROW_SLOTS + 1 if head == "narrow" else 16


def _loaded_head(engine: Engine) -> str:
    """What prices call the block drafter that is loaded."""
    draft = engine.options.draft
    return "narrow" if draft is not None and draft.block <= NARROW_SLOTS + 1 else "wide"


def routing_warnings(policy: str | None, block: int | None) -> tuple[str, ...]:
    """What a user should know of a policy that runs on less than it was made for.

    block: rows of the draft model's block, None without one.
    """
    if policy is None:
        return ()
    narrow = policy in ("fixed8", "length")
    if narrow and block is not None and block > NARROW_SLOTS + 1:
        return (
            f"policy {policy}: one draft model is loaded, so its first {NARROW_SLOTS} slots stand "
            "for the narrow drafter",
        )
    if policy == "fixed16" and block is not None and block < 16:
        return (f"policy fixed16: the draft model's block has {block} rows, not 16",)
    return ()


def save_learned(routing: Routing, path: str | Path) -> None:
    """Write what the policy learned, atomically."""
    path = Path(path)
    record = {
        "format": _STATE_FORMAT,
        "policy": routing.policy,
        "prices": routing.prices,
        "learned": routing.drafter.policy.state(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    draft.replace(path)


def load_learned(routing: Routing, path: str | Path) -> None:
    """Go on from what `save_learned` wrote; raises ConfigError naming what does not fit."""
    path = Path(path)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"the learned state {path.name} cannot be read: {error}") from error
    if not isinstance(record, Mapping) or record.get("format") != _STATE_FORMAT:
        raise ConfigError(f"{path.name} is no learned state of a policy")
    if (record.get("policy"), record.get("prices")) != (routing.policy, routing.prices):
        raise ConfigError(
            f"{path.name} was learned by the policy {record.get('policy')!r} on the prices "
            f"{record.get('prices')!r}, not by {routing.policy!r} on {routing.prices!r}",
            hint="use it with the same --policy and --prices, or delete the file",
        )
    routing.drafter.policy.load_state(record.get("learned", {}))


def device_slug(kind: str) -> str:
    """A device's name as price files have it: "NVIDIA H200" -> "nvidia-h200"."""
    return "-".join(kind.lower().split())


def find_prices(
    model: str, device_kind: str, prices: str | Path | None
) -> tuple[PriceTable | None, str]:
    """The table asked for, or the packaged one of model and device; None and its name without."""
    if prices is not None:
        return load_prices(prices), ""
    name = f"{model}.{device_slug(device_kind)}"
    if (PACKAGED / f"{name}.json").is_file():
        return load_prices(name), ""
    return None, name


def _draft_ms(table: PriceTable | None, heads: tuple[str, ...]):
    def ms(context: int) -> float:
        known = (table.draft_ms(head, context) for head in heads if table is not None)
        return next((x for x in known if x is not None), 0.0)

    return ms


__all__ = ["POLICIES", "Routing", "load_learned", "policy_for", "route", "save_learned"]
