"""The options of one request, checked once at the door."""

from dataclasses import dataclass

from tandem_jax.errors import RequestError


@dataclass(frozen=True)
class SamplingParams:
    """How one answer is decoded; this version decodes greedily (ties go to the lowest id).

    Raises `RequestError` with the field's name if a value is out of range.
    """

    max_tokens: int | None = None  # most new tokens, None = what the context still holds
    ignore_eos: bool = False  # True: end tokens are text like any other and never stop
    stop_token_ids: tuple[int, ...] = ()  # further ids that end the answer, themselves included

    def __post_init__(self):
        limit = self.max_tokens
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
            raise RequestError(f"max_tokens must be an integer, not {limit!r}", param="max_tokens")
        if limit is not None and limit < 1:
            raise RequestError(
                f"max_tokens must be at least 1, not {limit}",
                param="max_tokens",
                hint="leave it out to use the rest of the context",
            )
        object.__setattr__(self, "stop_token_ids", tuple(self.stop_token_ids))
        bad = [t for t in self.stop_token_ids if isinstance(t, bool) or not isinstance(t, int)]
        if bad:
            raise RequestError(
                f"stop_token_ids must be integers, not {bad[0]!r}", param="stop_token_ids"
            )
