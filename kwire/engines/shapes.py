"""Rows: array elements with equal lengths, read by one ``struct.iter_unpack``.

The elements of a Kafka array usually have the same shape: the same number of replicas, ids of one length, no tagged
fields. The first element is read normally. Its lengths select a generated loop that reads the following elements of
this shape; the loop checks the lengths in every row and stops at the first row with other lengths. A loop is generated
after its key was looked up WARM times, and at most MAX_SHAPES loops are cached, so that input cannot make the engine
generate code without limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import calcsize
from typing import Any

from kwire.codegen import Lines, Names, source
from kwire.engines.generated import CODES, ReaderOptions, missing, run
from kwire.engines.runtime import Table, varint
from kwire.layout import Blob, Fixed, List, Node, Record, Text, element_weight

MAX_SHAPES = 16
MAX_ROW = 1024  # maximum size of a row in bytes
MAX_FIELDS = 64  # maximum values of a row: each is a local variable
MAX_COUNT = 0x3FFF  # largest length or count on the wire: a varint of two bytes

Rows = Callable[..., Any]


def uniform(record: Record) -> bool:
    """Return True if the elements of an array with this layout can be read as rows.

    Such elements contain only fixed-size values, strings, bytes and arrays of fixed-size values.
    """
    return all(_uniform(slot.node) for slot in record.slots)


def _uniform(node: Node) -> bool:
    match node:
        case Fixed() | Text() | Blob(records=False) | List(Fixed()):
            return True
        case Record():
            return uniform(node)
        case _:
            return False


def key_of(record: Record, before: int) -> list[str]:
    """Return the names of the variables that contain the lengths inside an element. Their values select the loop.

    Args:
        record: layout of the element.
        before: number of count variables of the generated function before this element.
    """
    return [f"n{before + number}" for number in range(1, _counts(record) + 1)]


def _counts(node: Node) -> int:
    match node:
        case Text() | Blob() | List():
            return 1
        case Record():
            return sum(_counts(slot.node) for slot in node.slots)
        case _:
            return 0


class Shapes(Table):
    """A cache of generated loops. The key is the tuple of lengths inside an element, as encoded on the wire.

    The value is None if no loop can be generated for this key.
    """

    most = MAX_SHAPES

    def __init__(self, record: Record, options: ReaderOptions) -> None:
        super().__init__()
        self.record = record
        self.options = options

    def __missing__(self, key: Any) -> Rows | None:
        if self.is_full() or not self.is_warm(key):
            return None
        self[key] = rows = self._make((key,) if isinstance(key, int) else key)
        return rows

    def _make(self, counts: tuple[int, ...]) -> Rows | None:
        if max(counts, default=0) > MAX_COUNT:
            return None
        row = _Row(counts, self.options)
        row.record(self.record, "o")
        if calcsize(row.format) > MAX_ROW or len(row.targets) > MAX_FIELDS:
            return None
        rows: Rows = run(row.source(), row.names)["rows"]
        return rows


class _Row:
    """The builder of the Python source of a loop that reads rows of one shape."""

    def __init__(self, counts: tuple[int, ...], options: ReaderOptions) -> None:
        self.counts: Iterator[int] = iter(counts)
        self.options = options
        self.names = Names()
        self.body: list[str] = []
        self.format = ">"
        self.targets: list[str] = []
        self.checks: list[str] = []
        self.weight = 0

    def source(self) -> str:
        left = ", left" if self.options.weighed else ""
        out = Lines(f"def rows(buf, pos, count, elements{left}):")
        size = calcsize(self.format)
        rows = self.names.define("iter_rows", f'Struct("{self.format}").iter_unpack')
        out.add(f"count = min(count, (len(buf) - pos) // {size})")
        if self.options.weighed:
            out.add(f"if count * {self.weight} > left:", f"    return 0, pos{left}")
        out.add("before = len(elements)")
        with out.block(f"for {', '.join(self.targets)}, in {rows}(memoryview(buf)[pos : pos + count * {size}]):"):
            if self.checks:
                out.add(f"if {' or '.join(self.checks)}:", "    break")
            out.add(*self.body, "elements.append(o)")
        out.add("got = len(elements) - before")
        if self.options.weighed:
            out.add(f"left -= got * {self.weight}")
        out.add(f"return got, pos + got * {size}{left}")
        return source("rows", self.names, [out])

    def field(self, code: str, prefix: str) -> str:
        """Add a fixed-size value to the row; return the name of the variable that it is assigned to."""
        name = f"{prefix}{len(self.targets)}"
        self.format += code
        self.targets.append(name)
        return name

    def record(self, record: Record, name: str, target: str = "") -> None:
        self.body.append(f"{name} = {f'{target} = ' if target else ''}new({self.names.struct(record.type)})")
        for slot in record.slots:
            self.node(slot.node, f"{name}.{slot.name}")
        if record.flexible:
            tags = self.field("B", "t")
            self.checks.append(tags)
        absent = [(field_name, field) for field_name, field in missing(record)]
        absent += [(slot.name, slot.field) for slot in record.tagged]
        self.body.append(f"{name}.unknown_tags = None")
        self.body += [f"{name}.{field_name} = {self.names.initial(field)}" for field_name, field in absent]

    def node(self, node: Node, target: str) -> None:
        match node:
            case Fixed("uuid"):
                self.body.append(f"{target} = uuid({self.field('16s', 'u')})")
            case Fixed(wire):
                self.body.append(f"{target} = {self.field(CODES[wire], 'f')}")
            case Record():
                self.record(node, f"o{len(self.body)}", target)
            case Text() | Blob() | List():
                self.body.append(f"{target} = {self.counted(node)}")

    def counted(self, node: Node) -> str:
        """Return a Python expression for a string, bytes or an array; its length is fixed by the key of the loop."""
        assert isinstance(node, (Text, Blob, List))
        count = next(self.counts)
        code, written = "B" if node.compact else "h" if isinstance(node, Text) else "i", count
        if node.compact and count > 127:
            code, written = "H", int.from_bytes(varint(count), "big")
        self.checks.append(f"{self.field(code, 'n')} != {written}")
        length = count - int(node.compact)
        if length < 0:
            return "None"
        if isinstance(node, List):
            assert isinstance(node.element, Fixed)
            self.weight += length * element_weight(node)
            wire = node.element.wire
            items = [self.field(CODES[wire], "i") for _ in range(length)]
            return f"[{', '.join(f'uuid({item})' if wire == 'uuid' else item for item in items)}]"
        if length == 0:
            return '""' if isinstance(node, Text) else 'b""'
        content = self.field(f"{length}s", "s")
        return f"{content}.{self.options.decode}" if isinstance(node, Text) else content
