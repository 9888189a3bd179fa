"""The messages in the product code: every text that a ``raise``, an exception or an error output contains."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from golden import ROOT

from kwire import errors
from mockbroker.client import errors as client_errors

GAP = "{}"  # in place of a value
PLACES = {"message", "path", "offset", "version", "name"}  # arguments that are no text
EXCEPTION = re.compile(r"(Error|Exception|Truncated|UnknownApi|UnknownRecordType|Damage|Problem|_InvalidPart|_error)$")
CLASSES = {*vars(errors), *vars(client_errors)}
PRINTS = {"_fail", "_too_much", "_truncated", "report_problems"}  # functions that print or return an error
LEAST_LETTERS = 4  # a text with fewer letters is only the frame of another
DEEPEST = 4  # function calls that are followed


@dataclass(frozen=True)
class Template:
    """A message in the code. ``text``: with GAP in place of values."""

    file: str
    line: int
    text: str

    def matches(self, text: str) -> bool:
        pattern = ".*".join(map(re.escape, self.text.split(GAP)))
        return re.search(rf"(\A|: |\n){pattern}", text, re.DOTALL) is not None


def templates(files: Sequence[Path]) -> list[Template]:
    """Return the messages of these files, each once per line."""
    messages = {template for file in files for template in _Messages(file).all()}
    return sorted(messages, key=lambda template: (template.file, template.line, template.text))


def _is_exception(name: str) -> bool:
    return EXCEPTION.search(name) is not None or (name[:1].isupper() and name in CLASSES)


def _name(function: ast.expr) -> str:
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


class _Messages:
    def __init__(self, file: Path) -> None:
        self.file = file.relative_to(ROOT).as_posix()
        self.tree = ast.parse(file.read_text("utf-8"))
        self.functions: dict[str, ast.AST] = {}
        self.scope: dict[ast.AST, ast.AST] = {}  # the innermost function of each node
        self._enter(self.tree, self.tree)

    def _enter(self, node: ast.AST, scope: ast.AST) -> None:
        self.scope[node] = scope
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.functions[node.name] = scope = node
        for child in ast.iter_child_nodes(node):
            self._enter(child, scope)

    def all(self) -> Iterator[Template]:
        for node in ast.walk(self.tree):
            for part in self._parts(node):
                for text in self.texts(part, DEEPEST):
                    if sum(map(str.isalpha, text.replace(GAP, ""))) >= LEAST_LETTERS:
                        yield Template(self.file, part.lineno, text)

    def _parts(self, node: ast.AST) -> Iterator[ast.expr]:
        """Yield the expressions of a node that are error texts."""
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and not _is_exception(_name(node.exc.func)):
            yield node.exc
        if isinstance(node, ast.FunctionDef) and EXCEPTION.search(node.name):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return) and isinstance(inner.value, ast.Call):
                    yield from inner.value.args
        if not isinstance(node, ast.Call):
            return
        name, keywords = _name(node.func), {each.arg: each.value for each in node.keywords}
        if (
            _is_exception(name)
            or (name == "__init__" and self.file.endswith("errors.py"))
            or name in PRINTS
            or (name == "echo" and "err" in keywords)
        ):
            yield from node.args
            yield from (value for key, value in keywords.items() if key not in PLACES)

    def texts(self, node: ast.AST | None, depth: int) -> Iterator[str]:
        """Yield the texts that an expression may have."""
        match node:
            case ast.Constant(str(text)):
                yield text
            case ast.JoinedStr(values):
                yield from map("".join, product(*(list(self._piece(value, depth)) for value in values)))
            case ast.BinOp(left, ast.Add(), right):
                pairs = product(list(self.texts(left, depth)) or [GAP], list(self.texts(right, depth)) or [GAP])
                yield from map("".join, pairs)
            case ast.BinOp(left, ast.Mod(), _):
                yield from (re.sub(r"%\S", GAP, text) for text in self.texts(left, depth))
            case ast.IfExp(_, body, orelse):
                yield from self.texts(body, depth)
                yield from self.texts(orelse, depth)
            case ast.BoolOp(_, values) | ast.List(values) | ast.Tuple(values):
                for value in values:
                    yield from self.texts(value, depth)
            case ast.Call(function, arguments) if depth:
                if _name(function) in self.functions:
                    for inner in ast.walk(self.functions[_name(function)]):
                        if isinstance(inner, ast.Return):
                            yield from self.texts(inner.value, depth - 1)
                elif _name(function) in ("str", "join"):
                    for argument in arguments:
                        yield from self.texts(argument, depth - 1)
            case ast.Name(name) if depth:
                for value in self._assigned(name, self.scope[node]):
                    yield from self.texts(value, depth - 1)
            case _:
                return

    def _piece(self, value: ast.expr, depth: int) -> Iterator[str]:
        """Yield the texts of a piece of an f-string."""
        match value:
            case ast.Constant(str(text)):
                yield text
            case ast.FormattedValue(ast.IfExp(_, ast.Constant(str(one)), ast.Constant(str(other)))):
                yield from (one, other)
            case ast.FormattedValue(ast.Name(name), -1) if name.isupper():
                yield from list(self.texts(value.value, depth)) or [GAP]
            case _:
                yield GAP

    def _assigned(self, name: str, scope: ast.AST) -> Iterator[ast.expr]:
        nodes = ast.walk(scope) if scope is not self.tree else iter(self.tree.body)
        values = [value for node in nodes for value in _value(node, name)]
        if values or scope is self.tree:
            yield from values or self._imported(name)
        else:
            yield from self._assigned(name, self.tree)

    def _imported(self, name: str) -> Iterator[ast.expr]:
        """Yield the value of a constant of another module."""
        for node in self.tree.body if name.isupper() else ():
            if isinstance(node, ast.ImportFrom) and node.module and name in {alias.name for alias in node.names}:
                file = ROOT / f"{node.module.replace('.', '/')}.py"
                for other in ast.parse(file.read_text("utf-8")).body if file.exists() else ():
                    yield from _value(other, name)


def _value(node: ast.AST, name: str) -> Iterator[ast.expr]:
    match node:
        case ast.Assign([ast.Name(target)], value) if target == name:
            yield value
        case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)):
            yield from (value for target, value in zip(targets, values, strict=False) if _name(target) == name)
        case ast.AnnAssign(ast.Name(target), _, ast.expr() as value) if target == name:
            yield value
        case ast.NamedExpr(ast.Name(target), value) if target == name:
            yield value
        case _:
            return
