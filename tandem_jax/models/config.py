"""The shapes of a hybrid model and of a block drafter, read strictly from checkpoints' configs."""

from dataclasses import dataclass

LINEAR, FULL = "linear_attention", "full_attention"


@dataclass(frozen=True)
class AttentionShape:
    """Sizes of the gated attention layers."""

    heads: int  # query heads
    kv_heads: int  # key/value heads, each shared by consecutive query heads
    width: int  # channels of a head
    rotary: int  # leading channels that are rotated
    theta: float  # rotary base


@dataclass(frozen=True)
class DeltaShape:
    """Sizes of the Gated DeltaNet layers."""

    key_heads: int  # query/key heads
    value_heads: int  # value heads, a multiple of the key heads
    key_dim: int  # channels of a key
    value_dim: int  # channels of a value
    taps: int  # width of the short convolution

    @property
    def channels(self) -> int:
        """Channels of the convolution: queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim


@dataclass(frozen=True)
class HybridConfig:
    """A dense hybrid language model; hashable, so it is static to every jitted function."""

    family: str  # architecture name of the checkpoint
    vocab: int  # rows of the embedding, padding included
    width: int  # residual channels
    hidden: int  # feed-forward channels
    kinds: tuple[str, ...]  # LINEAR or FULL for each layer
    eps: float  # of every norm
    attention: AttentionShape
    delta: DeltaShape
    tied: bool  # the embedding is also the head
    mtp: bool  # the checkpoint has an MTP head
    max_position: int  # tokens the model was made for

    @property
    def n_delta(self) -> int:
        """Number of DeltaNet layers."""
        return self.kinds.count(LINEAR)

    @property
    def n_attention(self) -> int:
        """Number of attention layers."""
        return self.kinds.count(FULL)

    @property
    def period(self) -> int:
        """Smallest number of layers whose kinds repeat through the whole model."""
        n = len(self.kinds)
        fits = (
            p for p in range(1, n + 1) if n % p == 0 and self.kinds[:p] * (n // p) == self.kinds
        )
        return next(fits)


@dataclass(frozen=True)
class DFlashConfig:
    """A block drafter; hashable, so it is static to every jitted function."""

    family: str  # architecture name of the checkpoint
    width: int  # residual channels, the target's
    hidden: int  # feed-forward channels
    windows: tuple[int | None, ...]  # [L] context keys nearer than this are seen, None = all
    causal: tuple[bool, ...]  # [L] whether a row of the block sees only the rows before it
    heads: int  # query heads
    kv_heads: int  # key/value heads, each shared by consecutive query heads
    head: int  # channels of a head, all rotated
    eps: float  # of every norm
    theta: float  # rotary base
    vocab: int  # rows of the target's embedding
    block: int  # rows of a block: the anchor and block - 1 masks
    mask_id: int  # token of the masked rows
    taps: tuple[int, ...]  # the residual stream before these target layers, ascending
    tap: str  # how the checkpoint numbers them: "output" or "entry"
    rank: int  # channels of the selector, 0 = none (v1)
    top_k: int  # candidates of a slot
    conv_group: int  # channels that share a coefficient of the convolutions, 0 = none (v1)
    temperature: float  # of the lattice's scores when they become probabilities
    embed_scale: float = 1.0  # factor on the embedded rows
    output_scale: float = 1.0  # factor on the head's logits
    softcap: float = 0.0  # logits become softcap * tanh(logits / softcap), 0 = off

    @property
    def layers(self) -> int:
        """Number of layers."""
        return len(self.windows)

    @property
    def slots(self) -> int:
        """Tokens proposed by a block, L of the lattice."""
        return self.block - 1
