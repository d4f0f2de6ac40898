"""Checkpoints on disk: safetensors headers, shard rules, tensor names, layouts, tiny test sets."""

from checkpoints.checkpoint import Checkpoint, open_checkpoint
from checkpoints.checks import check_dtypes, check_quantised, check_shapes
from checkpoints.errors import CheckpointError
from checkpoints.headers import TensorInfo
from checkpoints.modules import Nvfp4Module, drop_weight, nvfp4_modules, read_weight

# The folder's name is a common word: whoever imports it can check that it got this one.
ROOM = "tandem"

__all__ = [
    "ROOM",
    "Checkpoint",
    "CheckpointError",
    "Nvfp4Module",
    "TensorInfo",
    "check_dtypes",
    "check_quantised",
    "check_shapes",
    "drop_weight",
    "nvfp4_modules",
    "open_checkpoint",
    "read_weight",
]
