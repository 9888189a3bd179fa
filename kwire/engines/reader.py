"""Generation of readers: Python source of a function that decodes one version of a message.

The source is straight-line code, and uses these techniques:

- One call of ``struct`` reads adjacent fixed-size fields, together with the length that follows them and the integer
  array that precedes them.
- A string or bytes value is one slice; its end is the position of the next field.
- Positions are local variables ``p``, ``p1``, ``p2`` ... that only grow.
- Lengths of one and two bytes are computed in place. Longer lengths, and tagged sections that are not empty, take a
  separate branch.
- All structs of an array are created at once, before they are filled.
- Only the last line of the function checks that it has not read past the end of the data. Before that line, ``struct``
  and index access raise an exception at the end of the data, and a slice that is too short moves the position past the
  end.

The function is ``(buf, p) -> (value, end)``. With the option ``weighed`` the function is ``(buf, p, left) -> (value,
end)``, and rejects a message that takes more than ``left`` bytes of memory (limits.weight_limit). With the option
``sliced`` the function is a generator with one more argument, ``size``: the number of array elements between two
yields. Copied bytes count as elements (limits.COPIED_LIKE_AN_ELEMENT).
"""

from __future__ import annotations

from dataclasses import replace
from struct import calcsize

from kwire.codegen import Lines, Names, source
from kwire.engines.generated import CODES, ReaderOptions, missing
from kwire.layout import Blob, Fixed, List, Maybe, Node, Record, Text, element_weight, smallest, weight
from kwire.limits import COPIED_LIKE_AN_ELEMENT, MAX_TEXT, MAX_VARINT


def reader_source(title: str, layout: Record, options: ReaderOptions) -> tuple[str, Names]:
    """Return the Python source of a reader, and the global names that the source needs besides those of ``runtime``.

    Args:
        title: name and version of the message, for the comment in the first line.
        layout: layout of the version.
        options: options of the reader.
    """
    names = Names()
    functions: list[Lines] = []
    arguments = ["buf", "p", *(["left"] if options.weighed else []), *(["size"] if options.sliced else [])]
    body = _ReadFunction(f"def read({', '.join(arguments)}):", names, options, functions)
    if options.sliced:
        body.out.add("turn = size", "if size < 1:", "    yield")
    body.out.add(f"o = new({names.struct(layout.type)})")
    body.record(layout, "o")
    end = body.settle()
    body.out.add(f"if {end} > {body.total()}:", "    raise Refused", f"return o, {end}")
    return source(title, names, [*functions, body.out]), names


class _ReadFunction:
    """The builder of the Python source of a function that reads a struct.

    A field is pending if no statement reads it yet; adjacent fixed-size fields are pending until one statement reads
    them.

    Args:
        head: first line of the function, the ``def`` statement.
        names: global names of the source, to which names are added.
        options: options of the reader.
        functions: list to which the functions for tagged fields are added.

    Attributes:
        base: name of a variable of the generated function. Its value plus ``offset`` is the position of the next field.
        offset: number of bytes from the position in ``base`` to the next field that is not pending.
        array: pending array of fixed-size elements: its layout, the variable of its count, and the variable or
            attribute to which it is assigned; None if no array is pending.
        run: pending fixed-size fields, each as struct code and the variable or attribute to which it is assigned.
        after: statements to add after the pending fields were read.
    """

    def __init__(self, head: str, names: Names, options: ReaderOptions, functions: list[Lines]) -> None:
        self.out = Lines(head)
        self.names = names
        self.options = options
        self.functions = functions
        self.base, self.offset = "p", 0
        self.array: tuple[List, str, str] | None = None
        self.run: list[tuple[str, str]] = []
        self.after: list[str] = []

    # -- positions -------------------------------------------------------------------------------------------------

    def at(self, more: int = 0) -> str:
        """Return a Python expression for the position ``more`` bytes after the next field."""
        offset = self.offset + more
        return f"{self.base} {'+' if offset > 0 else '-'} {abs(offset)}" if offset else self.base

    def settle(self, name: str = "") -> str:
        """Add statements that read all pending fields, and return a variable with the position of the next field.

        ``name``: the variable to use; "" to create a variable if no variable contains the position.
        """
        self.flush()
        if self.offset or (name and name != self.base):
            name = name or self.out.fresh("p")
            self.out.add(f"{name} = {self.at()}")
            self.base, self.offset = name, 0
        return self.base

    def total(self) -> str:
        """Return the name of the variable with the length of the data in bytes; define it if necessary."""
        first = "    total = len(buf)"
        if self.out.lines[1:2] != [first]:
            self.out.lines.insert(1, first)
        return "total"

    # -- nodes ---------------------------------------------------------------------------------------------------

    def node(self, node: Node, target: str) -> None:
        match node:
            case Fixed("uuid"):
                raw = self.out.fresh("r")
                self.run.append((CODES["uuid"], raw))
                self.after.append(f"{target} = uuid({raw})")
            case Fixed(wire):
                self.run.append((CODES[wire], target))
            case Text() | Blob():
                self.counted(node, target)
            case List(Fixed()):
                self.fixed_array(node, target)
            case List():
                self.list(node, target)
            case Maybe():
                self.maybe(node, target)
            case Record():
                inner = self.out.fresh("o")
                self.out.add(f"{inner} = {target} = new({self.names.struct(node.type)})")
                self.record(node, inner)

    def record(self, record: Record, name: str, place: str = "") -> None:
        """Add statements that read the fields of a new struct into the variable ``name``.

        ``place``: variable for the position after a flexible struct; "" to choose one.
        """
        for slot in record.slots:
            self.node(slot.node, f"{name}.{slot.name}")
        absent: dict[str, list[str]] = {} if record.flexible else {"None": ["unknown_tags"]}
        for field_name, field in missing(record):
            absent.setdefault(self.names.initial(field), []).append(field_name)
        self.out.add(*self.defaults(name, absent))
        if record.flexible:
            self.tags(record, name, place)

    def defaults(self, name: str, absent: dict[str, list[str]]) -> list[str]:
        lines = []
        for expression, fields in absent.items():
            if expression[-1] in "])":
                lines += [f"{name}.{field} = {expression}" for field in fields]
            else:
                lines.append(" = ".join([*(f"{name}.{field}" for field in fields), expression]))
        return lines

    def weigh(self, count: str, each: int) -> None:
        self.out.add(f"left -= {count} * {each}" if count else f"left -= {each}", "if left < 0:", "    raise Refused")

    # -- fixed-size fields ---------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Add one statement that reads all pending fields, if there are any."""
        codes, targets = "".join(code for code, _ in self.run), [target for _, target in self.run]
        array, after = self.array, self.after
        self.array, self.run, self.after = None, [], []
        if array is not None:
            self.unpack_array(array, codes, targets)
        elif codes:
            if codes == "B":
                self.out.add(f"{targets[0]} = buf[{self.at()}]")
            else:
                unpack = self.names.define(f"unpack_{codes}", f'Struct(">{codes}").unpack_from')
                self.out.add(f"{_listed(targets)} = {unpack}(buf, {self.at()})")
            self.offset += calcsize(f">{codes}")
        self.out.add(*after)

    def length(self, node: Text | Blob | List) -> str:
        """Add statements that read all pending fields and a length or count. Return the variable of the length.

        In the compact encoding, the variable contains only the first byte of the varint; otherwise it contains the
        whole number. The length of a string is read as unsigned: a value above 32767 is null.
        """
        name = self.out.fresh("n")
        if isinstance(node, Text) and not node.compact and not self.run and self.array is None:
            self.out.add(f"{name} = buf[{self.at()}] << 8 | buf[{self.at(1)}]")
            self.offset += 2
            return name
        self.run.append(("B" if node.compact else "H" if isinstance(node, Text) else "i", name))
        self.flush()
        return name

    # -- strings and bytes ---------------------------------------------------------------------------------------

    def counted(self, node: Text | Blob, target: str) -> None:
        count = self.length(node)
        sliced, begin_value = self.options.sliced and isinstance(node, Blob), self.at()
        end = self.out.fresh("p")
        before = f"{self.at()} + {count}"  # the end of a value that begins here, with this length
        if node.compact:
            begin, most = self.at(), MAX_TEXT if isinstance(node, Text) else MAX_VARINT - 1
            with self.out.block(f"if {count} > 127:"):
                more = self.out.fresh("b")
                self.out.add(f"{more} = SECOND[buf[{begin}]]")
                with self.out.block(f"if {more}:"):
                    self.out.add(f"{end} = {self.at(-128)} + {count} + {more}")
                    self.out.add(f"{target} = {self.value(node, f'buf[{self.at(1)}:{end}]')}")
                with self.out.block("else:"):
                    raw = self.out.fresh("s")
                    read = "yield from long_slice_in_steps" if sliced else "long_slice"
                    self.out.add(f"{raw}, {end} = {read}(buf, {begin}, {count}, {most}, {node.null})")
                    null = f" if {raw} is not None else None" if node.null and isinstance(node, Text) else ""
                    self.out.add(f"{target} = {self.value(node, raw)}{null}")
            head, before = f"elif {count}:", f"{self.at(-1)} + {count}"
        else:
            head = f"if {count} {'< 32768' if isinstance(node, Text) else '>= 0'}:"
        with self.out.block(head):
            data = f"buf[{self.at()}:{end}]"
            if sliced and not node.compact:
                long = f"(yield from join_in_steps([memoryview(buf)[{self.at()}:{end}]]))"
                data = f"{data} if {count} <= STEP else {long}"
            self.out.add(f"{end} = {before}", f"{target} = {self.value(node, data)}")
        with self.out.block("else:"):
            self.out.add(*([f"{end} = {self.at()}", f"{target} = None"] if node.null else ["raise Refused"]))
        if sliced:
            self.out.add(f"turn -= ({end} - ({begin_value})) // {COPIED_LIKE_AN_ELEMENT}")
        self.base, self.offset = end, 0

    def value(self, node: Text | Blob, data: str) -> str:
        return f"{data}.{self.options.decode}" if isinstance(node, Text) else data

    # -- arrays --------------------------------------------------------------------------------------------------

    def count(self, node: List) -> str:
        """Add statements that read the count of an array, and return the variable of the count."""
        count = self.length(node)
        if node.compact:
            self.long_number(count)
        return count

    def long_number(self, first: str) -> None:
        """Add statements that read the rest of a varint whose first byte is in the variable ``first``."""
        place = self.settle()
        self.out.add(f"if {first} > 127:", f"    {first}, {place} = uvarint(buf, {place}, {first})")

    def fixed_array(self, node: List, target: str) -> None:
        count = self.count(node)
        if self.options.weighed:
            with self.out.block(f"if {count} > {int(node.compact)}:"):
                self.weigh(f"({count} - 1)" if node.compact else count, element_weight(node))
        self.array = node, count, target

    def unpack_array(self, array: tuple[List, str, str], codes: str, targets: list[str]) -> None:
        """Add a statement that reads an array of fixed-size elements, and the fixed-size fields after it.

        Args:
            array: layout of the array, variable of its count, and the variable or attribute to which it is assigned.
            codes: struct codes of the fields after the array.
            targets: variables or attributes to which these fields are assigned.
        """
        node, count, target = array
        assert isinstance(node.element, Fixed)
        present = count if node.compact else f"{count} >= 0"
        code = CODES[node.element.wire]
        first, after = f"*{target}", [f"if not ({present}):", f"    {target} = None"] if node.null else []
        if node.element.wire == "uuid":
            first = self.out.fresh("s")
            after = [f"{target} = uuids({first}){f' if {present} else None' if node.null else ''}"]
        table = self.names.define(
            f"array_{code}_{codes or 'alone'}", f'unpackers("{code}", "{codes}", {int(node.compact)}, {node.null})'
        )
        self.out.add(f"{_listed([first, *targets])} = {table}[{count}](buf, {self.at()})")
        width = calcsize(f">{code}")
        end = self.out.fresh("p")
        length = f"{count} * {width}" if width > 1 else count
        behind = calcsize(f">{codes}")
        if node.null:
            length = f"({length} if {present} else {width if node.compact else 0})"
        self.out.add(f"{end} = {self.at(behind - width * int(node.compact))} + {length}", *after)
        self.base, self.offset = end, 0

    def list(self, node: List, target: str) -> None:
        count = self.count(node)
        place = self.settle()
        if node.compact:
            self.out.add(f"{count} -= 1")
        if node.null:
            with self.out.block(f"if {count} < 0:"):
                self.out.add(f"{target} = None")
            with self.out.block("else:"):
                self.elements(node, target, count, place)
        else:
            self.elements(node, target, count, place)

    def elements(self, node: List, target: str, count: str, place: str) -> None:
        """Add statements that read the elements of an array.

        Args:
            node: layout of the array.
            target: variable or attribute to which the list of elements is assigned.
            count: variable with the number of elements.
            place: variable with the position of the first element; after the statements, the position after the array.
        """
        self.out.add(
            f"if not 0 <= {count} * {smallest(node.element)} <= {self.total()} - {place}:", "    raise Refused"
        )
        if self.options.weighed:
            self.weigh(count, element_weight(node))
        array = self.out.fresh("a")
        if isinstance(node.element, Record) and not self.options.sliced:
            item = self.out.fresh("o")
            struct = self.names.struct(node.element.type)
            created = f"[new({struct})] if {count} == 1 else [*map(new, repeat({struct}, {count}))]"
            self.out.add(f"{target} = {array} = {created}")
            with self.out.block(f"for {item} in {array}:"):
                self.record(node.element, item, place)
                self.settle(place)
            return
        self.out.add(f"{target} = {array} = []")
        with self.out.block(f"for _ in range({count}):"):
            item = self.out.fresh("v")
            self.node(node.element, item)
            self.settle(place)
            self.out.add(f"{array}.append({item})")
            if self.options.sliced:
                self.out.add("turn -= 1", "if turn < 1:", "    yield", "    turn = size")

    # -- nulls, tags ---------------------------------------------------------------------------------------------

    def maybe(self, node: Maybe, target: str) -> None:
        marker = self.out.fresh("n")
        self.run.append(("B" if node.tagged else "b", marker))
        place = self.settle()
        if node.tagged:
            self.long_number(marker)
        with self.out.block(f"if {marker}{'' if node.tagged else ' >= 0'}:"):
            if self.options.weighed:
                self.weigh("", weight(node.record))
            self.node(node.record, target)
            self.settle(place)
        with self.out.block("else:"):
            self.out.add(f"{target} = None")

    def tags(self, record: Record, name: str, place: str) -> None:
        if self.run or self.array is not None or place == self.base:
            count = self.out.fresh("t")
            self.run.append(("B", count))
        else:
            count = f"buf[{self.at()}]"
            self.offset += 1
        end = self.settle(place)
        known = self.known(record)
        values = self.out.fresh("tagged") if record.tagged else "_"
        left = "left" if self.options.weighed else "NO_LIMIT"
        with self.out.block(f"if {count}:"):
            rest = "left" if self.options.weighed else "_"
            self.out.add(
                f"{values}, {name}.unknown_tags, {end}, {rest} = read_tags(buf, {end}, {count}, {known}, {left})"
            )
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
            body = _ReadFunction(f"def {name}(buf, p, left):", self.names, options, self.functions)
            body.node(slot.node, "v")
            body.out.add(f"return v, {body.settle()}, left")
            self.functions.append(body.out)
        return f"{{{', '.join(readers)}}}"


def _listed(targets: list[str]) -> str:
    return f"{targets[0]}," if len(targets) == 1 else ", ".join(targets)
