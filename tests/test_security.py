"""No input is executed: the functions that can run code are used in few files, each for a known purpose."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from golden import ROOT

RUNS_CODE = {"eval", "exec", "compile", "__import__"}
MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "code", "runpy", "subprocess", "pty", "ctypes"}
ALLOWED = {  # the reason is in docs/security.md, or in the file
    "kwire/codegen.py": {"exec", "compile"},
    "kwire/schema/classes.py": {"exec"},
    "kwire/spark/plain.py": {"pickle"},
    "mockbroker/lab/torture/process.py": {"subprocess"},  # starts the command that the user gives
    "mockbroker/lab/demo/story.py": {"subprocess"},  # starts Python with the examples of the demo
}


def uses(source: str) -> Iterator[str]:
    """Yield the names of functions and modules that can run code, as they occur in a source text."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in RUNS_CODE:
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id="yaml"), attr=name)) if name != "safe_load":
                yield f"yaml.{name}"
            case ast.Import(names=names):
                yield from (each.name for each in names if each.name.partition(".")[0] in MODULES)
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in MODULES:
                yield module


def product_files() -> list[Path]:
    return [path for package in ("kwire", "mockbroker") for path in sorted((ROOT / package).rglob("*.py"))]


def test_only_listed_files_can_run_code() -> None:
    results = {}
    for path in product_files():
        if names := set(uses(path.read_text("utf-8"))):
            results[path.relative_to(ROOT).as_posix()] = names
    assert len(product_files()) > 500
    assert results == ALLOWED


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("eval(text)", ["eval"]),
        ("import pickle", ["pickle"]),
        ("from marshal import loads", ["marshal"]),
        ("import subprocess as sp", ["subprocess"]),
        ("import yaml\nyaml.load(text)", ["yaml.load"]),
        ("import yaml\nyaml.safe_load(text)", []),
        ("re.compile(text)", []),
        ("pattern.exec(text)", []),
    ],
)
def test_each_way_to_run_code_is_noticed(source: str, names: list[str]) -> None:
    assert list(uses(source)) == names
