"""One legend for all shapes, and the check that doors use.

R rows (B * T)    B requests        T tree rows a request (bucket)   C conv channels
D model width     H query or value heads      G KV or key heads      W conv taps
K key width       V value width     N output width                   L layers
S slots           P pages           page: tokens a page              F feed-forward width
"""

import jax


def expect(x: jax.Array, pattern: str, **sizes: int) -> jax.Array:
    """Check the shape of `x` against letters, for example `expect(s, "S H K V", K=128)`.

    Letters without a size match anything, but equal letters must agree. Returns `x`; raises
    ValueError with the pattern and the shape.
    """
    letters, seen = pattern.split(), dict(sizes)
    ok = len(letters) == x.ndim
    for letter, size in zip(letters, x.shape, strict=False):
        ok = ok and seen.setdefault(letter, size) == size
    if not ok:
        known = ", ".join(f"{letter}={size}" for letter, size in sizes.items())
        raise ValueError(
            f"expected shape [{pattern}]{' with ' + known if known else ''}, got {tuple(x.shape)}"
        )
    return x
