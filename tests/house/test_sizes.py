"""Files and functions stay small enough to read in one sitting."""

import ast
import statistics

LIMITS = {"median_file": 150, "file": 600, "function": 60}
REPOSITORY_BYTES = 45_000_000


def test_median_file_is_short(sources):
    assert statistics.median(source.lines for source in sources) < LIMITS["median_file"]


def test_no_file_is_long(sources):
    long = {str(source.path): source.lines for source in sources}
    assert {path: n for path, n in long.items() if n > LIMITS["file"]} == {}


def test_no_function_is_long(sources):
    long = [
        f"{source.path}:{node.lineno} {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno + 1 > LIMITS["function"]
    ]
    assert long == []


def test_repository_stays_light(root, tracked):
    total = sum((root / path).stat().st_size for path in tracked)
    assert total < REPOSITORY_BYTES
