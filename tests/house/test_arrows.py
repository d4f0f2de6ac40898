"""Arrows point down: who may import whom, between the rooms and inside `tandem_jax`."""

import sys

import pytest

ROOM_ARROWS = {
    "pallas_kernels": set(),
    "checkpoints": set(),
    "tandem_jax": {"pallas_kernels", "checkpoints"},
    "serving": {"tandem_jax"},
    "tools": {"tandem_jax", "pallas_kernels", "checkpoints", "serving"},
}

# What a room may import from outside; tools and tests are free.
LIBRARIES = {
    "pallas_kernels": {"jax", "jaxlib", "numpy"},
    "checkpoints": {"numpy", "ml_dtypes", "safetensors"},
    "tandem_jax": {"jax", "numpy", "ml_dtypes", "tokenizers", "jinja2", "typer", "rich"},
    "serving": {"fastapi", "starlette", "pydantic", "uvicorn", "msgspec", "anyio"},
}

# Inside tandem_jax a package imports only packages of a later line; the last line is the ground
# everything stands on, and its files may use each other.
ORDER = (
    {"cli"},
    {"api", "batch"},
    {"routing"},
    {"engine", "loading_drafter"},
    {"loading"},
    {"staircut"},
    {"drafters", "caches"},
    {"models", "sampling", "text"},
    {"state", "tree"},
    {"quant"},
    {"ops"},
    {"shapes", "config", "env", "errors"},
)
LEVEL = {name: level for level, names in enumerate(ORDER) for name in names}

# The only package of tandem_jax that may import the room.
DOORS = {"checkpoints": "loading", "pallas_kernels": "ops"}

WITHOUT_JAX = (
    "tandem_jax.text",
    "tandem_jax.drafters",
    "tandem_jax.staircut",
    "tandem_jax.tree.draft_tree",
    "tandem_jax.tree.merge",
    "tandem_jax.sampling.params",
    "tandem_jax.errors",
    "tandem_jax.cli",
    "serving",
    "checkpoints",
)


def room_of(module):
    return module.split(".")[0]


def package_of(module):
    """`tandem_jax.engine.round` -> `engine`; None for the bare top."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def is_under(module, name):
    return module == name or module.startswith(name + ".")


def test_rooms_import_only_rooms_below_them(sources):
    wrong = [
        f"{source.path} imports {target}"
        for source in sources
        if source.room in ROOM_ARROWS
        for target in sorted({room_of(module) for module in source.imports()})
        if target in {*ROOM_ARROWS, "tests"}
        and target != source.room
        and target not in ROOM_ARROWS[source.room]
    ]
    assert wrong == []


def test_rooms_import_only_their_libraries(installed):
    wrong = [
        f"{source.path} imports {target}"
        for source in installed
        for target in sorted({room_of(module) for module in source.imports()})
        if target not in ROOM_ARROWS
        and target not in sys.stdlib_module_names
        and target not in LIBRARIES[source.room]
    ]
    assert wrong == []


def test_packages_inside_tandem_jax_import_only_to_the_right(installed):
    wrong, ground = [], len(ORDER) - 1
    for source in installed:
        here = package_of(source.module)
        if source.room != "tandem_jax" or here is None:
            continue
        assert here in LEVEL, f"{source.path}: give {here} its place in ORDER"
        for module in source.imports():
            there = package_of(module) if room_of(module) == "tandem_jax" else None
            if there not in LEVEL or there == here:
                continue
            if not (LEVEL[here] < LEVEL[there] or LEVEL[here] == LEVEL[there] == ground):
                wrong.append(f"{source.path} imports {module}")
    assert wrong == []


@pytest.mark.parametrize("room", sorted(DOORS))
def test_only_one_door_leads_to_a_lower_room(installed, room):
    importers = {
        package_of(source.module)
        for source in installed
        if source.room == "tandem_jax" and room in map(room_of, source.imports())
    }
    assert importers <= {DOORS[room]}


def test_host_side_modules_name_no_jax(installed):
    wrong = [
        str(source.path)
        for source in installed
        if any(is_under(source.module, name) for name in WITHOUT_JAX)
        and not {"jax", "jaxlib"}.isdisjoint(map(room_of, source.imports()))
    ]
    assert wrong == []
