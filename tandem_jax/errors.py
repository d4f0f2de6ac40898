"""Errors that a user can cause, each with a hint that says what to do about it.

The command line prints `error: message` and `hint: ...` and exits with code 2; the HTTP side maps
them to 4xx answers. Faults of our own stay ordinary exceptions and asserts.
"""


class TandemError(Exception):
    """Base of every error a user can cause."""

    def __init__(self, message: str, *, hint: str = ""):
        super().__init__(message)
        self.hint = hint


class ConfigError(TandemError):
    """An option or a key of a checkpoint's config that is unknown or has an illegal value."""


class CheckpointError(TandemError):
    """A checkpoint that is missing, damaged, or of a family this engine does not read."""


class RequestError(TandemError):
    """A request that cannot be served as asked; `param` names the field at fault."""

    def __init__(self, message: str, *, param: str, hint: str = "", code: str | None = None):
        super().__init__(message, hint=hint)
        self.param = param
        self.code = code


class ContextLengthError(RequestError):
    """A prompt that leaves no room for one new token."""

    def __init__(self, n_prompt_tokens: int, n_ctx: int, *, param: str = "prompt"):
        super().__init__(
            f"the prompt has {n_prompt_tokens} tokens, but the context holds {n_ctx} "
            "and needs room for at least one new token",
            param=param,
            hint="shorten the prompt or load the model with a larger max_context",
            code="context_length_exceeded",
        )
        self.n_prompt_tokens = n_prompt_tokens
        self.n_ctx = n_ctx


class EmptyPromptError(RequestError):
    """A prompt without a single token."""

    def __init__(self, *, param: str = "prompt"):
        super().__init__(
            "the prompt is empty", param=param, hint="give at least one character of text"
        )
