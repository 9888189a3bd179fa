from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

INIT = "from kwire.lazy import lazy_names\n__getattr__, __dir__ = lazy_names(globals())\n"
STUB = "from lazy_example.part import run as run\nfrom json import loads as loads\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A package with one module, whose names are imported on first use."""
    folder = tmp_path / "lazy_example"
    folder.mkdir()
    for name, text in {"__init__.py": INIT, "__init__.pyi": STUB, "part.py": "run = 1\n"}.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("lazy_example")
    for name in [name for name in sys.modules if name.partition(".")[0] == "lazy_example"]:
        del sys.modules[name]


def test_module_is_imported_when_its_name_is_first_used(package: ModuleType) -> None:
    assert {"loads", "run"} <= set(dir(package))
    assert package.__all__ == ["loads", "run"]
    assert "lazy_example.part" not in sys.modules
    assert package.run == 1
    assert vars(package)["run"] == 1
    assert "lazy_example.part" in sys.modules


def test_unknown_name_is_an_attribute_error(package: ModuleType) -> None:
    for name in ("rnu", "_rnu"):
        with pytest.raises(AttributeError, match=f"module 'lazy_example' has no attribute '{name}'"):
            getattr(package, name)
