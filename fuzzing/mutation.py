"""Mutants of a source file: each is one small change of its syntax tree that may break a rule.

Statements that assign an attribute, or call something, are removed; comparisons, boolean and arithmetic operators are
exchanged; conditions are negated; operands of ``and`` and ``or`` are dropped; numbers grow by one; error codes become
UNKNOWN_SERVER_ERROR. Not mutated: texts, annotations, decorators, asserts, ``raise AssertionError``, functions of
protocols, what is raised, log messages.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import CodeType

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
EXCHANGED = {"min": "max", "max": "min", "any": "all", "all": "any"}  # functions
ERROR_CODES = {"E", "ErrorCode"}  # names of the enum of Kafka's error codes
ANOTHER_ERROR = "UNKNOWN_SERVER_ERROR"
LOGS = {"log", "warnings"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
SKIPPED_FIELDS = {"annotation", "returns", "decorator_list", "type_params", "format_spec", "exc", "cause"}

UNCHANGED = -1  # number of a control

Apply = Callable[[], None]  # changes the tree that a site is in
Key = tuple[str, int]  # qualified name and first line of a function, as of its code object


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one file.

    Attributes:
        path: path of the file in the repository.
        number: its place among all mutants of the file.
        line: line of the changed text.
        function: qualified name of the outermost function around it; "" for code that runs when the module is imported.
        first_line: first line of that function (of its decorators, if it has any); 0 without a function.
        before: the text that is changed, in one line.
        after: the text in its place; "" if it is removed.
        statement: first line of the innermost statement or lambda around it, without whose execution the change has no
            effect; first_line if the change has an effect on every call.
    """

    path: str
    number: int
    line: int
    function: str
    first_line: int
    before: str
    after: str
    statement: int = 0

    def tree(self, source: str) -> ast.Module:
        """Return the syntax tree of the file with this mutant."""
        return ast.parse(source) if self.is_control else mutated(source, self.number)

    @property
    def control(self) -> Mutant:
        """The same function, compiled again without a change: no test may fail with it."""
        return replace(self, number=UNCHANGED, before="(unchanged)", after="(unchanged)")

    @property
    def is_control(self) -> bool:
        """True if nothing is changed."""
        return self.number == UNCHANGED

    def __str__(self) -> str:
        where = f" in {self.function}" if self.function else ""
        return f"{self.path}:{self.line}{where}: {self.before} -> {self.after or '(removed)'}"

    @property
    def identity(self) -> str:
        """The mutant without its line, so that it is the same one after other changes of the file."""
        return f"{self.path} {self.function or '-'}: {self.before} -> {self.after or '(removed)'}"


@dataclass(frozen=True, slots=True)
class Site:
    """One change that can be made to a tree, and the function and the statement that it is in."""

    node: ast.AST
    function: str
    first_line: int
    statement: int
    before: str
    after: str
    apply: Apply


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Return all mutants of a file, in the order of its syntax tree."""
    return [
        Mutant(path, n, site.node.lineno, site.function, site.first_line, site.before, site.after, site.statement)  # type: ignore[attr-defined]
        for n, site in enumerate(_sites(ast.parse(source)))
    ]


def mutated(source: str, number: int) -> ast.Module:
    """Return the syntax tree of a file with the mutant of a number."""
    tree = ast.parse(source)
    site = next(site for index, site in enumerate(_sites(tree)) if index == number)
    site.apply()
    return ast.fix_missing_locations(tree)


def outermost_functions(source: str) -> Iterator[tuple[range, Key]]:
    """Yield the lines of each function that is in no other, with its key."""
    yield from _outermost(ast.parse(source), ())


def _outermost(node: ast.Module | ast.ClassDef, scope: tuple[str, ...]) -> Iterator[tuple[range, Key]]:
    for each in node.body:
        if isinstance(each, ast.ClassDef):
            yield from _outermost(each, (*scope, each.name))
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([each.lineno, *(decorator.lineno for decorator in each.decorator_list)])
            yield range(first, (each.end_lineno or first) + 1), (".".join((*scope, each.name)), first)


def codes(code: CodeType) -> Iterator[tuple[Key, CodeType]]:
    """Yield the code objects of all functions in a code object."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield (inner.co_qualname, inner.co_firstlineno), inner
            yield from codes(inner)


NOTE = "__note_call__"  # the name of the function that instrumented code calls


def instrumented(source: str) -> ast.Module:
    """Return the syntax tree of a file in which each function notes the first line of its outermost function when it is
    called, and the line of each statement before it is executed.
    """
    tree: ast.Module = _Noting().visit(ast.parse(source))
    return ast.fix_missing_locations(tree)


class _Noting(ast.NodeTransformer):
    def __init__(self) -> None:
        self._line = 0  # of the outermost function

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        outer = self._line
        self._line = outer or min([node.lineno, *(each.lineno for each in node.decorator_list)])
        self._visit_blocks(node)
        node.body.insert(0, ast.Expr(self._call(self._line)))
        self._line = outer
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _visit_function  # noqa: N815 - names of ast

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        outer = self._line
        self._line = outer or node.lineno
        pair = ast.Tuple([self._call(self._line), self._call(node.lineno), self.visit(node.body)], ast.Load())
        node.body = ast.Subscript(pair, ast.Constant(2), ast.Load())
        self._line = outer
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not self._line:
            return super().generic_visit(node)
        self._visit_blocks(node)
        return node

    def _visit_blocks(self, node: ast.AST) -> None:
        """Visit all children; note each statement of a block before it."""
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.AST):
                setattr(node, field, self.visit(value))
            elif isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                pairs = [(ast.Expr(self._call(each.lineno)), self.visit(each)) for each in value]
                setattr(node, field, [each for pair in pairs for each in pair])
            elif isinstance(value, list):
                setattr(node, field, [self.visit(each) if isinstance(each, ast.AST) else each for each in value])

    @staticmethod
    def _call(line: int) -> ast.Call:
        return ast.Call(ast.Name(NOTE, ast.Load()), [ast.Constant(line)], [])


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node is: the field of its parent, and the outermost function around it."""

    parent: ast.AST
    field: str
    index: int | None
    scope: tuple[str, ...]
    function: str
    first_line: int
    statement: int

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def _sites(tree: ast.Module) -> Iterator[Site]:
    for index, node in enumerate(tree.body):
        yield from _walk(node, _Place(tree, "body", index, (), "", 0, 0))


def _walk(node: ast.AST, place: _Place) -> Iterator[Site]:
    if _is_skipped(node):
        return
    if isinstance(node, ast.stmt):
        place = replace(place, statement=node.lineno)
    for after, apply in _changes(node, place):
        statement = place.first_line if _makes_a_generator(node) else place.statement
        yield Site(node, place.function, place.first_line, statement, _text(node), after, apply)
    for field, value in ast.iter_fields(node):
        if field in SKIPPED_FIELDS:
            continue
        inside = field == "body" and isinstance(node, (*FUNCTIONS, ast.ClassDef))
        scope, function, first_line = _inner(node, place) if inside else (place.scope, place.function, place.first_line)
        statement = node.lineno if inside and isinstance(node, ast.Lambda) else place.statement
        if isinstance(value, ast.AST):
            yield from _walk(value, _Place(node, field, None, scope, function, first_line, statement))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield from _walk(item, _Place(node, field, index, scope, function, first_line, statement))


def _makes_a_generator(node: ast.AST) -> bool:
    """Return True for ``yield from`` as a statement: without it, the function might not be a generator."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.YieldFrom)


def _inner(node: ast.AST, place: _Place) -> tuple[tuple[str, ...], str, int]:
    """Return the scope of the body of a class or function, and the outermost function with its first line."""
    if isinstance(node, ast.ClassDef):
        return (*place.scope, node.name), place.function, place.first_line
    assert isinstance(node, FUNCTIONS)
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    scope = (*place.scope, name)
    if place.function:
        return scope, place.function, place.first_line
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return scope, ".".join(scope), min([node.lineno, *(each.lineno for each in decorators)])


def _is_skipped(node: ast.AST) -> bool:
    match node:
        case ast.Assert() | ast.Import() | ast.ImportFrom() | ast.JoinedStr():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.FunctionDef(name="__repr__" | "__str__"):
            return True
        case ast.FunctionDef(body=[*_, ast.Expr(value=ast.Constant(value=builtins.Ellipsis))]):  # of a protocol
            return True
        case ast.Raise(exc=ast.Call(func=ast.Name(id="AssertionError"))):
            return True
        case ast.Expr(value=ast.Constant()):  # docstring
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in LOGS
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name.startswith("__")
    return False


def _changes(node: ast.AST, place: _Place) -> Iterator[tuple[str, Apply]]:
    """Yield the text of each replacement of a node, and what makes it."""
    for replacement in _replacements(node):
        yield _text(replacement), _putting(place, replacement)
    if _is_removable(node):
        yield "", _putting(place, ast.copy_location(ast.Pass(), node))
    yield from _negated(node)
    if isinstance(node, ast.comprehension):
        return
    for generator in getattr(node, "generators", ()):
        for index, condition in enumerate(generator.ifs):
            yield f"without its condition {_text(condition)}", _dropping(generator.ifs, index)
    if isinstance(node, ast.Call) and _name(node.func) == "replace":
        for index, keyword in enumerate(node.keywords):
            if keyword.arg and len(node.keywords) > 1:
                yield f"without {keyword.arg}", _dropping(node.keywords, index)


def _putting(place: _Place, replacement: ast.AST) -> Apply:
    return lambda: place.put(replacement)


def _dropping(items: list[ast.expr] | list[ast.keyword], index: int) -> Apply:
    return lambda: items.__delitem__(index)


def _replacements(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in COMPARED:
            yield ast.copy_location(ast.Compare(left, [COMPARED[type(operator)]()], [right]), node)
        case ast.BoolOp(op=operator, values=values):
            other: ast.boolop = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield ast.copy_location(ast.BoolOp(other, values), node)
            for index in range(len(values)):
                kept = [*values[:index], *values[index + 1 :]]
                yield kept[0] if len(kept) == 1 else ast.copy_location(ast.BoolOp(operator, kept), node)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in COMPUTED and not _texts(left, right):
            yield ast.copy_location(ast.BinOp(left, COMPUTED[type(operator)](), right), node)
        case ast.Constant(value=bool() as value):
            yield ast.copy_location(ast.Constant(not value), node)
        case ast.Constant(value=int() as value):
            yield ast.copy_location(ast.Constant(value + 1), node)
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in ERROR_CODES and attr.isupper():
            if attr != ANOTHER_ERROR:
                changed = copy.copy(node)
                changed.attr = ANOTHER_ERROR
                yield changed
        case ast.Call(func=ast.Name(id=name)) if name in EXCHANGED:
            changed_call = copy.copy(node)
            changed_call.func = ast.copy_location(ast.Name(EXCHANGED[name], ast.Load()), node)
            yield changed_call
        case ast.Continue():
            yield ast.copy_location(ast.Break(), node)
        case ast.Break():
            yield ast.copy_location(ast.Continue(), node)


def _is_removable(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await() | ast.YieldFrom()) | ast.AugAssign() | ast.Delete() | ast.Raise():
            return True
        case ast.Assign(targets=targets):
            return any(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)
    return False


def _negated(node: ast.AST) -> Iterator[tuple[str, Apply]]:
    """Negate a condition whose operator is not exchanged already."""
    if not isinstance(node, ast.If | ast.While | ast.IfExp):
        return
    test = node.test
    if isinstance(test, ast.Compare | ast.UnaryOp | ast.Constant):
        return

    def apply() -> None:
        node.test = ast.copy_location(ast.UnaryOp(ast.Not(), test), test)

    yield f"not ({_text(test)})", apply


def _texts(*nodes: ast.expr) -> bool:
    return any(
        isinstance(node, ast.JoinedStr | ast.Constant | ast.List | ast.Tuple) and not _number(node) for node in nodes
    )


def _number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _text(node: ast.AST) -> str:
    """Return the code of a node in one line; of a statement with a body only its head."""
    if isinstance(node, ast.If | ast.While):
        node = node.test
    return " ".join(ast.unparse(node).split())
