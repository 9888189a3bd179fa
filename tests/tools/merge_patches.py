"""JSON merge patches as RFC 7396 defines how to apply them."""

from __future__ import annotations

from typing import Any


def applied(target: Any, patch: Any) -> Any:
    """Return ``target`` after a merge patch: the pseudocode of RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        result.pop(name, None) if value is None else result.update({name: applied(result.get(name), value)})
    return result
