"""The weight format that config.json declares, read strictly; the tensors say what is really there.

Source: ModelOpt's `quantization_config` of exports for Hugging Face.
"""

from tandem_jax.errors import ConfigError

KEY = "quantization_config"
DENSE, NVFP4 = "dense", "nvfp4"
GROUP_SIZE = 16  # columns that share a scale, fixed by the format
TAKEN = ("quant_method", "quant_algo", "group_size", "ignore")
IGNORED = {"producer": "name and version of the program that wrote the checkpoint"}


def declared_format(raw: dict) -> str:
    """"dense" or "nvfp4", by `quantization_config` at the root of config.json or beside the text.

    Raises ConfigError for another method and for unknown keys.
    """
    inside = raw.get("text_config")
    places = [raw, inside] if isinstance(inside, dict) else [raw]
    found = [place[KEY] for place in places if KEY in place]
    if not found:
        return DENSE
    value = found[0]
    told = value if not isinstance(value, dict) else {k: value.get(k) for k in TAKEN[:2]}
    if told != {"quant_method": "modelopt", "quant_algo": "NVFP4"}:
        raise ConfigError(
            f"the checkpoint is quantised ({KEY} {told!r}), which this version does not read",
            hint="use the bf16 release, or an export with quant_method 'modelopt' and quant_algo "
            "'NVFP4'",
        )
    unknown = sorted(set(value) - set(TAKEN) - set(IGNORED))
    if unknown:
        raise ConfigError(
            f"{KEY} has unknown keys: {', '.join(unknown)}",
            hint="the export may be of a newer ModelOpt than this version reads",
        )
    size, ignore = value.get("group_size", GROUP_SIZE), value.get("ignore", [])
    if type(size) is not int or size != GROUP_SIZE:
        raise ConfigError(f"{KEY}: group_size = {size!r} is not supported, only {GROUP_SIZE}")
    if not isinstance(ignore, list) or not all(isinstance(name, str) for name in ignore):
        raise ConfigError(f"{KEY}: ignore must be a list of names, not {ignore!r}")
    return NVFP4
