"""Layout -> Python source of a function that reads a message.

What makes it fast: neighbouring fixed fields, the length that follows them and the string or array of integers before
them are one call of ``struct``. Lengths above 127 and tagged fields that are there are branches. Only the last line
looks whether the bytes sufficed: packers raise by themselves, and slices that come short leave ``pos`` behind the end.
Arrays of structs whose elements have equal lengths are read a row at a time (``shapes``).

The function is ``(buf, pos) -> (value, end)``. Weighed, it is ``(buf, pos, left) -> (value, end)`` and refuses what
weighs more than ``left`` (limits.weight_limit).
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import calcsize

from kwire.codegen import Lines, Names, source
from kwire.engines.generated import CODES, ReaderOptions, missing
from kwire.engines.shapes import Shapes, key_of, uniform
from kwire.layout import Blob, Fixed, List, Maybe, Node, Record, Text, element_weight, smallest, weight
from kwire.limits import MAX_TEXT


def reader_source(title: str, layout: Record, options: ReaderOptions) -> tuple[str, Names]:
    """The source, and the names that it needs beside those of ``runtime``."""
    names = Names()
    functions: list[Lines] = []
    head = "def read(buf, pos, left):" if options.weighed else "def read(buf, pos):"
    body = _ReadFunction(head, names, options, functions)
    body.record(layout, "o")
    body.flush()
    body.out.add("if pos > len(buf):", "    raise Refused", "return o, pos")
    return source(title, names, [*functions, body.out]), names


@dataclass(slots=True)
class _Lead:
    """A string, bytes or an array of fixed elements, not read yet: it is read together with what follows."""

    node: Text | Blob | List
    count: str
    target: str


class _ReadFunction:
    """A function that reads a struct. ``run``: fixed fields not read yet, as struct code and where the value goes."""

    def __init__(self, head: str, names: Names, options: ReaderOptions, functions: list[Lines]) -> None:
        self.out = Lines(head)
        self.names = names
        self.options = options
        self.functions = functions
        self.lead: _Lead | None = None
        self.run: list[tuple[str, str]] = []
        self.after: list[str] = []  # what is left to do with values of the run

    # -- nodes ---------------------------------------------------------------------------------------------------

    def node(self, node: Node, target: str) -> None:
        match node:
            case Fixed("uuid"):
                raw = self.out.fresh("r")
                self.run.append((CODES["uuid"], raw))
                self.after.append(f"{target} = uuid({raw})")
            case Fixed(wire):
                self.run.append((CODES[wire], target))
            case Text() | Blob() | List(Fixed()):
                self.counted(node, target)
            case List():
                self.array(node, target)
            case Maybe():
                self.maybe(node, target)
            case Record():
                inner = self.out.fresh("o")
                self.record(node, inner, target)

    def record(self, record: Record, name: str, target: str = "") -> None:
        """A struct. ``name``: of the local variable; ``target``: where it goes as well."""
        self.out.add(f"{name} = {f'{target} = ' if target else ''}new({self.names.struct(record.type)})")
        for slot in record.slots:
            self.node(slot.node, f"{name}.{slot.name}")
        absent: dict[str, list[str]] = {} if record.flexible else {"None": ["unknown_tags"]}
        for field_name, field in missing(record):
            absent.setdefault(self.names.initial(field), []).append(field_name)
        self.out.add(*self.defaults(name, absent))
        if record.flexible:
            self.tags(record, name)

    def defaults(self, name: str, absent: dict[str, list[str]]) -> list[str]:
        lines = []
        for expression, fields in absent.items():
            if expression[-1] in "])":
                lines += [f"{name}.{field} = {expression}" for field in fields]
            else:
                lines.append(" = ".join([*(f"{name}.{field}" for field in fields), expression]))
        return lines

    def counted(self, node: Text | Blob | List, target: str) -> None:
        count = self.out.fresh("n")
        code = "B" if node.compact else "h" if isinstance(node, Text) else "i"
        self.run.append((code, count))
        self.flush()
        if node.compact:
            self.long_count(count, MAX_TEXT + 1 if isinstance(node, Text) else None)
        if isinstance(node, List) and self.options.weighed:
            with self.out.block(f"if {count} > {int(node.compact)}:"):
                self.weigh(f"({count} - 1)" if node.compact else count, element_weight(node))
        self.lead = _Lead(node, count, target)

    def long_count(self, count: str, most: int | None = None) -> None:
        with self.out.block(f"if {count} > 127:"):
            self.out.add(f"{count}, pos = uvarint(buf, pos, {count})")
            if most is not None:
                self.out.add(f"if {count} > {most}:", "    raise Refused")

    def weigh(self, count: str, each: int) -> None:
        self.out.add(f"left -= {count} * {each}" if count else f"left -= {each}", "if left < 0:", "    raise Refused")

    # -- what is pending -----------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Read what is pending."""
        if self.lead is not None:
            self.flush_lead(self.lead)
        elif self.run:
            codes, targets = self.pending()
            if codes == "B":
                self.out.add(f"{targets[0]} = buf[pos]", "pos += 1")
            else:
                unpack = self.names.define(f"unpack_{codes}", f'Struct(">{codes}").unpack_from')
                self.out.add(f"{_listed(targets)} = {unpack}(buf, pos)", f"pos += {calcsize('>' + codes)}")
        self.lead, self.run = None, []
        self.out.add(*self.after)
        self.after = []

    def pending(self) -> tuple[str, list[str]]:
        return "".join(code for code, _ in self.run), [target for _, target in self.run]

    def flush_lead(self, lead: _Lead) -> None:
        node, count = lead.node, lead.count
        there = count if node.compact else f"{count} >= 0"
        codes, targets = self.pending()
        behind = calcsize(">" + codes)
        if isinstance(node, List):
            assert isinstance(node.element, Fixed)
            code, name = CODES[node.element.wire], lead.target
            first, after = f"*{name}", [f"if not ({there}):", f"    {name} = None"] if node.null else []
            if node.element.wire == "uuid":
                first = self.out.fresh("s")
                after = [f"{name} = uuids({first}){f' if {there} else None' if node.null else ''}"]
        else:
            code, name = "s", self.out.fresh("s")
            value = f"{name}.{self.options.decode}" if isinstance(node, Text) else name
            first, after = name, [f"{lead.target} = {value}{f' if {there} else None' if node.null else ''}"]
            if not codes:
                self.slice(node, count, lead.target)
                return
            if not isinstance(node, Text) and not node.null:
                first, after = lead.target, []
        table = self.names.define(
            f"{'texts' if isinstance(node, Text) else 'blobs' if code == 's' else f'array_{code}'}_{codes or 'alone'}",
            f'unpackers("{code}", "{codes}", {int(node.compact)}, {node.null})',
        )
        self.out.add(f"{_listed([first, *targets])} = {table}[{count}](buf, pos)")
        width = calcsize(f">{code}")
        length = f"{count} * {width}" if width > 1 else count
        fixed = behind - width * int(node.compact)
        move = length if not fixed else f"{length} {'+' if fixed > 0 else '-'} {abs(fixed)}"
        if node.null:
            move = f"{move} if {count if node.compact else f'{count} > 0'} else {behind}"
        self.out.add(f"pos += {move}", *after)

    def slice(self, node: Text | Blob, count: str, target: str) -> None:
        """A string or bytes with nothing of fixed width behind."""
        there = count if node.compact else f"{count} >= 0"
        if not node.null:
            self.out.add(f"if not {there if node.compact else f'({there})'}:", "    raise Refused")
        end = self.out.fresh("e")
        length = f"{count} - 1" if node.compact else count
        if node.null:
            length = f"({length} if {there} else 0)"
        value = f"buf[pos:{end}].{self.options.decode}" if isinstance(node, Text) else f"buf[pos:{end}]"
        self.out.add(f"{end} = pos + {length}", f"{target} = {value}{f' if {there} else None' if node.null else ''}")
        self.out.add(f"pos = {end}")

    # -- arrays, nulls, tags -------------------------------------------------------------------------------------

    def array(self, node: List, target: str) -> None:
        count = self.out.fresh("n")
        self.run.append(("B" if node.compact else "i", count))
        self.flush()
        if node.compact:
            self.long_count(count)
            self.out.add(f"{count} -= 1")
        if node.null:
            with self.out.block(f"if {count} < 0:"):
                self.out.add(f"{target} = None")
            with self.out.block("else:"):
                self.elements(node, target, count)
        else:
            self.out.add(f"if {count} < 0:", "    raise Refused")
            self.elements(node, target, count)

    def elements(self, node: List, target: str, count: str) -> None:
        self.out.add(f"if {count} * {smallest(node.element)} > len(buf) - pos:", "    raise Refused")
        if self.options.weighed:
            self.weigh(count, element_weight(node))
        found = self.out.fresh("a")
        self.out.add(f"{target} = {found} = []")
        if isinstance(node.element, Record) and uniform(node.element):
            self.rows(node.element, count, found)
            return
        with self.out.block(f"for _ in range({count}):"):
            self.element(node.element, found)

    def element(self, node: Node, found: str) -> None:
        if isinstance(node, Record):
            item = self.out.fresh("o")
            self.record(node, item)
        else:
            item = self.out.fresh("v")
            self.node(node, item)
        self.flush()
        self.out.add(f"{found}.append({item})")

    def rows(self, record: Record, count: str, found: str) -> None:
        """Elements that are likely to have equal lengths: after one, as many as are like it are read as rows."""
        tries, shape = self.out.fresh("tries"), self.out.fresh("shape")
        shapes = self.names.hand_in(f"shapes{self.names.struct(record.type)}", Shapes(record, self.options))
        self.out.add(f"{tries} = 3")
        with self.out.block(f"while {count}:"):
            before = self.out.fresh("n")  # counts of this element have higher numbers
            self.element(record, found)
            self.out.add(f"{count} -= 1")
            with self.out.block(f"if {count} > 2 and {tries}:"):
                key = ", ".join(key_of(record, int(before[1:]))) or "()"
                self.out.add(f"{shape} = {shapes}[{key}]")
                with self.out.block(f"if {shape}:"):
                    left = ", left" if self.options.weighed else ""
                    got = self.out.fresh("got")
                    self.out.add(
                        f"{got}, pos{left} = {shape}(buf, pos, {count}, {found}{left})",
                        f"{count} -= {got}",
                        f"if {got} < 4:",
                        f"    {tries} -= 1",
                    )

    def maybe(self, node: Maybe, target: str) -> None:
        there = self.out.fresh("n")
        self.run.append(("B" if node.tagged else "b", there))
        self.flush()
        if node.tagged:
            self.long_count(there)
        with self.out.block(f"if {there}{'' if node.tagged else ' >= 0'}:"):
            if self.options.weighed:
                self.weigh("", weight(node.record))
            self.node(node.record, target)
            self.flush()
        with self.out.block("else:"):
            self.out.add(f"{target} = None")

    def tags(self, record: Record, name: str) -> None:
        count = self.out.fresh("t")
        self.run.append(("B", count))
        self.flush()
        known = self.known(record)
        values = self.out.fresh("found") if record.tagged else "_"
        left = "left" if self.options.weighed else "NO_LIMIT"
        with self.out.block(f"if {count}:"):
            rest = "left" if self.options.weighed else "_"
            self.out.add(f"{values}, {name}.unknown_tags, pos, {rest} = read_tags(buf, pos, {count}, {known}, {left})")
            for slot in record.tagged:
                initial = self.names.initial(slot.field)
                self.out.add(f"{name}.{slot.name} = {values}[{slot.tag}] if {slot.tag} in {values} else {initial}")
        with self.out.block("else:"):
            absent: dict[str, list[str]] = {"None": ["unknown_tags"]}
            for slot in record.tagged:
                absent.setdefault(self.names.initial(slot.field), []).append(slot.name)
            self.out.add(*self.defaults(name, absent))

    def known(self, record: Record) -> str:
        """The name of the table of known tags, after functions that read them."""
        if not record.tagged:
            return "NO_TAGS"
        struct = self.names.struct(record.type)
        readers = []
        for slot in record.tagged:
            name = f"read_tag_{slot.tag}_of{struct}"
            readers.append(f"{slot.tag}: {name}")
            if any(lines.lines[0].startswith(f"def {name}(") for lines in self.functions):
                continue
            body = _ReadFunction(f"def {name}(buf, pos, left):", self.names, self.options, self.functions)
            body.node(slot.node, "v")
            body.flush()
            body.out.add("return v, pos, left")
            self.functions.append(body.out)
        return f"{{{', '.join(readers)}}}"


def _listed(targets: list[str]) -> str:
    return f"{targets[0]}," if len(targets) == 1 else ", ".join(targets)
