"""The filter language of ``--where``. It has only Python's comparisons and the operators ``and``, ``or``, ``not`` and
``in``.

    api_name == 'JoinGroup' and latency_ms > 10
    error_code != 0 or body.group_id in ['orders', 'billing']

Fields of ``body`` are accessed with dots, array elements by index in brackets; a missing field is null. A comparison of
values that cannot be compared, such as null and a number, is false. A comparison that is false for every row is an
error, and so is a field that no message has.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, NamedTuple

Row = dict[str, Any]
Value = Callable[[Row], Any]

MAX_TEXT = 10_000  # maximum characters of a filter
MAX_NODES = 1_000
FEW = 25  # error messages list a column's values if there are at most this many
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
}
EQUALITY = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)
CONSTANTS = {"null": None, "true": True, "false": False}  # as JSON writes them


class FilterError(ValueError):
    """The error for a filter that is invalid or can never match. Its message marks the invalid part."""


class Column(NamedTuple):
    """The type of a column of rows, and the values that it can have.

    Attributes:
        kind: "text" or "a number"; None for any type.
        values: all possible values; None if any value is possible.
        fields: function that returns the kinds of each field of the column, such as ``array``, by the path of the
            field; None if any field is possible.
    """

    kind: str | None = None
    values: Sequence[str] | None = None
    fields: Callable[[], Mapping[str, Collection[str]]] | None = None


class _InvalidPart(Exception):
    """The exception for an invalid part of a filter.

    Args:
        node: syntax tree of the part.
        reason: why it is invalid.
    """

    def __init__(self, node: ast.AST, reason: str) -> None:
        super().__init__(reason)
        self.node = node


def parse(text: str, columns: Mapping[str, Column]) -> tuple[Callable[[Row], bool], set[str]]:
    """Compile a filter.

    Args:
        text: the filter, such as ``latency_ms > 10``.
        columns: columns that the filter may use, by name.

    Returns: a function that returns True for a row that passes the filter, and the names of the columns that it uses.

    Raises: FilterError if the filter is invalid, too long, or can never match.
    """
    if len(text) > MAX_TEXT:
        raise FilterError(f"the filter has {len(text)} characters (limit: {MAX_TEXT})")
    text = " ".join(text.splitlines()).strip()
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        raise FilterError(_with_marker(text, f"invalid filter: {error.msg}", (error.offset or 1) - 1)) from error
    except (ValueError, MemoryError, RecursionError) as error:
        reason = error if isinstance(error, ValueError) else "nested too deeply"
        raise FilterError(f"invalid filter: {reason}") from error
    nodes = list(ast.walk(tree))
    if len(nodes) > MAX_NODES:
        raise FilterError(f"the filter has {len(nodes)} parts (limit: {MAX_NODES})")
    try:
        used = {name for node in nodes if isinstance(node, ast.Name) and (name := _column(node, columns))}
        value = _value(tree.body)
        for node in nodes:
            if isinstance(node, ast.Compare):
                for (left, right), operation in zip(pairwise([node.left, *node.comparators]), node.ops, strict=True):
                    _check(left, operation, right, columns)
            elif isinstance(node, ast.Attribute) and (fields := columns.get("body", Column()).fields) is not None:
                _check_field(node, fields())
    except _InvalidPart as wrong:
        begin = len(text.encode()[: getattr(wrong.node, "col_offset", 0)].decode())
        raise FilterError(_with_marker(text, str(wrong), begin)) from wrong
    return lambda row: bool(value(row)), used


def _with_marker(text: str, reason: str, place: int) -> str:
    """Return an error message for a filter: the reason, then the filter with a marker below position ``place``, counted
    from 0.
    """
    return f"{reason}, at character {place + 1}\n  {text}\n  {' ' * place}^" if text else reason


def _column(node: ast.Name, columns: Mapping[str, Column]) -> str | None:
    """Return the name of the column that a name in a filter refers to; None for a constant, such as ``null``.

    Raises: _InvalidPart if there is no such column.
    """
    if node.id in columns:
        return node.id
    if node.id in CONSTANTS:
        return None
    hint = _hint(node.id, list(columns), f"the columns are {', '.join(columns)}")
    raise _InvalidPart(node, f"unknown column {node.id}{hint}")


def _hint(name: str, candidates: Sequence[str], otherwise: str = "") -> str:
    near = get_close_matches(name.lower(), [one.lower() for one in candidates], n=1, cutoff=0.75)
    meant = next((one for one in candidates if near and one.lower() == near[0]), None)
    return f"; did you mean {meant}?" if meant else f"; {otherwise}" if otherwise else ""


def _check(left: ast.expr, operation: ast.cmpop, right: ast.expr, columns: Mapping[str, Column]) -> None:
    """Check that the result of a comparison depends on the row.

    Args:
        left: the left side.
        operation: the operator.
        right: the right side.
        columns: columns by name, with their types and values.

    Raises: _InvalidPart if the comparison is always true or always false.
    """
    if isinstance(operation, (ast.In, ast.NotIn)):
        if isinstance(right, ast.Name) and columns.get(right.id, Column()).kind == "a number":
            raise _InvalidPart(right, f"{right.id} is a number; `in` needs a list or text")
        others = right.elts if isinstance(right, (ast.List, ast.Tuple, ast.Set)) else []
        pairs = [(left, other) for other in others]
        may_be_null = True
    else:
        pairs = [(left, right), (right, left)]
        may_be_null = isinstance(operation, EQUALITY)
    for one, other in pairs:
        is_constant, constant = _constant(other)
        if is_constant and constant is None and not may_be_null:
            raise _InvalidPart(other, "null cannot be ordered: use == null or != null")
        if not isinstance(one, ast.Name) or one.id not in columns or not is_constant or constant is None:
            continue
        column = columns[one.id]
        kind = "text" if isinstance(constant, str) else "true or false" if isinstance(constant, bool) else "a number"
        if column.kind not in (None, kind):
            raise _InvalidPart(other, f"{one.id} is {column.kind}, but is compared with {kind}")
        exact = not isinstance(operation, (ast.Lt, ast.LtE, ast.Gt, ast.GtE))
        if exact and column.values is not None and constant not in column.values:
            few = f"the values are {', '.join(column.values)}" if len(column.values) <= FEW else ""
            raise _InvalidPart(other, f"{one.id} is never {constant!r}{_hint(str(constant), column.values, few)}")


def _check_field(node: ast.Attribute, kinds: Mapping[str, Collection[str]]) -> None:
    """Check that a field of ``body`` exists. A field whose name begins with ``_`` is not checked, nor are its fields.

    Args:
        node: the field.
        kinds: kinds of all fields by path.

    Raises: _InvalidPart if no message has the field, or if it is a field of an array, which only the elements have.
    """
    path = path_of(node)
    parent, _, name = path.rpartition(".")
    if name.startswith("_") or (parent and parent not in kinds):
        return
    if path not in kinds:
        beside = [one for one in kinds if one.rpartition(".")[0] == parent]
        raise _InvalidPart(
            node, f"no message has a field {path}{_hint(name, [one.rpartition('.')[2] for one in beside])}"
        )
    if isinstance(node.value, ast.Attribute) and set(kinds.get(parent, ())) == {"array"}:
        array = parent.rpartition(".")[2]
        raise _InvalidPart(node, f"{parent} is an array: give the index of an element, such as {array}[0].{name}")


def path_of(node: ast.expr) -> str:
    """Return the path of a field of ``body`` without indices, such as ``topics.name``; "" for ``body`` itself.

    ``node``: syntax tree of the field.
    """
    match node:
        case ast.Attribute(inside, name):
            return f"{path_of(inside)}.{name}".removeprefix(".")
        case ast.Subscript(inside, _):
            return path_of(inside)
        case _:
            return ""


def _constant(node: ast.expr) -> tuple[bool, Any]:
    match node:
        case ast.Constant(value):
            return True, value
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as number)):
            return True, -number
        case ast.Name(name) if name in CONSTANTS:
            return True, CONSTANTS[name]
        case _:
            return False, None


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
        case ast.Name(name) if name in CONSTANTS:
            return lambda _: CONSTANTS[name]
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
            raise _InvalidPart(
                node,
                f"{ast.unparse(node)!r} is not supported in a filter: use comparisons, 'in', 'and', 'or', 'not'",
            )


def _inside(node: ast.expr) -> Value:
    root = node
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        root = root.value
    if not isinstance(root, ast.Name) or root.id != "body":
        raise _InvalidPart(node, f"{ast.unparse(node)!r} has no fields: only body has fields")
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
