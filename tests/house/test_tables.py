"""Plug-in tables: every `module:Attr` line names something that is there."""

import ast
import importlib
import re

import pytest

LINE = re.compile(r"^(tandem_jax|pallas_kernels|serving|checkpoints)(\.\w+)*:\w+$")
TABLES = ("MODELS", "DRAFT_MODELS", "DRAFTERS")


def lines(sources):
    """All string constants in the form of a table line, with the place that holds each."""
    return [
        (f"{source.path}:{node.lineno}", node.value)
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and LINE.match(node.value)
    ]


def tables(sources):
    """Names of module-level tables that hold at least one line."""
    found = set()
    for source in sources:
        for node in source.tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", 0)]
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            holds = [x for x in ast.walk(node) if isinstance(x, ast.Constant)]
            if any(isinstance(x.value, str) and LINE.match(x.value) for x in holds):
                found |= names
    return found


def test_every_line_resolves(installed):
    broken = []
    for place, line in lines(installed):
        module, name = line.split(":")
        try:
            getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            broken.append(f"{place} {line}: {error}")
    assert broken == []


@pytest.mark.parametrize("table", TABLES)
def test_table_is_there_and_not_empty(installed, table):
    assert table in tables(installed)
