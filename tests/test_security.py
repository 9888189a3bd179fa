"""No input is executed: the functions that can run code are used in few files, each for a known purpose."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from golden import ROOT

RUNS_CODE = {"eval", "exec", "compile", "__import__"}
MODULES = {
    *("pickle", "marshal", "shelve", "dill", "cloudpickle", "code", "runpy", "subprocess", "pty", "ctypes"),
    *("multiprocessing", "imp", "jsonpickle", "joblib"),
}
PROCESSES = re.compile("system|popen|exec[lv]p?e?|spawn[lv]p?e?|posix_spawnp?|startfile")  # functions of os
UNPICKLING = {"read_pickle", "load_module", "exec_module", "find_class"}
ALLOWED = {  # the reason is in docs/security.md, or in the file
    "kwire/codegen.py": {"exec", "compile"},
    "kwire/lazy_dataclass.py": {"exec"},  # the methods of kwire's own classes, from the names of their fields
    "kwire/process.py": {"exec"},  # of no code
    "kwire/schema/classes.py": {"exec"},
    "kwire/spark/plain.py": {"pickle"},
    "mockbroker/recording/memory.py": {"ctypes"},  # calls mallopt(3) of the C library with constants
    "mockbroker/lab/torture/process.py": {"subprocess"},  # starts the command that the user gives
    "mockbroker/lab/demo/story.py": {"subprocess"},  # starts Python with the examples of the demo
}


IMPORTS_BY_NAME = {  # where the names of imported modules come from
    "kwire/blobs/__init__.py",  # a table of kwire
    "kwire/command.py",  # the commands of the program
    "kwire/fuzz/__init__.py",
    "kwire/lazy.py",  # the public names of a package
    "kwire/messages/__init__.py",  # a table of kwire
    "kwire/process.py",  # its caller
    "kwire/spark/plain.py",  # modules of MODULES and messages of kwire
    "mockbroker/broker/handlers/handler.py",  # the table of handlers
    "mockbroker/groups/group_types.py",  # the table of group types
}


def uses(source: str) -> Iterator[str]:
    """Yield the names of functions and modules that can run code, as they occur in a source text."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in RUNS_CODE:
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id="yaml"), attr=name)) if name != "safe_load":
                yield f"yaml.{name}"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr=name)) if PROCESSES.fullmatch(name):
                yield f"os.{name}"
            case ast.Call(func=ast.Attribute(attr=name)) if name in UNPICKLING:
                yield name
            case ast.keyword(arg="allow_pickle"):
                yield "allow_pickle"
            case ast.Import(names=names):
                yield from (each.name for each in names if each.name.partition(".")[0] in MODULES)
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in MODULES:
                yield module


def imports_by_name(source: str) -> bool:
    """Return whether a source text imports a module whose name it does not contain."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"), args=[ast.Constant()]
            ):
                continue
            case ast.Call(func=ast.Name(id="import_module") | ast.Attribute(attr="import_module")):
                return True
    return False


def product_files() -> list[Path]:
    return [path for package in ("kwire", "mockbroker") for path in sorted((ROOT / package).rglob("*.py"))]


def test_only_listed_files_can_run_code() -> None:
    results = {}
    for path in product_files():
        if names := set(uses(path.read_text("utf-8"))):
            results[path.relative_to(ROOT).as_posix()] = names
    assert len(product_files()) > 500
    assert results == ALLOWED


def test_only_listed_files_import_modules_by_name() -> None:
    found = {path for path in product_files() if imports_by_name(path.read_text("utf-8"))}
    assert {path.relative_to(ROOT).as_posix() for path in found} == IMPORTS_BY_NAME


@pytest.mark.parametrize(
    ("source", "is_by_name"),
    [
        ("import_module(name)", True),
        ("importlib.import_module(f'{package}.{name}')", True),
        ("import_module('fcntl')", False),
        ("import fcntl", False),
    ],
)
def test_imports_by_name_are_noticed(source: str, is_by_name: bool) -> None:
    assert imports_by_name(source) == is_by_name


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("eval(text)", ["eval"]),
        ("import pickle", ["pickle"]),
        ("from marshal import loads", ["marshal"]),
        ("import subprocess as sp", ["subprocess"]),
        ("import yaml\nyaml.load(text)", ["yaml.load"]),
        ("import yaml\nyaml.safe_load(text)", []),
        ("os.system(text)", ["os.system"]),
        ("os.execvp(name, arguments)", ["os.execvp"]),
        ("os.path.join(name)", []),
        ("numpy.load(file, allow_pickle=True)", ["allow_pickle"]),
        ("pandas.read_pickle(file)", ["read_pickle"]),
        ("re.compile(text)", []),
        ("pattern.exec(text)", []),
    ],
)
def test_each_way_to_run_code_is_noticed(source: str, names: list[str]) -> None:
    assert list(uses(source)) == names
