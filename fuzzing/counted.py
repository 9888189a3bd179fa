"""Counts the work of a program instead of its time: code of kwire and mockbroker is rewritten when it is imported.

A function call and each iteration of a loop are one unit. Work that the interpreter does in C, which no tracer sees,
counts by the size of its operands: `x in a_list`, `sum(...)`, `sorted(...)`, slices, joined and compared containers. A
lookup in a dictionary or set is one unit; 16 characters or bytes are one unit. So the count is the same in each run.
"""

from __future__ import annotations

import ast
import builtins
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

TEXT_SHIFT = 4  # 2**4 characters or bytes are one unit
TEXTS = (str, bytes, bytearray)
_EMPTY: dict[Any, Any] = {}
SIZED = (list, tuple, dict, set, frozenset, deque, type(_EMPTY.keys()), type(_EMPTY.values()), type(_EMPTY.items()))
HASHED = (dict, set, frozenset, type(_EMPTY.keys()), type(_EMPTY.items()))
ITERATORS = (map, filter, zip, enumerate, reversed)
# Methods with the same cost for every size of their object; `pop` of a list is one if it removes the last element.
CONSTANT = frozenset(
    """
    __build_class__ __contains__ __delitem__ __getitem__ __hash__ __init__ __iter__ __len__ __new__ __next__ __setattr__
    __setitem__ add append appendleft bisect bisect_left bisect_right bit_length callable cast clear close discard
    endswith from_bytes get getattr hasattr hash heappop heappush heappushpop heapreplace id isinstance
    issubclass items iter keys len move_to_end next pack_into popitem popleft print property range release
    send setattr setdefault startswith super throw to_bytes type unpack unpack_from values
    """.split()  # noqa: SIM905 - a list of so many strings is harder to read
)
# Methods whose cost is the size of their argument.
BY_ARGUMENT = frozenset(("extend", "update", "join", "issuperset", "isdisjoint", "difference_update", "intersection"))
CHEAP_TYPES = frozenset(
    (int, float, bool, complex, object, type, range, memoryview, property, staticmethod, classmethod, slice)
)


class Work:
    """The number of units so far."""

    units = 0


WORK = Work


def size(value: Any) -> int:
    """Return the units of one pass over a value, without its elements' own sizes."""
    if isinstance(value, TEXTS):
        return len(value) >> TEXT_SHIFT
    return len(value) if isinstance(value, SIZED) else 0


def tick() -> None:
    WORK.units += 1


def turns(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the same values and count a unit for each."""
    for value in values:
        WORK.units += 1
        yield value


def call(function: Any, /, *args: Any, **named: Any) -> Any:
    """Call a function and count its work; rewritten Python functions count their own."""
    kind = type(function)
    if kind is FunctionType or kind is MethodType:
        if not (function.__module__ or "kwire").startswith(COUNTED):
            WORK.units += 1 + sum(map(size, args))
        return function(*args, **named)
    name = getattr(function, "__name__", "")
    if kind is BuiltinFunctionType or kind.__name__ in ("method_descriptor", "wrapper_descriptor", "method-wrapper"):
        if function is compile:  # code that kwire's compiled engine generates
            return rewritten(*args[:2])
        if name in CONSTANT:
            WORK.units += 1
            return function(*args, **named)
        owner = getattr(function, "__self__", None)
        if name == "pop":
            WORK.units += 1 + (size(owner) if isinstance(owner, list) and args and args[0] != -1 else 0)
            return function(*args, **named)
        WORK.units += 1 + (0 if name in BY_ARGUMENT else size(owner)) + sum(map(size, args))
        result = function(*[turns(value) if isinstance(value, ITERATORS) else value for value in args], **named)
        WORK.units += size(result)
        return result
    WORK.units += 1
    if kind is type and function not in CHEAP_TYPES:
        if function.__module__ == "itertools":
            return turns(function(*args, **named))
        if function.__module__ in ("builtins", "collections"):
            WORK.units += sum(map(size, args))
            result = function(*[turns(value) if isinstance(value, ITERATORS) else value for value in args], **named)
            return turns(result) if function in ITERATORS else result
    return function(*args, **named)


def contains(value: Any, place: Any) -> bool:
    WORK.units += 1 if isinstance(place, HASHED) else 1 + size(place)
    return value in place


def equal(left: Any, right: Any) -> Any:
    WORK.units += 1 + min(size(left), size(right))
    return left == right


def unequal(left: Any, right: Any) -> Any:
    WORK.units += 1 + min(size(left), size(right))
    return left != right


def binary(left: Any, right: Any, result: Any) -> Any:
    """Return the result of an operator; between two containers it costs their sizes."""
    if isinstance(left, SIZED + TEXTS):
        WORK.units += 1 + size(left) + size(right) if isinstance(left, HASHED) else 1 + size(result)
    return result


def part(result: Any) -> Any:
    """Return a slice and count its size."""
    WORK.units += 1 + size(result)
    return result


def added(before: Any, more: Any) -> Any:
    """Count `before += more`: a list grows in place, a string is copied."""
    WORK.units += 1 + size(more) + (size(before) if isinstance(before, (str, bytes, tuple)) else 0)
    return more


def cut(value: Any) -> None:
    """Count `del value[a:b]`."""
    WORK.units += 1 + (size(value) if isinstance(value, (list, bytearray)) else 0)


def spread(values: Iterable[Any]) -> Iterable[Any]:
    """Count the unpacking `*values`."""
    WORK.units += 1 + size(values)
    return values if isinstance(values, SIZED) else turns(values)


NAMES: Mapping[str, Callable[..., Any]] = {
    f"_work_{function.__name__}": function
    for function in (tick, turns, call, contains, equal, unequal, binary, part, added, cut, spread)
}
AS_THEY_ARE = frozenset({"super", "locals", "globals", "isinstance", "len", "object", "Struct"})


class Rewriter(ast.NodeTransformer):
    """Adds the counting to a syntax tree."""

    def _call(self, name: str, *args: ast.expr) -> ast.Call:
        return ast.Call(ast.Name(f"_work_{name}", ast.Load()), list(args), [])

    def _ticked(self, body: list[ast.stmt]) -> list[ast.stmt]:
        first = 1 if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) else 0
        return [*body[:first], ast.Expr(self._call("tick")), *body[first:]]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list, kept = [], node.decorator_list
        annotations = node.returns
        node.returns = None
        arguments, node.args = node.args, ast.arguments([], [], None, [], [], None, [])
        self.generic_visit(node)
        node.body = self._ticked(node.body)
        node.decorator_list, node.returns, node.args = kept, annotations, arguments
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [
            self.visit(statement) if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) else statement
            for statement in node.body
        ]
        return node

    def visit_Match(self, node: ast.Match) -> ast.AST:
        node.subject = self.visit(node.subject)
        for case in node.cases:
            case.guard = None if case.guard is None else self.visit(case.guard)
            case.body = [self.visit(statement) for statement in case.body]
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.iter = self._call("turns", node.iter)
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        node.body = self._ticked(node.body)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.iter = self._call("turns", node.iter)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in AS_THEY_ARE:
            return node
        return ast.Call(ast.Name("_work_call", ast.Load()), [node.func, *node.args], node.keywords)

    def visit_Starred(self, node: ast.Starred) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = self._call("spread", node.value)
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        node.values = [
            self._call("spread", value) if key is None else value
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        (operator, *others) = node.ops
        if others or isinstance(operator, (ast.Is, ast.IsNot, ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
            return node
        if isinstance(operator, (ast.In, ast.NotIn)):
            contains = self._call("contains", node.left, node.comparators[0])
            return contains if isinstance(operator, ast.In) else ast.UnaryOp(ast.Not(), contains)
        if not any(isinstance(side, ast.Constant) for side in (node.left, node.comparators[0])):
            return self._call("equal" if isinstance(operator, ast.Eq) else "unequal", node.left, node.comparators[0])
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, (ast.Add, ast.Mult, ast.BitOr, ast.BitAnd, ast.Sub)) and not _numbers(node):
            left, right = ast.Name("_left", ast.Load()), ast.Name("_right", ast.Load())
            inner = ast.Lambda(
                ast.arguments([], [ast.arg("_left"), ast.arg("_right")], None, [], [], None, []),
                self._call("binary", left, right, ast.BinOp(left, node.op, right)),
            )
            return ast.Call(inner, [node.left, node.right], [])
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load) and isinstance(node.slice, ast.Slice):
            return self._call("part", node)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, (ast.Add, ast.BitOr)) and not isinstance(node.value, ast.Constant):
            if isinstance(node.target, ast.Name):
                node.value = self._call("added", ast.Name(node.target.id, ast.Load()), node.value)
            elif isinstance(node.target, ast.Attribute) and isinstance(node.target.value, ast.Name):
                before = ast.Attribute(ast.Name(node.target.value.id, ast.Load()), node.target.attr, ast.Load())
                node.value = self._call("added", before, node.value)
        return node

    def visit_Delete(self, node: ast.Delete) -> Any:
        costs = [
            ast.Expr(self._call("cut", target.value)) for target in node.targets if isinstance(target, ast.Subscript)
        ]
        return [*costs, node]


def _numbers(node: ast.BinOp) -> bool:
    return any(isinstance(side, ast.Constant) and isinstance(side.value, int) for side in (node.left, node.right))


def rewritten(source: str, name: str) -> CodeType:
    """Return the code of a module, rewritten so that it counts its work."""
    tree = Rewriter().visit(ast.parse(source, name))
    return compile(ast.fix_missing_locations(tree), name, "exec", dont_inherit=True)


class CountedLoader(SourceFileLoader):
    """Loads a module with rewritten code."""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        return rewritten(Path(self.path).read_text(encoding="utf-8"), self.path)


COUNTED = ("kwire", "mockbroker")
# Modules that are not counted: declarations, which run once at import, and code that no request reaches.
PLAIN: tuple[str, ...] = (
    "kwire.schema",
    "kwire.layout",
    "kwire.messages",
    "kwire.fuzz",
    "kwire.errorcodes",
    "kwire.limits",
)


class Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in COUNTED or fullname.startswith(PLAIN):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = CountedLoader(fullname, spec.origin or "")
        return spec


def install() -> None:
    """Count the work of modules that are imported from now on, with the compiled engine.

    The work of the native engine is not Python code, so it would not be counted.
    """
    os.environ["KWIRE_ENGINE"] = "compiled"
    for name, function in NAMES.items():
        setattr(builtins, name, function)
    sys.meta_path.insert(0, Finder())


def plant(module: str, old: str, new: str) -> None:
    """Replace ``old`` by ``new`` in the source of a module, and update its functions."""
    place = import_module(module)  # a handler is imported with the first request of its API
    assert place.__file__ is not None
    source = Path(place.__file__).read_text(encoding="utf-8")
    assert source.count(old) == 1, f"{module} has {source.count(old)} times: {old}"
    _replace(place, rewritten(source.replace(old, new), place.__file__))


def _replace(place: Any, code: CodeType) -> None:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            value = place.__dict__.get(each.co_name)
            if isinstance(value, type):
                _replace(value, each)
            elif isinstance(value, FunctionType) and value.__code__.co_freevars == each.co_freevars:
                value.__code__ = each
