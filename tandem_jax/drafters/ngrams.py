"""Index of every place where the text so far holds the n-gram it now ends with."""

from collections.abc import Sequence

import numpy as np

MAX_ORDER = 8
_PER_GRAM = 24  # newest positions kept of an n-gram

# An n-gram's key is sum((token + 1) * _POWERS[j]) modulo 2**64, j counting back from its last
# token: one pass yields the keys of all orders. A collision could only draft a wrong token.
_MODULUS = 1 << 64
_POWERS = tuple(pow(0x9E3779B97F4A7C15, power, _MODULUS) for power in range(MAX_ORDER))


class NgramIndex:
    """Positions that followed each n-gram of 2 to 8 tokens in one growing text.

    The text given at a rebuild (a prompt, up to a whole context window) is kept as sorted keys,
    built by numpy; what comes later goes into dictionaries.
    """

    def __init__(self, orders: Sequence[int] = range(2, MAX_ORDER + 1)) -> None:
        """`orders`: lengths of n-grams that are indexed."""
        self.tokens: list[int] = []  # the whole text
        self.n_recent = 0  # tokens that came after the last rebuild
        self._orders = frozenset(orders)
        self._sorted: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # order -> keys, followers
        self._recent: dict[int, dict[int, list[int]]] = {}  # order -> key -> followers

    def rebuild(self, text: Sequence[int]) -> None:
        """Start again with this text."""
        self.tokens[:] = [int(token) for token in text]
        self._recent.update({order: {} for order in self._orders})
        self._sorted.clear()
        self.n_recent = 0
        # The last token ends n-grams that nothing follows yet; `extend` indexes those.
        tokens = np.array(self.tokens[:-1], np.uint64) + np.uint64(1)
        keys = tokens.copy()  # keys[i]: the n-gram ending at i
        for order in range(2, min(MAX_ORDER, tokens.size) + 1):
            back = order - 1
            keys[back:] += tokens[:-back] * np.uint64(_POWERS[back])
            if order not in self._orders:
                continue
            by_key = np.argsort(keys[back:], kind="stable")
            self._sorted[order] = (keys[back:][by_key], by_key + order)

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens, each recorded as the follower of the n-grams before it."""
        for token in tokens:
            for order, key in self._suffix_keys():
                followers = self._recent[order].setdefault(key, [])
                followers.append(len(self.tokens))
                if len(followers) > _PER_GRAM:
                    del followers[0]
            self.tokens.append(int(token))
        self.n_recent += len(tokens)

    def longest_match(self, min_order: int) -> tuple[int, list[int]]:
        """Longest n-gram that ends the text and occurs earlier in it, down to `min_order`.

        Returns its order and the positions that followed it (newest first, at most 24), or
        (0, []).
        """
        candidates = [found for found in self._suffix_keys() if found[0] >= min_order]
        # Where a long n-gram came before, its end did: no short match, no match at all.
        if not candidates or not self._followers(*candidates[0]):
            return 0, []
        for order, key in reversed(candidates):
            followers = self._followers(order, key)
            if followers:
                return order, followers
        return 0, []

    def _followers(self, order: int, key: int) -> list[int]:
        """Positions that followed the n-gram of a key, newest first, at most 24."""
        followers = self._recent[order].get(key, [])[::-1]
        if len(followers) < _PER_GRAM:
            followers += self._sorted_followers(order, key, _PER_GRAM - len(followers))
        return followers

    def places(self, gram: Sequence[int]) -> list[int]:
        """Positions that followed an n-gram of an indexed length, newest first, at most 24."""
        return self._followers(*self._keys(gram)[-1])

    def _suffix_keys(self) -> list[tuple[int, int]]:
        """Order and key of each indexed n-gram that ends the text, shortest first."""
        return self._keys(self.tokens[-MAX_ORDER:])

    def _keys(self, tail: Sequence[int]) -> list[tuple[int, int]]:
        key, found = 0, []
        for back, token in enumerate(reversed(tail)):
            key = (key + (token + 1) * _POWERS[back]) % _MODULUS
            if back + 1 in self._orders:
                found.append((back + 1, key))
        return found

    def _sorted_followers(self, order: int, key: int, limit: int) -> list[int]:
        if order not in self._sorted:
            return []
        keys, followers = self._sorted[order]
        wanted = np.uint64(key)
        start = int(keys.searchsorted(wanted))
        if start == len(keys) or keys[start] != wanted:
            return []
        stop = int(keys.searchsorted(wanted, "right"))
        return followers[max(start, stop - limit) : stop][::-1].tolist()
