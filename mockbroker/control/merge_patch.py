"""JSON merge patches (RFC 7396): the difference of two JSON objects.

A merge patch cannot set a key to null, so the objects here have no keys whose value is null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that changes ``old`` into ``new``; empty if they are equal.

    A list is replaced completely.
    """
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if before == value and type(before) is type(value):
            continue
        if isinstance(before, dict) and isinstance(value, dict):
            if inner := difference(before, value):
                patch[key] = inner
        else:
            patch[key] = value
    return patch


def without_null(value: Any) -> Any:
    """Return a JSON value without the object keys whose value is null, at any depth. Lists are not searched."""
    if isinstance(value, dict):
        return {key: without_null(each) for key, each in value.items() if each is not None}
    return value
