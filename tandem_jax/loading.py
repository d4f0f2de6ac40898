"""From a checkpoint directory to stacked device arrays, tensor by tensor.

Everything that can be wrong is found in the headers, before any device memory is used. Each stack
is filled layer by layer in a donated buffer, so the peak is the weights plus one layer.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path

import jax
import jax.numpy as jnp
from jax import lax

import checkpoints
from checkpoints import Checkpoint, Nvfp4Module
from tandem_jax.errors import CheckpointError, ConfigError
from tandem_jax.models import MODELS
from tandem_jax.models.config import HybridConfig
from tandem_jax.models.family import Family, Leaf
from tandem_jax.models.hybrid import Model, assemble
from tandem_jax.quant.declared import DENSE, declared_format
from tandem_jax.quant.dense import Dense

SHIPPED = ("mini", "nano")
HEAD = "lm_head.weight"  # may be stored although the embedding is the head
Progress = Callable[[str, int, int], None]  # (phase, done, total)


@dataclass(frozen=True)
class LoadedModel(Model):
    """A checkpoint on the device."""

    path: Path  # directory it came from
    checkpoint: Checkpoint  # headers and raw configs
    warnings: tuple[str, ...]  # lines a user should see


def shipped_path(name: str) -> Path:
    """Directory of a model that ships with the package."""
    return Path(checkpoints.__file__).parent / "demo" / name


def resolve_model(model: str | Path) -> Path:
    """A directory as given, or the shipped model of that name ("mini", "nano")."""
    if str(model) in SHIPPED and not Path(model).exists():
        path = shipped_path(str(model))
        if not path.is_dir():
            raise CheckpointError(
                f"the shipped model {model!r} is not part of this installation",
                hint="pass the directory of a checkpoint",
            )
        return path
    return Path(model)


@contextmanager
def user_errors() -> Iterator[None]:
    """What is wrong with a checkpoint, as an error that a user is told."""
    try:
        yield
    except checkpoints.CheckpointError as error:
        raise CheckpointError(str(error), hint=error.hint) from error


def open_directory(path: Path) -> Checkpoint:
    """The headers of a checkpoint directory; raises checkpoints.CheckpointError."""
    return checkpoints.open_checkpoint(path)


def open_model(
    model: str | Path, dtype: str | None = None
) -> tuple[Checkpoint, HybridConfig, Family, tuple[str, ...]]:
    """Read and check the headers: (checkpoint, config, family, warnings).

    `dtype` is that of the weights once loaded, which a warning names. Raises CheckpointError or
    ConfigError; uses no device memory.
    """
    with user_errors():
        opened = checkpoints.open_checkpoint(resolve_model(model))
        family = find_family(opened.config)
        config = family.read_config(opened.config)
        warnings = list(opened.warnings)
        if config.mtp and not opened.has_mtp:
            warnings.append("config.json announces an MTP head, but its tensors are not there")
        config = replace(config, mtp=opened.has_mtp)
        spare = {HEAD: (config.vocab, config.width)} if config.tied else {}
        if HEAD in opened.tensors and config.tied:
            warnings.append(f"{HEAD} is stored beside tie_word_embeddings = true and is not used")
        warnings += check_leaves(opened, family.leaves(config), dtype, optional=spare)
    return opened, config, family, tuple(warnings)


def check_leaves(
    opened: Checkpoint,
    leaves: Iterable[Leaf],
    dtype: str | None = None,
    *,
    optional: Mapping[str, Sequence[int]] | None = None,
) -> list[str]:
    """Compare the tensors and their formats with the leaves and config.json; returns warnings.

    `optional` tensors may be there, unused. Raises checkpoints.CheckpointError, or ConfigError if
    config.json declares a format that the tensors do not have.
    """
    leaves, spare = list(leaves), optional or {}
    expected = {name: leaf.shape for leaf in leaves for name in leaf.names}
    matrices = {name for leaf in leaves if leaf.matrix for name in leaf.names}
    modules = checkpoints.nvfp4_modules(opened)
    checkpoints.check_quantised(opened, modules, matrices | set(spare))
    checkpoints.check_shapes(opened, expected, optional=spare, modules=modules)
    checkpoints.check_dtypes(opened, modules=modules)
    declared, hint = declared_format(opened.config), "they must come from the same checkpoint"
    if modules and declared == DENSE:
        raise ConfigError(
            f"{len(modules)} tensors are NVFP4, {min(modules)} among them, but config.json has no "
            "quantization_config",
            hint=hint,
        )
    if declared != DENSE and not modules:
        raise ConfigError(
            "config.json has a quantization_config, but no tensor is quantised", hint=hint
        )
    return _format_warnings(modules, len(modules.keys() & matrices), dtype)


def _format_warnings(
    modules: Mapping[str, Nvfp4Module], used: int, dtype: str | None
) -> list[str]:
    warnings = []
    if modules:
        warnings.append(
            f"{used} NVFP4 matrices are dequantised to {dtype or 'the dtype of the weights'} at "
            "load: this version has no four-bit kernel"
        )
    if scales := sum(module.input_scale is not None for module in modules.values()):
        warnings.append(f"{scales} input_scale tensors are not used: activations stay unquantised")
    return warnings


def find_family(raw: dict) -> Family:
    """The family of a raw config.json; raises ConfigError for one that is not in MODELS."""
    names = raw.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    if not isinstance(name, str) or name not in MODELS:
        raise ConfigError(
            f"the architecture {name!r} is not supported",
            hint=f"supported: {', '.join(sorted(MODELS))}",
        )
    module, _, attribute = MODELS[name].partition(":")
    return getattr(import_module(module), attribute)


@partial(jax.jit, donate_argnums=0)
def _put_layer(stack: jax.Array, layer: jax.Array, index: jax.Array) -> jax.Array:
    return lax.dynamic_update_index_in_dim(stack, layer, index, 0)


def _load_leaf(
    opened: Checkpoint, leaf: Leaf, dtype: jnp.dtype, modules: Mapping[str, Nvfp4Module]
) -> jax.Array:
    """One field on the device; its layers are copied, and dequantised, one at a time."""
    dtype = jnp.dtype(jnp.float32) if leaf.float32 else jnp.dtype(dtype)

    def read(name: str):
        return checkpoints.read_weight(opened, name, dtype, modules.get(name)).reshape(
            leaf.stored_shape
        )

    def drop(name: str) -> None:
        checkpoints.drop_weight(opened, name, modules.get(name))

    if not leaf.stacked:
        # A copy: jax may keep the host's array, and the mapped file must not outlive the load.
        array = jnp.array(read(leaf.names[0]), copy=True).block_until_ready()
        drop(leaf.names[0])
    else:
        array = jnp.zeros((len(leaf.names), *leaf.stored_shape), dtype)
        for i, name in enumerate(leaf.names):
            # One at a time: queued copies would keep every layer of the stack alive on the host.
            array = _put_layer(array, jnp.asarray(read(name)), jnp.int32(i)).block_until_ready()
            drop(name)
    return array


def load_fields(
    opened: Checkpoint,
    leaves: Iterable[Leaf],
    dtype: str | jnp.dtype,
    progress: Progress | None = None,
) -> dict[str, object]:
    """Read the leaves onto the device: field -> array, or Dense for a matrix, in `dtype`.

    progress("load", tensors done, tensors in all) is called after each field.
    """
    leaves, modules = list(leaves), checkpoints.nvfp4_modules(opened)
    total, done = sum(len(leaf.names) for leaf in leaves), 0
    fields: dict[str, object] = {}
    for leaf in leaves:
        array = _load_leaf(opened, leaf, dtype, modules)
        fields[leaf.field] = Dense(array) if leaf.matrix else array
        done += len(leaf.names)
        if progress is not None:
            progress("load", done, total)
    return fields


def load_model(
    model: str | Path, dtype: str = "float32", progress: Progress | None = None
) -> LoadedModel:
    """Load a checkpoint directory (or "mini" / "nano") with weights in `dtype`.

    progress("load", tensors done, tensors in all) is called after each field. Raises
    CheckpointError or ConfigError before any device memory is used.
    """
    opened, config, family, warnings = open_model(model, jnp.dtype(dtype).name)
    fields = load_fields(opened, family.leaves(config), dtype, progress)
    weights = assemble(config, fields)
    return LoadedModel(config, weights, opened.path, opened, warnings)
