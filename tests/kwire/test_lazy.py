from __future__ import annotations

import sys

import pytest

from kwire.lazy import lazy_names


def test_module_is_imported_when_its_name_is_first_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "json.tool", raising=False)
    names: dict[str, object] = {"there": 1}
    get, names_of = lazy_names("json", names, {"tool": ["main"]})
    assert names_of() == ["main", "there"]
    assert "json.tool" not in sys.modules
    assert get("main") is sys.modules["json.tool"].main
    assert names["main"] is sys.modules["json.tool"].main


def test_unknown_name_is_an_attribute_error() -> None:
    get, _ = lazy_names("json", {}, {"tool": ["main"]})
    with pytest.raises(AttributeError, match="module 'json' has no attribute 'mian'"):
        get("mian")
