"""The public names of mockbroker are listed once, in the stub, and each is loaded when it is first used."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest

import mockbroker


def test_the_stub_lists_the_public_names() -> None:
    tree = ast.parse(Path(mockbroker.__file__).with_suffix(".pyi").read_text("utf-8"))
    imported = [alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert mockbroker.__all__ == sorted(alias.name for alias in imported)
    assert all(alias.asname == alias.name for alias in imported)
    assert set(mockbroker.__all__) <= set(dir(mockbroker))


@pytest.mark.parametrize("name", mockbroker.__all__)
def test_public_name_is_documented(name: str) -> None:
    public = getattr(mockbroker, name)
    if get_origin(public) is Literal:  # a Literal cannot have a docstring; its values document it
        assert get_args(public)
    else:
        assert public.__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'mockbroker' has no attribute 'nope'"):
        getattr(mockbroker, "no" + "pe")
