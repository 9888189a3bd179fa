"""The condition ``where`` of a rule: a filter of the request body, in the language of ``kwire capture --where``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from typing import Any

from kwire import filter as filters
from kwire.body_fields import fields_of
from kwire.messages import APIS

COLUMNS = {"body": filters.Column()}


def compile_where(text: str) -> Callable[[dict[str, Any]], bool]:
    """Return a function that returns whether a request body, as a JSON object, matches a filter.

    ``text``: the filter.

    Raises: FilterError if the filter is not valid.
    """
    matches, _ = filters.parse(text, COLUMNS)
    return lambda body: matches({"body": body})


def unknown_fields(text: str, keys: Collection[int]) -> list[str]:
    """Return the fields in a filter, such as ``topics.nme``, that do not exist in the requests of any of the APIs.

    Args:
        text: the filter, which must be valid.
        keys: API keys.
    """
    known = {""} | {path for key in keys for path, _ in fields_of(APIS[key].request)}
    tree = ast.parse(" ".join(text.splitlines()).strip(), mode="eval")
    used = (filters.path_of(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return [path for path in dict.fromkeys(used) if path not in known and path.rpartition(".")[0] in known]


def arrays_without_index(text: str, keys: Collection[int]) -> dict[str, str]:
    """Return the arrays in a filter of which a field is used, but no element, such as ``topics`` in
    ``body.topics.name``: the path of the array -> the field. The value of such a field is always null.

    Args:
        text: the filter, which must be valid.
        keys: API keys.
    """
    kinds: dict[str, set[str]] = {}
    for key in keys:
        for path, field in fields_of(APIS[key].request):
            kinds.setdefault(path, set()).add(field.kind)
    tree = ast.parse(" ".join(text.splitlines()).strip(), mode="eval")
    return {
        path: node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and kinds.get(path := filters.path_of(node.value)) == {"array"}
    }
