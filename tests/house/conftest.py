"""The parsed source tree that every house test looks at."""

import ast
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

INSTALLED = ("tandem_jax", "pallas_kernels", "serving", "checkpoints")
ROOMS = (*INSTALLED, "tests", "tools")


@dataclass(frozen=True)
class Source:
    """One Python file of ours."""

    path: PurePosixPath  # relative to the checkout
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """First folder of the path."""
        return self.path.parts[0]

    @property
    def module(self) -> str:
        """Dotted import name; a package for its `__init__.py`."""
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def lines(self) -> int:
        """Number of lines, the last one counted with or without its newline."""
        return len(self.text.splitlines())

    def imports(self) -> set[str]:
        """Dotted names of all modules imported anywhere in the file, relative ones resolved."""
        found = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = self._base(node)
                # `from package import name` may import a module: keep both spellings.
                found.add(base)
                found.update(f"{base}.{alias.name}" for alias in node.names)
        return found

    def _base(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module
        package = self.path.parent.parts
        outer = package[: len(package) - (node.level - 1)]
        return ".".join((*outer, node.module) if node.module else outer)


@pytest.fixture(scope="session")
def tracked(root: Path) -> tuple[PurePosixPath, ...]:
    """Files that git tracks or would add, relative to the checkout."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    names = sorted(set(filter(None, listed.split("\0"))))
    return tuple(PurePosixPath(name) for name in names if (root / name).is_file())


@pytest.fixture(scope="session")
def sources(root: Path, tracked: tuple[PurePosixPath, ...]) -> tuple[Source, ...]:
    """Every Python file of our rooms, parsed."""
    python = [path for path in tracked if path.suffix == ".py" and path.parts[0] in ROOMS]
    texts = [(path, (root / path).read_text(encoding="utf-8")) for path in python]
    return tuple(Source(path, text, ast.parse(text, str(path))) for path, text in texts)


@pytest.fixture(scope="session")
def installed(sources: tuple[Source, ...]) -> tuple[Source, ...]:
    """The Python files of the four rooms that are installed."""
    return tuple(source for source in sources if source.room in INSTALLED)
