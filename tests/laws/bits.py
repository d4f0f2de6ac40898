"""Equality in every bit."""

import numpy as np


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal shapes, dtypes and bits, and no NaN or infinity among them."""
    a, b = np.asarray(a), np.asarray(b)
    finite = bool(np.isfinite(a.astype(np.float32)).all())
    return finite and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
