"""Checkpoints on disk: safetensors headers, shard rules, tensor names, layouts, tiny test sets."""

from checkpoints.checkpoint import Checkpoint, open_checkpoint
from checkpoints.checks import check_dtypes, check_shapes
from checkpoints.errors import CheckpointError
from checkpoints.headers import TensorInfo

# The folder's name is a common word: whoever imports it can check that it got this one.
ROOM = "tandem"

__all__ = [
    "ROOM",
    "Checkpoint",
    "CheckpointError",
    "TensorInfo",
    "check_dtypes",
    "check_shapes",
    "open_checkpoint",
]
