"""Everything that can be set about one server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of `tandem serve`, with the limits that keep one client from harming the others."""

    model: str = "mini"  # a checkpoint directory, or a shipped model: "mini", "nano"
    host: str = "127.0.0.1"  # address to listen on
    port: int = 8000  # 0: any free port
    drafter: str = "auto"  # name in the table of drafters
    draft_model: str | None = None  # a block drafter's directory or shipped name, None = its own
    tap: str | None = None  # "output" or "entry", None = what the draft model says
    policy: str = "auto"  # who decides what a round drafts
    prices: str | None = None  # price file or packaged table, None = the one of the device
    corpus: str | None = None  # directory of a corpus that the lookup copies from
    suffix_store: str | None = None  # file of a store that the lookup copies from
    suffix_store_readonly: bool = False  # add nothing to it
    learned: str | None = None  # file of what the policy learned, kept between runs
    warmup: str = "full"  # "full" compiles all at the start, "lazy" most of it in idle seconds
    max_context: int | None = None  # tokens of prompt and answer together, None = the model's
    dtype: str = "auto"  # type of weights and activations
    node_budget: int | None = None  # most drafted nodes of a round, None = what the policy takes
    served_name: str | None = None  # `model` in requests and answers, None = the model's own name
    max_queue: int = 64  # requests that may wait; one more is answered with 429
    max_prompts: int = 128  # prompts in one completions request
    max_body_bytes: int = 16 << 20  # larger bodies are answered with 413
    keep_alive_s: float = 15.0  # silence on a stream before a comment line is sent
    send_timeout_s: float = 60.0  # a client that takes nothing for so long is dropped
    shutdown_grace_s: int = 30  # how long live answers may go on after a stop signal
