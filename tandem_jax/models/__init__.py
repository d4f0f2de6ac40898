"""Model families: pure functions over dataclass pytrees. A new family is one file and one line."""

MODELS = {
    "Qwen3_5ForCausalLM": "tandem_jax.models.qwen35:QWEN35",
    "Qwen3_5ForConditionalGeneration": "tandem_jax.models.qwen35:QWEN35",
}
