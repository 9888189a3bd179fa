"""All versions of a message side by side. They show in which version a field was added or removed, or became nullable,
compact or tagged.

The functions compare the layouts of the versions, not the declarations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from kwire.layout import List, Maybe, Node, Record, form, resolve, versions_of
from kwire.lazy_dataclass import dataclass
from kwire.schema import Field, Versions, schema_of

TAGGED_SECTION = "(tagged fields)"
ABSENT = "-"
SAME = '"'


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table of versions: one field of a message, or the tagged section of a struct.

    Attributes:
        path: path of the field without indices, as in ``topics.partitions.index``.
        depth: number of structs that contain the field.
        field: declaration of the field; None for the tagged section of a struct.
        forms: name of the wire type by version; only the versions that have the field.
    """

    path: str
    depth: int
    field: Field | None
    forms: Mapping[int, str]

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def tag(self) -> int | None:
        return None if self.field is None else self.field.tag


def rows(message: type, version: int | None = None) -> list[Row]:
    """Return the fields of a message, in wire order, each with its wire type in every version.

    Args:
        message: class of the message.
        version: the only version to include; None for all versions.

    Raises: SchemaError if the message does not have this version.
    """
    versions = [version] if version is not None else list(_versions(message))
    return list(_rows(message, {number: resolve(message, number) for number in versions}, "", 0))


def _versions(message: type) -> range:
    versions = schema_of(message).versions
    assert versions is not None, "a struct has no versions of its own"
    return versions_of(versions)


def _rows(struct: type, records: Mapping[int, Record], prefix: str, depth: int) -> Iterator[Row]:
    fields = schema_of(struct).fields
    for name in sorted(fields, key=lambda name: -1 if (tag := fields[name].tag) is None else tag):  # stable
        nodes = {
            version: slot.node
            for version, record in records.items()
            for slot in (*record.slots, *record.tagged)
            if slot.name == name
        }
        if not nodes:
            continue
        path = f"{prefix}{name}"
        yield Row(path, depth, fields[name], {version: form(node) for version, node in nodes.items()})
        inner = {version: record for version, node in nodes.items() if (record := _struct_in(node))}
        if inner:
            yield from _rows(next(iter(inner.values())).type, inner, f"{path}.", depth + 1)
    if flexible := {version: "uvarint" for version, record in records.items() if record.flexible}:
        yield Row(f"{prefix}{TAGGED_SECTION}", depth, None, flexible)


def _struct_in(node: Node) -> Record | None:
    match node:
        case (Record() as record) | Maybe(record) | List(Record() as record):
            return record
        case _:
            return None


def ranges(table: Sequence[Row], versions: Sequence[int]) -> list[Versions]:
    """Return the version ranges of a message; consecutive versions with the same layout are in one range.

    Args:
        table: rows of all versions, from ``rows``.
        versions: versions to include, in ascending order.
    """
    columns = {version: [row.forms.get(version) for row in table] for version in versions}
    grouped: list[Versions] = []
    for version in versions:
        if grouped and columns[version] == columns[grouped[-1].first]:
            grouped[-1] = Versions(grouped[-1].first, version)
        else:
            grouped.append(Versions(version, version))
    return grouped


def text(message: type, width: int | None = None) -> str:
    """Return all versions of a message as a table: a row for each field, a column for each range of versions with equal
    layout.

    A cell with SAME has the same type as the cell to its left. The fields of a struct are in the indented rows below
    it, so the type of an array of structs is just "array".

    Args:
        message: class of the message.
        width: maximum width in characters. Columns that do not fit go into another table below. None for one table.
    """
    table = rows(message)
    columns = ranges(table, _versions(message))
    labels = [f"{'  ' * (row.depth + 1)}{row.name}{'' if row.tag is None else f' [tag {row.tag}]'}" for row in table]
    labels = [schema_of(message).name, *labels]
    tables: list[str] = []
    while columns:
        fitting = len(columns)
        while _too_wide(lines := _table(labels, table, columns[:fitting]), width) and fitting > 1:
            fitting -= 1
        tables.append("\n".join(lines))
        columns = columns[fitting:]
    return "\n\n".join(tables)


def _too_wide(lines: Sequence[str], width: int | None) -> bool:
    return width is not None and max(map(len, lines)) > width


def _table(labels: Sequence[str], table: Sequence[Row], columns: Sequence[Versions]) -> list[str]:
    cells = [_cells([_short(row.forms.get(column.first)) for column in columns]) for row in table]
    lines = zip(labels, [[f"v{column}" for column in columns], *cells], strict=True)
    lines_with_labels = [[label, *line] for label, line in lines]
    widths = [max(map(len, column)) for column in zip(*lines_with_labels, strict=True)]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines_with_labels]


def _short(type_name: str | None) -> str:
    return ABSENT if type_name is None else type_name.removesuffix(" of struct")


def _cells(forms: Sequence[str]) -> list[str]:
    same = [SAME if right == left != ABSENT else right for left, right in pairwise(forms)]
    return [*forms[:1], *same]


def json_form(message: type, version: int | None = None) -> dict[str, object]:
    """Return the versions of a message as an object that can be written as JSON: for each field, its wire type by
    version range.

    The type is null in versions that do not have the field. ``version``: the only version to include; None for all
    versions.
    """
    table = rows(message, version)
    columns = ranges(table, [version] if version is not None else _versions(message))
    return {
        "message": schema_of(message).name,
        "versions": [str(column) for column in columns],
        "fields": [
            {"path": row.path, "tag": row.tag, "types": {str(c): row.forms.get(c.first) for c in columns}}
            for row in table
            if row.field is not None
        ],
    }


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between a version of a message and the version before.

    Attributes:
        version: the newer version.
        what: the kind of change, such as "added".
        fields: paths of the changed fields; for a whole struct only the path of the struct.
    """

    version: int
    what: str
    fields: tuple[str, ...] = ()


def changes(message: type) -> list[Change]:
    """Return the differences between consecutive versions of a message, in order of versions."""
    table = rows(message)
    return [change for old, new in pairwise(_versions(message)) for change in _changes(table, old, new)]


def _changes(table: Sequence[Row], old: int, new: int) -> Iterator[Change]:
    fields = [row for row in table if row.field is not None]
    flexible = any(row.field is None and new in row.forms and old not in row.forms for row in table if row.depth == 0)
    if flexible:
        yield Change(new, "flexible: compact lengths, tagged fields")
    for what, chosen in (
        ("added", [row for row in fields if new in row.forms and old not in row.forms]),
        ("removed", [row for row in fields if old in row.forms and new not in row.forms]),
    ):
        paths = {row.path for row in chosen}
        outermost = [row for row in chosen if row.path.rpartition(".")[0] not in paths]
        if plain := tuple(row.path for row in outermost if row.tag is None):
            yield Change(new, what, plain)
        if tagged := tuple(row.path for row in outermost if row.tag is not None):
            yield Change(new, f"{what}, tagged", tagged)
    both = [row for row in fields if old in row.forms and new in row.forms]
    for what, before, after in (("nullable", False, True), ("no longer nullable", True, False)):
        if paths_of := tuple(row.path for row in both if (_null(row, old), _null(row, new)) == (before, after)):
            yield Change(new, what, paths_of)


def _null(row: Row, version: int) -> bool:
    return "nullable_" in row.forms[version]
