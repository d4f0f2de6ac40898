"""Which KV pages belong to which slot: the host's side of the paged cache."""

import numpy as np


class PageTable:
    """Hands out pages of a fixed pool to slots and takes them back.

    Pages are given one grid line at a time, as a request grows; the device only ever sees the
    page list of the slots in a pass.
    """

    def __init__(self, slots: int, pages_per_slot: int, n_pages: int):
        self.table = np.zeros((slots, pages_per_slot), np.int32)
        self.held = [0] * slots
        self._free = list(range(n_pages - 1, -1, -1))

    @property
    def n_free(self) -> int:
        """Pages nobody holds."""
        return len(self._free)

    def grow(self, slot: int, pages: int) -> np.ndarray:
        """Make sure `slot` holds at least `pages` pages; returns its page list, int32 [N].

        Raises RuntimeError if the pool is exhausted (the engine admits no such request).
        """
        while self.held[slot] < pages:
            if not self._free:
                raise RuntimeError(f"no free KV page for slot {slot}")
            self.table[slot, self.held[slot]] = self._free.pop()
            self.held[slot] += 1
        return self.table[slot]

    def release(self, slot: int) -> None:
        """Take back all pages of `slot`."""
        held = self.held[slot]
        self._free.extend(int(p) for p in self.table[slot, :held][::-1])
        self.held[slot] = 0
        self.table[slot] = 0
