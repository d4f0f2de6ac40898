"""What README and docs show a reader works: Python blocks run, commands parse, files exist."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from tandem_jax.cli import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/structure.md", "docs/exactness.md", "docs/staircut.md")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"(?<![\w./-])(?:\w[\w-]*/)+[\w-]+\.(?:py|md|json|toml|jinja)\b")
FOLDERS = re.compile(
    r"`((?:tandem_jax|pallas_kernels|serving|checkpoints|tests|tools|docs)/[\w/]*)`"
)
COMMANDS = ("pip install . && tandem demo", "pip install -e '.[dev]' && pytest")


def blocks(page, language):
    return [code for found, code in BLOCK.findall(page.read_text("utf-8")) if found == language]


def commands(page):
    """Lines of shell blocks that call `tandem`, as argument lists."""
    lines = "".join(blocks(page, "bash")).splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("tandem ")]


def parse(arguments):
    """Parse as the real command line would, without running anything."""
    group = typer.main.get_command(app)
    context = group.make_context("tandem", list(arguments))
    name, command, rest = group.resolve_command(context, list(arguments))
    return command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("command", COMMANDS)
def test_readme_gives_both_commands_word_for_word(root, command):
    lines = "".join(blocks(root / "README.md", "bash")).splitlines()
    assert command in lines


def test_ci_runs_both_commands_word_for_word(root):
    script = (root / ".ci" / "run").read_text("utf-8")
    assert [command for command in COMMANDS if f"{{ {command}; }}" not in script] == []


def test_shell_lines_parse(root):
    lines = [arguments for page in PAGES for arguments in commands(root / page)]
    assert len(lines) >= 5
    assert [parse(arguments).info_name for arguments in lines] == [line[0] for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(ROOT / page, "python")])
def test_python_blocks_run(root, page, tmp_path, monkeypatch):
    """All blocks of a page in order and in one namespace, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": page}
    for number, code in enumerate(blocks(root / page, "python"), 1):
        exec(compile(code, f"{page}, Python block {number}", "exec"), namespace)
    assert "llm" in namespace


@pytest.mark.parametrize("page", PAGES)
def test_named_files_exist(root, page):
    text = (root / page).read_text("utf-8")
    named = {*FILE.findall(text), *FOLDERS.findall(text)}
    assert named
    assert {name for name in named if not (root / name).exists()} == set()


def test_structure_names_every_package(root, installed):
    """A package that the map of the house leaves out cannot be found by a newcomer."""
    text = (root / "docs" / "structure.md").read_text("utf-8")
    packages = {str(source.path.parent) for source in installed}
    assert {package for package in packages if f"{package}/" not in text} == set()
