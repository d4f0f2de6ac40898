"""House rules that ruff does not know, and ruff itself."""

import ast
import re
import subprocess
import sys

MACHINE_PATH = re.compile(r"(?<![\w.~])/(work|root|opt|tmp|farm)/\w")
TEXT_SUFFIXES = {"", ".py", ".md", ".toml", ".json", ".txt", ".sh", ".jinja", ".css", ".js"}
TODO_WITHOUT_VERSION = re.compile(r"#.*\b(TODO|FIXME|XXX)\b(?!\(\d+\.\d+)")
MAX_ENV_VARIABLES = 5
ENV_FILE = "tandem_jax/env.py"


def is_environment_access(node):
    """`os.environ`, `os.getenv`, or one of the two imported by name."""
    if isinstance(node, ast.Attribute):
        is_os = isinstance(node.value, ast.Name) and node.value.id == "os"
        return is_os and node.attr in {"environ", "getenv", "putenv"}
    if isinstance(node, ast.ImportFrom) and node.module == "os":
        return any(alias.name in {"environ", "getenv"} for alias in node.names)
    return False


def swallows_import_error(node):
    if not isinstance(node, ast.ExceptHandler) or node.type is None:
        return False
    names = {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)}
    only_pass = all(isinstance(line, ast.Pass) for line in node.body)
    return only_pass and not names.isdisjoint({"ImportError", "ModuleNotFoundError"})


def places(sources, matches):
    return [
        f"{source.path}:{node.lineno}"
        for source in sources
        for node in ast.walk(source.tree)
        if matches(node)
    ]


def test_environment_is_read_in_one_file(installed):
    elsewhere = [source for source in installed if str(source.path) != ENV_FILE]
    assert places(elsewhere, is_environment_access) == []


def test_environment_variables_are_few(installed):
    text = "".join(source.text for source in installed if str(source.path) == ENV_FILE)
    names = set(re.findall(r"[\"']([A-Z]+(?:_[A-Z0-9]+)+)[\"']", text))
    assert len(names) <= MAX_ENV_VARIABLES, names


def test_nobody_asks_hasattr(sources):
    def calls_hasattr(node):
        return isinstance(node, ast.Name) and node.id == "has" + "attr"

    assert places(sources, calls_hasattr) == []


def test_no_import_error_is_swallowed(sources):
    assert places(sources, swallows_import_error) == []


def test_public_things_have_docstrings(installed):
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    missing = [f"{source.path}" for source in installed if not ast.get_docstring(source.tree)]
    missing += [
        f"{source.path}:{node.lineno} {node.name}"
        for source in installed
        for node in source.tree.body
        if isinstance(node, kinds) and not node.name.startswith("_") and not ast.get_docstring(node)
    ]
    assert missing == []


def test_no_todo_without_a_version(sources):
    wrong = [
        f"{source.path}:{number}"
        for source in sources
        for number, line in enumerate(source.text.splitlines(), 1)
        if TODO_WITHOUT_VERSION.search(line) and source.path.name != "test_style.py"
    ]
    assert wrong == []


def test_no_machine_paths(root, tracked):
    wrong = [
        f"{path}:{number} {line.strip()[:80]}"
        for path in tracked
        if path.suffix in TEXT_SUFFIXES and (root / path).stat().st_size < 1 << 20
        for number, line in enumerate((root / path).read_text("utf-8").splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert wrong == []


def test_ruff_is_clean(root):
    command = [sys.executable, "-m", "ruff", "check", "--quiet", "--output-format=concise", "."]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
