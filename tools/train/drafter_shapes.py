"""Sizes of the demo drafters (DFlash2: a block of masked rows over the target's features)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DrafterShape:
    """Sizes of one DFlash2 drafter; embedding and head are the target's."""

    d_model: int  # D, residual width, equal to the target's
    n_layers: int  # sliding-window layers
    d_ffn: int  # width of the gated MLP
    heads: int  # query heads
    kv_heads: int  # key/value heads
    d_head: int  # head width, rotated whole
    block: int  # rows of a block: the anchor and block - 1 masks, hence block - 1 proposals
    taps: tuple[int, ...]  # target layers whose entering residual stream is read, ascending
    target_layers: int  # layers of the target
    window: int  # a context key is seen at a distance below this many tokens
    rank: int  # selector rank
    top_k: int = 16  # candidates of a slot
    mask_id: int = 8_190  # id of <|mask|>
    conv_group: int = 16  # channels that share one dynamic coefficient
    rope_theta: float = 1e7
    eps: float = 1e-6
    vocabulary: int = 8_192  # V

    @property
    def slots(self) -> int:
        """Proposals of a block, L."""
        return self.block - 1

    @property
    def conv_groups(self) -> int:
        """Groups of channels in the dynamic convolution."""
        return self.d_model // self.conv_group


_MINI = {"d_model": 384, "n_layers": 3, "d_ffn": 768, "heads": 6, "kv_heads": 2, "d_head": 64,
         "taps": (1, 4, 6, 9, 11), "target_layers": 12, "window": 1_024, "rank": 32}
DRAFTERS = {
    "mini-b8": DrafterShape(block=8, **_MINI),
    "mini-b16": DrafterShape(block=16, **_MINI),
    "nano-b8": DrafterShape(d_model=128, n_layers=2, d_ffn=256, heads=4, kv_heads=2, d_head=32,
                            block=8, taps=(1, 2, 3), target_layers=4, window=512, rank=8),
}
