"""What an import really pulls in, asked of a fresh interpreter."""

import json
import subprocess
import sys

import pytest

# Imports the named modules and all their submodules, then prints what has been loaded.
PROBE = """
import importlib, json, pkgutil, sys
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    for found in pkgutil.walk_packages(getattr(module, "__path__", []), name + "."):
        importlib.import_module(found.name)
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""


def loaded_by(root, *modules):
    command = [sys.executable, "-c", PROBE, *modules]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    "modules",
    [
        ("serving",),
        ("checkpoints",),
        ("tandem_jax.text", "tandem_jax.drafters", "tandem_jax.errors"),
        ("tandem_jax.tree.draft_tree", "tandem_jax.tree.merge", "tandem_jax.sampling.params"),
        ("tandem_jax.cli",),
    ],
    ids=lambda modules: modules[0],
)
def test_host_side_never_loads_jax(root, modules):
    assert loaded_by(root, *modules).isdisjoint({"jax", "jaxlib"})


def test_import_tandem_jax_touches_no_other_room_and_no_library(root):
    """The generic room names stay out of the way until something needs them."""
    heavy = {"jax", "numpy", "rich", "typer", "pallas_kernels", "serving", "checkpoints"}
    code = "import json, sys, tandem_jax; print(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert heavy.isdisjoint(json.loads(done.stdout))


def test_every_public_name_resolves(root):
    code = "import tandem_jax\nfor name in tandem_jax.__all__: print(getattr(tandem_jax, name))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
