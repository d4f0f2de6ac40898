"""What a request leaves on the device, as values: copied out, compared, forked, poisoned."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import jax
import jax.numpy as jnp
import numpy as np

from tandem_jax.state.model_state import KvCache, ModelState
from tests.laws.bits import same_bits

PAGE, CONTEXT, SLOTS = 64, 640, 2  # of the engine on the bench


@dataclass(frozen=True)
class Place:
    """Where a request lives."""

    slot: int
    pages: np.ndarray  # [N] int32, its page list

    def cells(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """(page, row) of each of the first `length` positions."""
        position = np.arange(length)
        return self.pages[position // PAGE], position % PAGE


_PAGES = np.random.default_rng(0).permutation(SLOTS * (CONTEXT // PAGE)).astype(np.int32)
HOME, AWAY = Place(0, _PAGES[: CONTEXT // PAGE]), Place(1, _PAGES[CONTEXT // PAGE :])


@dataclass(frozen=True)
class Committed:
    """All that a request has left on the device, as copies on the host."""

    s: np.ndarray  # [L, H, K, V] recurrent state
    conv: np.ndarray  # [L, W-1, C] conv tail
    k: np.ndarray  # [L, length, G, D] keys in position order
    v: np.ndarray  # [L, length, G, D] values


def committed(state: ModelState, place: Place, length: int) -> Committed:
    """What the request at `place` has left after `length` tokens."""
    page, row = place.cells(length)
    return Committed(
        np.array(state.delta.s[:, place.slot]),
        np.array(state.delta.conv[:, place.slot]),
        np.array(state.kv.k)[:, page, row],
        np.array(state.kv.v)[:, page, row],
    )


def differing(a: Committed, b: Committed) -> list[str]:
    """Names of the fields that are not equal bit for bit."""
    names = [field.name for field in fields(Committed)]
    return [name for name in names if not same_bits(getattr(a, name), getattr(b, name))]


def full_of_nan(state: ModelState) -> ModelState:
    """A state of the same shapes that holds nothing."""
    return jax.tree.map(lambda a: jnp.full_like(a, jnp.nan), state)


def fork(state: ModelState) -> ModelState:
    """A copy that a step may consume."""
    return jax.tree.map(jnp.copy, state)


def poison_unused(state: ModelState, requests: Sequence[tuple[Place, int]]) -> ModelState:
    """NaN in every cache cell, state and tail that none of (place, length) has committed."""
    kept = np.zeros(state.kv.k.shape[1:3], bool)
    slots = np.zeros(state.delta.s.shape[1], bool)
    for place, length in requests:
        kept[place.cells(length)] = True
        slots[place.slot] = True

    def only(mask, a):
        mask = mask.reshape(1, *mask.shape, *(1,) * (a.ndim - 1 - mask.ndim))
        return jnp.where(mask, a, jnp.full_like(a, jnp.nan))

    def cache(kv: KvCache | None) -> KvCache | None:
        return None if kv is None else KvCache(only(kept, kv.k), only(kept, kv.v))

    delta = jax.tree.map(lambda a: only(slots, a), state.delta)
    caches = (cache(kv) for kv in (state.kv, state.mtp_kv, state.draft_kv))
    return ModelState(delta, *caches)
