from __future__ import annotations

import ast
import subprocess
import sys
import typing
from importlib import import_module
from pathlib import Path

import pytest

import kwire
import kwire.errors


def modules_by_name() -> dict[str, str]:
    """Return the module of each name that the stub imports."""
    tree = ast.parse(Path(kwire.__file__).with_suffix(".pyi").read_text("utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert all(alias.asname == alias.name for node in imports for alias in node.names)
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def test_all_is_sorted_and_complete() -> None:
    assert kwire.__all__ == sorted(modules_by_name())
    assert set(kwire.__all__) <= set(dir(kwire))


@pytest.mark.parametrize(("name", "module"), modules_by_name().items())
def test_public_names_match_the_type_stub(name: str, module: str) -> None:
    assert getattr(kwire, name) is getattr(import_module(module), name)


def test_no_other_name() -> None:
    with pytest.raises(AttributeError, match="module 'kwire' has no attribute 'decoed'"):
        getattr(kwire, "decoed")  # noqa: B009 - a type checker would refuse the attribute


def test_every_error_is_public() -> None:
    tree = {name for name, value in vars(kwire.errors).items() if isinstance(value, type) and not name.startswith("_")}
    assert tree <= set(kwire.__all__)


def test_messages_are_imported_when_they_are_asked_for() -> None:
    code = "import sys, kwire, kwire.blobs; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = done.stdout.split()
    assert "kwire.blobs" in loaded
    assert not [name for name in loaded if name.startswith(("kwire.messages.", "kwire.blobs."))]


def test_every_public_name_is_documented() -> None:
    assert not [name for name in kwire.__all__ if name != "APIS" and not getattr(kwire, name).__doc__]


HEAVY = ["click", "construct", "cramjam", "google_crc32c", "trio", "kwire.messages.", "kwire.blobs", "kwire.records"]
LOADS = [  # code, modules that it need not load
    ("import kwire; dir(kwire); kwire.__version__", [*HEAVY, "kwire.codec", "kwire.schema", "dataclasses"]),
    ("import kwire; kwire.ErrorCode(27); kwire.DecodeError", [*HEAVY, "kwire.codec", "kwire.schema"]),
    ("import kwire; kwire.FrameBuffer()", [*HEAVY, "kwire.schema"]),
    ("import kwire; len(kwire.APIS)", [*HEAVY, "kwire.codec"]),
    ("import kwire; kwire.APIS[11]", [name for name in HEAVY if name != "kwire.messages."] + ["kwire.messages.fetch"]),
    ("import kwire.__main__", [*HEAVY, "typing", "dataclasses"]),  # Ctrl-C until it is loaded prints a traceback
    ("import kwire, mockbroker.__main__", [*HEAVY, "typing", "dataclasses"]),
    ("import kwire.cli", [name for name in HEAVY if name != "click"] + ["kwire.codec", "kwire.schema"]),
    ("import kwire.cli.apis", [name for name in HEAVY if name != "click"]),
    ("import kwire.cli.layout", [name for name in HEAVY if name != "click"]),
]


@pytest.mark.parametrize(("code", "absent"), LOADS, ids=[code for code, _ in LOADS])
def test_nothing_is_loaded_before_it_is_needed(code: str, absent: typing.Sequence[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.split()
    assert "kwire" in loaded
    assert [name for name in loaded if any(name == one or name.startswith(one) for one in absent)] == []
