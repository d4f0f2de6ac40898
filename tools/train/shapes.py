"""Sizes of the demo models and their Hugging Face configuration."""

from dataclasses import dataclass

from checkpoints.layouts import UNQUANTISED
from checkpoints.nvfp4 import modelopt_config


@dataclass(frozen=True)
class ModelShape:
    """Sizes of one dense Qwen3.5 hybrid; every fourth layer is full attention."""

    d_model: int  # D, residual width
    n_layers: int  # a multiple of 4
    d_ffn: int  # width of the gated MLP
    key_heads: int  # DeltaNet key heads
    value_heads: int  # DeltaNet value heads, a multiple of key_heads
    d_delta: int  # DeltaNet key and value width
    query_heads: int  # attention query heads
    kv_heads: int  # attention KV heads
    d_head: int  # attention head width
    vocabulary: int = 8_192
    rotary_share: float = 0.25
    rope_theta: float = 1e7
    conv_taps: int = 4
    eps: float = 1e-6
    max_context: int = 8_192

    @property
    def n_groups(self) -> int:
        """Groups of three DeltaNet layers and one attention layer."""
        return self.n_layers // 4

    @property
    def d_rotary(self) -> int:
        """Rotated dims of an attention head."""
        return int(self.d_head * self.rotary_share)

    @property
    def conv_channels(self) -> int:
        """Channels of the short convolution: q, k and v rows."""
        return (2 * self.key_heads + self.value_heads) * self.d_delta


PRESETS = {
    "nano": ModelShape(d_model=128, n_layers=4, d_ffn=320, key_heads=1, value_heads=2, d_delta=64,
                       query_heads=2, kv_heads=1, d_head=64),
    # Between the specification's lite and mini, so that target and drafters fit the repository:
    # the 27B's DeltaNet (1:3 heads of 128), attention heads of 256, matrix sides a multiple of 128.
    "mini": ModelShape(d_model=384, n_layers=12, d_ffn=768, key_heads=1, value_heads=3, d_delta=128,
                       query_heads=4, kv_heads=2, d_head=256),
}


def _mrope_section(half: int) -> list[int]:
    """Split the rotary frequencies in the 27B's proportions (11, 11, 10 of 32)."""
    rest = half // 3
    return [half - 2 * rest, rest, rest]


def hf_config(shape: ModelShape, *, end_of_text: int, pad: int, nvfp4: bool = False,
              tied: bool = True) -> dict:
    """Return config.json of a text-only `Qwen3_5ForCausalLM` checkpoint with one MTP layer.

    `nvfp4`: matrices in ModelOpt's NVFP4 layout and a head of its own, whatever `tied` says.
    """
    kinds = ["linear_attention"] * 3 + ["full_attention"]
    return {
        "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text",
        "vocab_size": shape.vocabulary, "hidden_size": shape.d_model,
        "intermediate_size": shape.d_ffn, "num_hidden_layers": shape.n_layers,
        "layer_types": kinds * shape.n_groups, "full_attention_interval": 4,
        "num_attention_heads": shape.query_heads, "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.d_head, "attn_output_gate": True, "attention_bias": False,
        "attention_dropout": 0.0, "linear_conv_kernel_dim": shape.conv_taps,
        "linear_key_head_dim": shape.d_delta, "linear_value_head_dim": shape.d_delta,
        "linear_num_key_heads": shape.key_heads, "linear_num_value_heads": shape.value_heads,
        "mamba_ssm_dtype": "float32", "output_gate_type": "swish",
        "rope_parameters": {
            "rope_type": "default", "rope_theta": shape.rope_theta,
            "partial_rotary_factor": shape.rotary_share,
            "mrope_section": _mrope_section(shape.d_rotary // 2), "mrope_interleaved": True},
        "max_position_embeddings": shape.max_context, "rms_norm_eps": shape.eps,
        "hidden_act": "silu", "initializer_range": 0.02, "tie_word_embeddings": tied and not nvfp4,
        "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False, "use_cache": True,
        "dtype": "bfloat16", "bos_token_id": None, "eos_token_id": end_of_text, "pad_token_id": pad,
        **({"quantization_config": modelopt_config(UNQUANTISED)} if nvfp4 else {}),
    }
