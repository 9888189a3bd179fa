"""Generation of readers: Python source of a function that decodes one version of a message.

Adjacent fixed-size fields are read by one call of ``struct``, together with the length that follows and the string or
integer array that precedes them. Lengths above 127, and tagged fields that are present, take a separate branch. Only
the last line of the function checks for the end of the data: unpackers raise by themselves, and a slice that is too
short leaves ``pos`` past the end. Array elements of equal lengths are read as rows (``shapes``).

The function is ``(buf, pos) -> (value, end)``. With the option ``weighed`` it is ``(buf, pos, left) -> (value, end)``
and refuses a message that takes more than ``left`` bytes of memory (limits.weight_limit).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from struct import calcsize

from kwire.codegen import Lines, Names, source
from kwire.engines.generated import CODES, ReaderOptions, missing
from kwire.engines.shapes import Shapes, key_of, uniform
from kwire.layout import Blob, Fixed, List, Maybe, Node, Record, Text, element_weight, smallest, weight
from kwire.limits import MAX_TEXT


def reader_source(title: str, layout: Record, options: ReaderOptions) -> tuple[str, Names]:
    """Return the Python source of a reader, and the global names that it needs besides those of ``runtime``.

    Args:
        title: name and version of the message, for the name of the function.
        layout: layout of the version.
        options: options of the reader.
    """
    names = Names()
    functions: list[Lines] = []
    arguments = [*(["left"] if options.weighed else []), *(["size"] if options.sliced else [])]
    body = _ReadFunction(f"def read({', '.join(['buf', 'pos', *arguments])}):", names, options, functions)
    if options.sliced:
        body.out.add("turn = size", "if size < 1:", "    yield")
    body.record(layout, "o")
    body.flush()
    body.out.add("if pos > len(buf):", "    raise Refused", "return o, pos")
    return source(title, names, [*functions, body.out]), names


@dataclass(slots=True)
class _PendingBytes:
    """A string, bytes or array of fixed-size elements that is read by the same call of ``struct`` as the fields after
    it.
    """

    node: Text | Blob | List
    count: str
    target: str


class _ReadFunction:
    """The builder of the Python source of one function, which reads a struct.

    Attributes:
        lead: pending string, bytes or array, which no statement reads yet; None if there is none.
        run: pending fixed-size fields, which no statement reads yet, as struct code and target variable.
        after: statements to add after the pending fields were read.
    """

    def __init__(self, head: str, names: Names, options: ReaderOptions, functions: list[Lines]) -> None:
        self.out = Lines(head)
        self.names = names
        self.options = options
        self.functions = functions
        self.lead: _PendingBytes | None = None
        self.run: list[tuple[str, str]] = []
        self.after: list[str] = []  # statements to add after the run was read

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
        """Add statements that read a struct into the variable ``name``, and assign it to ``target`` if given."""
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
        self.lead = _PendingBytes(node, count, target)

    def long_count(self, count: str, most: int | None = None) -> None:
        with self.out.block(f"if {count} > 127:"):
            self.out.add(f"{count}, pos = uvarint(buf, pos, {count})")
            if most is not None:
                self.out.add(f"if {count} > {most}:", "    raise Refused")

    def weigh(self, count: str, each: int) -> None:
        self.out.add(f"left -= {count} * {each}" if count else f"left -= {each}", "if left < 0:", "    raise Refused")

    # -- pending fields -------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Add one statement that reads all pending fields, if there are any."""
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

    def flush_lead(self, lead: _PendingBytes) -> None:
        node, count = lead.node, lead.count
        present = count if node.compact else f"{count} >= 0"
        codes, targets = self.pending()
        tail_size = calcsize(">" + codes)
        if isinstance(node, List):
            assert isinstance(node.element, Fixed)
            code, name = CODES[node.element.wire], lead.target
            first, after = f"*{name}", [f"if not ({present}):", f"    {name} = None"] if node.null else []
            if node.element.wire == "uuid":
                first = self.out.fresh("s")
                after = [f"{name} = uuids({first}){f' if {present} else None' if node.null else ''}"]
        else:
            code, name = "s", self.out.fresh("s")
            value = f"{name}.{self.options.decode}" if isinstance(node, Text) else name
            first, after = name, [f"{lead.target} = {value}{f' if {present} else None' if node.null else ''}"]
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
        fixed = tail_size - width * int(node.compact)
        move = length if not fixed else f"{length} {'+' if fixed > 0 else '-'} {abs(fixed)}"
        if node.null:
            move = f"{move} if {count if node.compact else f'{count} > 0'} else {tail_size}"
        self.out.add(f"pos += {move}", *after)

    def slice(self, node: Text | Blob, count: str, target: str) -> None:
        """Add statements that read a string or bytes after which no fixed-size field follows.

        Args:
            node: layout of the string or bytes.
            count: variable that contains the length.
            target: variable to which the value is assigned.
        """
        present = count if node.compact else f"{count} >= 0"
        if not node.null:
            self.out.add(f"if not {present if node.compact else f'({present})'}:", "    raise Refused")
        end = self.out.fresh("e")
        length = f"{count} - 1" if node.compact else count
        if node.null:
            length = f"({length} if {present} else 0)"
        value = f"buf[pos:{end}].{self.options.decode}" if isinstance(node, Text) else f"buf[pos:{end}]"
        self.out.add(f"{end} = pos + {length}", f"{target} = {value}{f' if {present} else None' if node.null else ''}")
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
        array = self.out.fresh("a")
        self.out.add(f"{target} = {array} = []")
        if isinstance(node.element, Record) and uniform(node.element):
            self.rows(node.element, count, array)
            return
        with self.out.block(f"for _ in range({count}):"):
            self.element(node.element, array)

    def element(self, node: Node, array: str) -> None:
        if isinstance(node, Record):
            item = self.out.fresh("o")
            self.record(node, item)
        else:
            item = self.out.fresh("v")
            self.node(node, item)
        self.flush()
        self.out.add(f"{array}.append({item})")
        self.count_elements("1")

    def count_elements(self, number: str) -> None:
        """Add statements that yield if a slice of elements has been read. ``number``: how many elements were read."""
        if self.options.sliced:
            self.out.add(f"turn -= {number}", "if turn < 1:", "    yield", "    turn = size")

    def rows(self, record: Record, count: str, array: str) -> None:
        """Add statements that read array elements whose lengths are probably equal.

        The first element is read normally; the following elements with the same lengths are read as rows.

        Args:
            record: layout of an element.
            count: variable that contains the number of elements.
            array: variable of the list of elements.
        """
        tries, shape = self.out.fresh("tries"), self.out.fresh("shape")
        options = replace(self.options, sliced=False)
        shapes = self.names.hand_in(f"shapes{self.names.struct(record.type)}", Shapes(record, options))
        most = f"min({count}, turn)" if self.options.sliced else count
        self.out.add(f"{tries} = 3")
        with self.out.block(f"while {count}:"):
            before = self.out.fresh("n")  # counts of this element have higher numbers
            self.element(record, array)
            self.out.add(f"{count} -= 1")
            with self.out.block(f"if {count} > 2 and {tries}:"):
                key = ", ".join(key_of(record, int(before[1:]))) or "()"
                self.out.add(f"{shape} = {shapes}[{key}]")
                with self.out.block(f"if {shape}:"):
                    left = ", left" if self.options.weighed else ""
                    got = self.out.fresh("got")
                    self.out.add(
                        f"{got}, pos{left} = {shape}(buf, pos, {most}, {array}{left})",
                        f"{count} -= {got}",
                        f"if {got} < 4:",
                        f"    {tries} -= 1",
                    )
                    self.count_elements(got)

    def maybe(self, node: Maybe, target: str) -> None:
        marker = self.out.fresh("n")
        self.run.append(("B" if node.tagged else "b", marker))
        self.flush()
        if node.tagged:
            self.long_count(marker)
        with self.out.block(f"if {marker}{'' if node.tagged else ' >= 0'}:"):
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
        values = self.out.fresh("tagged") if record.tagged else "_"
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
        """Add the functions that read the declared tagged fields of a struct.

        Return a Python expression for the table of these functions, by tag.
        """
        if not record.tagged:
            return "NO_TAGS"
        struct = self.names.struct(record.type)
        readers = []
        for slot in record.tagged:
            name = f"read_tag_{slot.tag}_of{struct}"
            readers.append(f"{slot.tag}: {name}")
            if any(lines.lines[0].startswith(f"def {name}(") for lines in self.functions):
                continue
            options = replace(self.options, sliced=False)
            body = _ReadFunction(f"def {name}(buf, pos, left):", self.names, options, self.functions)
            body.node(slot.node, "v")
            body.flush()
            body.out.add("return v, pos, left")
            self.functions.append(body.out)
        return f"{{{', '.join(readers)}}}"


def _listed(targets: list[str]) -> str:
    return f"{targets[0]}," if len(targets) == 1 else ", ".join(targets)
