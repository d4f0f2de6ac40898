"""Help, version, `info`, `serve`, and the progress bar."""

import importlib
import io
import json
import subprocess
import sys
from types import ModuleType

import pytest
from rich.console import Console

from serving.settings import Settings
from tandem_jax import __version__
from tandem_jax.cli import render
from tandem_jax.cli.serve import EXTRA, resolve
from tandem_jax.errors import ConfigError
from tandem_jax.tree.render import COLOURS


def test_version(tandem):
    assert tandem("--version").stdout == f"tandem-jax {__version__}\n"


@pytest.mark.parametrize("command", ["demo", "generate", "chat", "info", "serve"])
def test_every_command_is_listed_and_has_help(tandem, command):
    assert command in tandem("--help").stdout
    done = tandem(command, "--help")
    assert done.exit_code == 0
    assert "--help" in done.stdout


def test_help_loads_neither_jax_nor_numpy(root):
    code = (
        "import sys\n"
        "from tandem_jax.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: print(sorted({'jax', 'numpy', 'tokenizers'} & set(sys.modules)))\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_info_shows_the_description(tandem):
    assert json.loads(tandem("info", "nano", "--json").stdout)["layers"] == {
        "delta_net": 3,
        "attention": 1,
    }
    shown = tandem("info", "nano").stdout
    for words in ("exactness class", "bitwise", "2,030,000", "none, lookup", "delta net"):
        assert words in shown


def test_serve_passes_its_options_on(tandem, monkeypatch):
    served = []
    monkeypatch.setattr("serving.cli.serve", served.append)
    drafting = ("--drafter", "dflash2", "--draft-model", "nano-b8", "--tap", "output")
    done = tandem("serve", "nano", "--port", "0", "--served-name", "tiny", *drafting)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    named = {"drafter": "dflash2", "draft_model": "nano-b8", "tap": "output"}
    wanted = Settings(model="nano", port=0, served_name="tiny", **named)
    assert served == [wanted]


def test_serve_passes_on_what_the_policy_needs(tandem, monkeypatch):
    served = []
    monkeypatch.setattr("serving.cli.serve", served.append)
    kept = ("--learned", "r.json", "--corpus", "c", "--suffix-store", "s")
    done = tandem("serve", "--policy", "mtp", "--prices", "gb10", "--warmup", "lazy", *kept)
    assert (done.exit_code, done.stderr) == (0, "")
    named = {"policy": "mtp", "prices": "gb10", "warmup": "lazy", "learned": "r.json"}
    assert served == [Settings(**named, corpus="c", suffix_store="s")]
    done = tandem("serve", "--warmup", "soon")
    assert done.exit_code == 2
    assert "unknown warm-up 'soon'" in done.stderr
    assert "full or lazy" in done.stderr


def test_a_foreign_package_of_the_same_name_is_named(monkeypatch):
    room = ModuleType("serving")
    room.__file__ = "elsewhere/serving.py"
    monkeypatch.setitem(sys.modules, "serving", room)
    with pytest.raises(ConfigError, match="hides ours: elsewhere/serving.py"):
        resolve("serving.cli:serve")


@pytest.mark.parametrize("package", sorted(EXTRA))
def test_a_missing_extra_is_named(monkeypatch, package):
    room = ModuleType("serving")
    room.ROOM = "tandem"
    monkeypatch.setitem(sys.modules, "serving", room)

    def import_module(name):
        if name == "serving":
            return room
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    monkeypatch.setattr(importlib, "import_module", import_module)
    with pytest.raises(ConfigError, match=package) as caught:
        resolve("serving.cli:serve")
    assert caught.value.hint == "pip install 'tandem-jax[serve]'"


def test_progress_shows_one_bar_a_stage_and_leaves_nothing_behind(monkeypatch):
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=80)
    monkeypatch.setattr(render, "err", lambda: terminal)
    with render.ProgressLine() as progress:
        progress("loading", 0, 2)
        progress("loading", 2, 2)
        progress("compiling", 0, 3)
    shown = screen.getvalue()
    assert "loading" in shown
    assert "compiling" in shown
    assert terminal._live_stack == []


def test_every_source_has_a_colour_and_a_meaning():
    assert set(render.STYLES) == set(render.MEANINGS) == set(COLOURS)
    assert render.legend(render.STYLES).plain.count("■") == len(render.STYLES)
