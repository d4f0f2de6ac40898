"""Text on both sides of the model: tokenizer, streaming detokenizer, chat template, stop ids."""

from tandem_jax.text.chat import RESERVED_VARIABLES, ChatTemplate
from tandem_jax.text.detokenize import Detokenizer, DetokenizerState
from tandem_jax.text.messages import reasoning_variables
from tandem_jax.text.stop_ids import stop_token_ids
from tandem_jax.text.tokenizer import Tokenizer

__all__ = [
    "RESERVED_VARIABLES",
    "ChatTemplate",
    "Detokenizer",
    "DetokenizerState",
    "Tokenizer",
    "reasoning_variables",
    "stop_token_ids",
]
