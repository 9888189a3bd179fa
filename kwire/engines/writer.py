"""Generation of writers: Python source of a function that encodes one version of a message.

The function collects byte strings and joins them once. Adjacent fixed-size fields are written by one call of ``pack``.
An array of numbers is written, with its count, by one call too. Short lengths come from a table.

The function is ``(value) -> bytes``. It checks the class of every struct and container, because otherwise it would
accept a string as an array of strings, or a struct of a wrong class. Other wrong values raise errors of ``struct`` and
Python. With the option ``sliced`` the function is a generator that finally returns the same bytes.
"""

from __future__ import annotations

from dataclasses import replace

from kwire.codegen import Lines, Names, source
from kwire.engines.generated import CODES, WriterOptions
from kwire.layout import Blob, Fixed, List, Maybe, Node, Record, Text
from kwire.schema import Field, schema_of

EMPTY = 'b""'
ZERO = r'b"\0"'
MINUS_ONE_BYTE = r'b"\xff"'
MINUS_ONE = r'b"\xff\xff\xff\xff"'


def writer_source(title: str, layout: Record, options: WriterOptions) -> tuple[str, Names]:
    """Return the Python source of a writer, and the global names that the source needs besides those of ``runtime``.

    Args:
        title: name and version of the message, for the comment in the first line.
        layout: layout of the version.
        options: options of the writer.
    """
    names = Names()
    functions: list[Lines] = []
    body = _WriteFunction("def write(o, size):" if options.sliced else "def write(o):", names, options, functions)
    if options.sliced:
        body.out.add("left = size", "if size < 1:", "    yield")
    body.record(layout, "o", outermost=True)
    body.finish()
    return source(title, names, [*functions, body.out]), names


class _WriteFunction:
    """The builder of the Python source of a function that writes a struct.

    Args:
        head: first line of the function, the ``def`` statement.
        names: global names of the source, to which names are added.
        options: options of the writer.
        functions: list to which the functions for tagged fields are added.

    Attributes:
        run: fixed-size fields for which no statement exists yet, each as struct code and expression of the value.
        parts: expressions of byte strings for which no statement exists yet, in wire order.
        looped: True once the generated function contains a list ``out``.
    """

    def __init__(self, head: str, names: Names, options: WriterOptions, functions: list[Lines]) -> None:
        self.out = Lines(head)
        self.names = names
        self.options = options
        self.functions = functions
        self.run: list[tuple[str, str]] = []
        self.parts: list[str] = []
        self.looped = False

    # -- pending parts --------------------------------------------------------------------------------------------

    def end_run(self) -> None:
        """Turn the fixed-size fields in ``run`` into one expression in ``parts``."""
        if not self.run:
            return
        self.parts.append(self.packed(self.run))
        self.run = []

    def packed(self, run: list[tuple[str, str]]) -> str:
        """Return a Python expression for the bytes of fixed-size fields: one call of ``pack``.

        ``run``: struct code and expression of the value of each field.
        """
        values = ", ".join(value for _, value in run if value)
        codes = "".join(code for code, _ in run)
        name = self.names.define(f"pack_{codes}", f'Struct(">{codes}").pack')
        return f"{name}({values})"

    def flush_parts(self) -> None:
        """Add a statement that appends all byte strings in ``parts`` to the list ``out`` of the generated function."""
        self.end_run()
        if not self.looped:
            self.out.add(f"out = [{', '.join(self.parts)}]")
            self.looped = True
        elif len(self.parts) > 2:
            self.out.add(f"out += ({', '.join(self.parts)})")
        else:
            self.out.add(*(f"out.append({part})" for part in self.parts))
        self.parts = []

    def finish(self) -> None:
        self.end_run()
        if not self.looped:
            whole = self.parts[0] if len(self.parts) == 1 else f"{EMPTY}.join(({', '.join(self.parts)}))"
            self.out.add(f"return {whole if self.parts else EMPTY}")
            return
        self.flush_parts()
        self.out.add(f"return {EMPTY}.join(out)")

    # -- nodes ---------------------------------------------------------------------------------------------------

    def node(self, node: Node, value: str) -> None:
        match node:
            case Fixed("uuid"):
                self.run.append((CODES["uuid"], f"uuid_bytes({value})"))
            case Fixed("bool"):
                self.run.append(("B", f"FLAGS[{value}]"))
            case Fixed(wire):
                self.run.append((CODES[wire], value))
            case Text():
                self.text(node, value)
            case Blob():
                self.blob(node, value)
            case List(Fixed(), _, False):
                self.fixed_array(node, value)
            case List():
                self.array(node, value)
            case Maybe():
                self.maybe(node, value)
            case Record():
                inner = self.out.fresh("o")
                self.out.add(f"{inner} = {value}")
                self.record(node, inner)

    def record(self, record: Record, name: str, *, outermost: bool = False) -> None:
        if not outermost:  # the class of the message was checked by the caller, which looked up this function by it
            self.out.add(f"if {name}.__class__ is not {self.names.struct(record.type)}:", "    raise Refused")
        for slot in record.absent:
            self.out.add(f"if {self.differs(slot.field, f'{name}.{slot.name}')}:", "    raise Refused")
        if not record.flexible:
            self.out.add(f"if {name}.unknown_tags:", "    raise Refused")
        for slot in record.slots:
            self.node(slot.node, f"{name}.{slot.name}")
        if record.flexible:
            self.tags(record, name)

    def differs(self, field: Field, value: str) -> str:
        """Return a Python expression that is true if the value of a field differs from its default."""
        if not field.is_fresh:
            initial = field.initial()
            return f"{value} is not None" if initial is None else f"{value} != {self.names.value(initial)}"
        if field.kind == "array":
            return f"{value} != []"
        return f"{value} != {self.names.hand_in(f'default_{_struct_name(field)}', field.initial())}"

    def text(self, node: Text, value: str) -> None:
        name, data = self.out.fresh("s"), self.out.fresh("b")
        if node.null:
            self.out.add(f"{name} = {value}")
            with self.out.block(f"if {name} is None:"):
                self.out.add(f"{data} = {EMPTY}", f"{name} = {self.null(node)}")
            with self.out.block("else:"):
                self.out.add(f"{data} = {name}.{self.options.encode}")
                self.out.add(f"{name} = {self.count(node, f'len({data})')}")
        else:
            self.out.add(f"{data} = {value}.{self.options.encode}")
            name = self.count(node, f"len({data})")
        self.counted(node, name, data)

    def blob(self, node: Blob, value: str) -> None:
        name, data = self.out.fresh("n"), self.out.fresh("b")
        self.out.add(f"{data} = {value}")
        if node.null:
            with self.out.block(f"if {data} is None:"):
                self.out.add(f"{data} = {EMPTY}", f"{name} = {self.null(node)}")
            with self.out.block("else:"):
                self.exact("bytes", "blob", data)
                self.out.add(f"{name} = {self.count(node, f'len({data})')}")
        else:
            self.exact("bytes", "blob", data)
            name = self.count(node, f"len({data})")
        self.counted(node, name, data)

    def exact(self, cls: str, convert: str, name: str) -> None:
        self.out.add(f"if {name}.__class__ is not {cls}:", f"    {name} = {convert}({name})")

    def count(self, node: Text | Blob | List, length: str) -> str:
        """Return a Python expression for an encoded length or count; add the statements that the expression needs.

        In the compact encoding, the value of the expression is bytes; otherwise it is an integer that ``pack`` writes.
        ``length``: expression of the number.
        """
        if not node.compact:
            return length
        if isinstance(node, Text) and not self.options.careful:
            return f"COUNTS[{length}]"
        number = self.out.fresh("l")
        self.out.add(f"{number} = {length}")
        longer = f"text_count({number})" if isinstance(node, Text) else f"varint({number} + 1)"
        return f"COUNTS[{number}] if {number} < SHORT else {longer}"

    def null(self, node: Text | Blob | List) -> str:
        return ZERO if node.compact else "-1"

    def counted(self, node: Text | Blob, count: str, data: str) -> None:
        if node.compact:
            self.end_run()
            self.parts += [count, data]
        else:
            self.run.append(("h" if isinstance(node, Text) else "i", count))
            self.end_run()
            self.parts.append(data)

    def fixed_array(self, node: List, value: str) -> None:
        assert isinstance(node.element, Fixed)
        name = self.out.fresh("a")
        self.out.add(f"{name} = {value}")
        self.exact("list", "array", name)
        self.end_run()
        wire = node.element.wire
        if wire == "uuid":
            self.parts += [self.array_count(node, name), f"{EMPTY}.join(map(uuid_bytes, {name}))"]
            return
        code, items = ("B", f"[FLAGS[v] for v in {name}]") if wire == "bool" else (CODES[wire], name)
        form = "compact" if node.compact else "counted"
        table = self.names.define(f"pack_{form}_{code}", f'packers("{code}", {node.compact})')
        self.parts.append(f"{table}[len({name})](*{items})")

    def array_count(self, node: List, name: str) -> str:
        """Return a Python expression for the encoded count of the array in the variable ``name``."""
        if node.compact:
            return f"COUNTS[len({name})] if len({name}) < SHORT else varint(len({name}) + 1)"
        pack = self.names.define("pack_i", 'Struct(">i").pack')
        return f"{pack}(len({name}))"

    # -- arrays, nulls, tags -------------------------------------------------------------------------------------

    def array(self, node: List, value: str) -> None:
        name = self.out.fresh("a")
        self.out.add(f"{name} = {value}")
        if node.null:
            self.flush_parts()
            with self.out.block(f"if {name} is None:"):
                self.out.add(f"out.append({ZERO if node.compact else MINUS_ONE})")
            with self.out.block("else:"):
                self.elements(node, name)
        else:
            self.elements(node, name)

    def elements(self, node: List, name: str) -> None:
        self.exact("list", "array", name)
        if isinstance(node.element, Fixed):
            self.fixed_array(List(node.element, node.compact, False), name)
            self.flush_parts()
            return
        count = self.out.fresh("n")
        self.out.add(f"{count} = len({name})")
        if not node.compact:
            self.run.append(("i", count))
        elif self.run:  # a count of one byte is one more field of the run
            short = self.packed([*self.run, ("B", f"{count} + 1")])
            longer = f"{self.packed(self.run)} + varint({count} + 1)"
            self.run = []
            self.parts.append(f"{short} if {count} < 127 else {longer}")
        else:
            self.end_run()
            self.parts.append(f"COUNTS[{count}] if {count} < SHORT else varint({count} + 1)")
        self.flush_parts()
        item = self.out.fresh("o")
        with self.out.block(f"for {item} in {name}:"):
            if isinstance(node.element, Record):
                self.record(node.element, item)
            else:
                self.node(node.element, item)
            self.flush_parts()
            if self.options.sliced:
                self.out.add("left -= 1", "if left < 1:", "    yield", "    left = size")

    def maybe(self, node: Maybe, value: str) -> None:
        name = self.out.fresh("o")
        self.out.add(f"{name} = {value}")
        self.flush_parts()
        with self.out.block(f"if {name} is None:"):
            self.out.add(f"out.append({ZERO if node.tagged else MINUS_ONE_BYTE})")
        with self.out.block("else:"):
            self.run.append(("B", "1"))
            self.record(node.record, name)
            self.flush_parts()

    def tags(self, record: Record, name: str) -> None:
        differ = [f"{name}.unknown_tags", *(self.differs(slot.field, f"{name}.{slot.name}") for slot in record.tagged)]
        any_tags = " or ".join(differ)
        unknown = f"write_tags(NO_TAGS, {name}.unknown_tags, NO_TAGS)"
        write = f"{self.tag_writer(record)}({name})" if record.tagged else unknown
        if self.looped and self.run and not self.parts:  # the empty section as one more byte of the run
            run = list(self.run)
            with self.out.block(f"if {any_tags}:"):
                self.end_run()
                self.parts.append(write)
                self.flush_parts()
            with self.out.block("else:"):
                self.run = [*run, ("x", "")]
                self.flush_parts()
        else:
            self.end_run()
            self.parts.append(f"{write} if {any_tags} else {ZERO}")

    def tag_writer(self, record: Record) -> str:
        """Add a function that writes the tagged section of a struct, and return the function's name."""
        struct = self.names.struct(record.type)
        name = f"write_tags_of{struct}"
        if any(lines.lines[0] == f"def {name}(o):" for lines in self.functions):
            return name
        options = replace(self.options, sliced=False)
        for slot in record.tagged:
            body = _WriteFunction(f"def write_tag_{slot.tag}_of{struct}(v):", self.names, options, self.functions)
            body.node(slot.node, "v")
            body.finish()
            self.functions.append(body.out)
        lines = Lines(f"def {name}(o):")
        lines.add("known = {}")
        for slot in record.tagged:
            with lines.block(f"if {self.differs(slot.field, f'o.{slot.name}')}:"):
                lines.add(f"known[{slot.tag}] = write_tag_{slot.tag}_of{struct}(o.{slot.name})")
        tags = ", ".join(str(slot.tag) for slot in record.tagged)
        lines.add(f"return write_tags(known, o.unknown_tags, ({tags},))")
        self.functions.append(lines)
        return name


def _struct_name(field: Field) -> str:
    assert field.struct is not None
    return schema_of(field.struct).name
