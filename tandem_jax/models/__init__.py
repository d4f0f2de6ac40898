"""Model families: pure functions over dataclass pytrees. A new family is one file and one line."""

MODELS = {
    "Qwen3_5ForCausalLM": "tandem_jax.models.qwen35:QWEN35",
    "Qwen3_5ForConditionalGeneration": "tandem_jax.models.qwen35:QWEN35",
}

# Architecture of a block drafter -> reader of its config.
DRAFT_MODELS = {
    "DFlashDraftModel": "tandem_jax.models.dflash2_config:read_draft_config",
    "DFlash2DraftModel": "tandem_jax.models.dflash2_config:read_draft_config",
}
