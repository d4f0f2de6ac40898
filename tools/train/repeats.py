"""Finds loops: a short period that repeats, as small models write under greedy decoding."""

import numpy as np

LONGEST_PERIOD = 32  # tokens
WHOLE_PERIODS = 3  # a loop counts from behind its third period on
SHORTEST_REPEAT = 16  # tokens that must repeat, so that a ruled line or digits are no loop


def allowed_repeats() -> np.ndarray:
    """Return [32] int32: tokens in a row that may equal those 1, 2, ... 32 before them."""
    periods = np.arange(1, LONGEST_PERIOD + 1, dtype=np.int32)
    return np.maximum((WHOLE_PERIODS - 1) * periods, SHORTEST_REPEAT)


def looped_tokens(tokens: np.ndarray, segments: np.ndarray) -> np.ndarray:
    """Return [B T] bool: the token lies beyond the third period of a loop.

    tokens, segments [B T]; a period p <= 32 loops from where its last max(2 p, 16) tokens all
    equal the tokens p before them, inside one segment.
    """
    at, allowed = np.arange(tokens.shape[1], dtype=np.int32), allowed_repeats()
    looped = np.zeros(tokens.shape, bool)
    for period in range(1, min(LONGEST_PERIOD, tokens.shape[1] - 1) + 1):
        same = np.zeros(tokens.shape, bool)
        same[:, period:] = ((tokens[:, period:] == tokens[:, :-period])
                            & (segments[:, period:] == segments[:, :-period]))
        broken = np.maximum.accumulate(np.where(same, np.int32(-1), at), axis=1)
        looped |= at - broken > allowed[period - 1]
    return looped


def before_loop(tokens: list[int]) -> list[int]:
    """Return the text up to where its first loop is in its third period: all of it without one."""
    row = np.asarray(tokens, np.int64)[None]
    looped = np.flatnonzero(looped_tokens(row, np.zeros_like(row))[0]) if row.size else []
    return tokens[:looped[0]] if len(looped) else tokens


def has_loop(tokens: list[int]) -> bool:
    """Return whether one text loops anywhere."""
    return len(before_loop(tokens)) < len(tokens)
