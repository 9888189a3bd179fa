"""JSON merge patches, which are applied as in RFC 7396."""

from __future__ import annotations

from typing import Any


def applied(target: Any, patch: Any) -> Any:
    """Return ``target`` with a merge patch applied, as in the pseudocode of RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        result.pop(name, None) if value is None else result.update({name: applied(result.get(name), value)})
    return result
