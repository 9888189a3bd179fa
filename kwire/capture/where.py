"""A small language for filters on columns: Python's comparisons, ``and``, ``or``, ``not`` and ``in``, and nothing else.

    api_name == 'JoinGroup' and latency_ms > 10
    error_code != 0 or body.group_id in ['orders', 'billing']

Inside ``body`` fields are reached by dots, of arrays by the number in brackets; what is not there is None. What cannot
be compared, such as None with a number, is not true.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection
from typing import Any

Row = dict[str, Any]
Value = Callable[[Row], Any]

MAX_TEXT = 10_000  # characters of a filter
MAX_NODES = 1_000
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}


class FilterError(ValueError):
    """A filter that cannot be understood; says where."""


def parse(text: str, columns: Collection[str]) -> tuple[Callable[[Row], bool], set[str]]:
    """The filter, and the columns that it looks at. Raises: FilterError."""
    if len(text) > MAX_TEXT:
        raise FilterError(f"a filter of more than {MAX_TEXT} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise FilterError(f"not a filter: {getattr(error, 'msg', error)}") from error
    nodes = list(ast.walk(tree))
    if len(nodes) > MAX_NODES:
        raise FilterError(f"a filter of more than {MAX_NODES} parts")
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    if unknown := sorted(used - set(columns)):
        raise FilterError(f"no column is called {unknown[0]}; there are {', '.join(columns)}")
    value = _value(tree.body)
    return lambda row: bool(value(row)), used


def _value(node: ast.expr) -> Value:
    match node:
        case ast.BoolOp(op, values):
            parts = [_value(part) for part in values]
            every = isinstance(op, ast.And)
            return lambda row: (all if every else any)(part(row) for part in parts)
        case ast.UnaryOp(ast.Not(), operand):
            inner = _value(operand)
            return lambda row: not inner(row)
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as number)):
            return lambda _: -number
        case ast.Compare(left, ops, comparators):
            return _comparison(
                _value(left), [(COMPARISONS[type(op)], _value(c)) for op, c in zip(ops, comparators, strict=True)]
            )
        case ast.Name(name):
            return lambda row: row.get(name)
        case ast.Constant(str() | int() | float() | None as constant):
            return lambda _: constant
        case ast.List(elements) | ast.Tuple(elements) | ast.Set(elements):
            members = [_value(element) for element in elements]
            return lambda row: [member(row) for member in members]
        case ast.Attribute(inside, name):
            outer = _inside(inside)
            return lambda row: value.get(name) if isinstance(value := outer(row), dict) else None
        case ast.Subscript(inside, ast.Constant(int() as index)):
            outer = _inside(inside)
            return lambda row: _element(outer(row), index)
        case _:
            raise FilterError(f"{ast.unparse(node)!r} is more than a filter can do")


def _inside(node: ast.expr) -> Value:
    root = node
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        root = root.value
    if not isinstance(root, ast.Name) or root.id != "body":
        raise FilterError(f"{ast.unparse(node)!r} has nothing inside; body has")
    return _value(node)


def _element(value: Any, index: int) -> Any:
    return value[index] if isinstance(value, list) and -len(value) <= index < len(value) else None


def _comparison(left: Value, others: list[tuple[Callable[[Any, Any], bool], Value]]) -> Value:
    def compare(row: Row) -> bool:
        one = left(row)
        for operation, other in others:
            two = other(row)
            try:
                if not operation(one, two):
                    return False
            except TypeError:
                return False
            one = two
        return True

    return compare
