"""The byte-level alphabet: 256 printable characters that stand for bytes in a BPE vocabulary.

Bytes that print stand for themselves; the others take the code points from U+0100 on, in order
(Radford et al., 2019, "Language models are unsupervised multitask learners").
"""

from __future__ import annotations

_PRINTABLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))


def _alphabet() -> tuple[str, ...]:
    characters = {byte: chr(byte) for byte in _PRINTABLE}
    others = [byte for byte in range(256) if byte not in characters]
    characters.update({byte: chr(0x100 + k) for k, byte in enumerate(others)})
    return tuple(characters[byte] for byte in range(256))


BYTE_CHARACTERS = _alphabet()  # [256] the character that stands for each byte
_TO_LATIN1 = {ord(char): byte for byte, char in enumerate(BYTE_CHARACTERS)}


def token_to_bytes(token: str) -> bytes:
    """The bytes of one vocabulary entry; raises ValueError outside the alphabet."""
    if any(ord(char) not in _TO_LATIN1 for char in token):
        raise ValueError(f"token {token!r} is not in the byte-level alphabet")
    return token.translate(_TO_LATIN1).encode("latin-1")
