"""examples/own_assignors.py as a module: assignors as users would write them."""

from __future__ import annotations

import importlib.util
from types import ModuleType

from golden import ROOT


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("own_assignors", ROOT / "examples" / "own_assignors.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
