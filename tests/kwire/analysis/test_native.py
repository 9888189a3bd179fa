"""Tables in the package kwire-native have the rows and the Arrow columns of tables without the package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tools.captures import CAPTURES

from kwire.analysis import columns, events, native, tables, usage
from kwire.analysis.columns import Column, PackedRows, Row, Table, TupleRows, arrow_table
from kwire.analysis.frames import FrameRows
from kwire.analysis.native import native_columns
from kwire.analysis.run import analyse
from kwire.capture import Call, Connection, read
from kwire.engines.chosen import available
from kwire.engines.native import package
from kwire.messages.heartbeat import HeartbeatResponse
from kwire.messages.offset_commit import OffsetCommitResponse

pytestmark = pytest.mark.skipif("native" not in available(), reason="the native engine is not installed: make native")

TYPES = ("int", "long", "timestamp", "string", "bool", "double", "list<string>")
TABLE = Table("t", "", tuple(Column(kind, kind, "") for kind in TYPES), ("timestamp", "string", "long"))
USUAL: dict[str, list[Any]] = {
    "int": [None, 0, -1, 2**31 - 1, -(2**31)],
    "long": [None, 0, 5, 2**63 - 1, -(2**63)],
    "timestamp": [None, 1, 2],
    "string": [None, "", "a", "\U0001f600", "ä\0", "ab"],
    "bool": [None, True, False],
    "double": [None, 0.5, -1.0],
    "list<string>": [None, [], ["a", "b"]],
}
PATHS = sorted(CAPTURES.glob("*.pcap*"))


def without_package(*_: object) -> None:
    """Return no table, as ``new_columns`` without the native engine."""


def packed(table: Table, values: list[tuple[Any, ...]]) -> PackedRows:
    made = native_columns([column.type for column in table.columns], [None] * len(table.columns))
    made.add_tuples(values)
    return PackedRows(table, made)


def arrow(name: str, rows: Any, new: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    monkeypatch.setattr(columns, "new_columns", new)
    monkeypatch.setattr(events, "new_columns", new)
    made = arrow_table(tables.EVERY[name], rows)
    made.validate(full=True)
    return made


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 300])
def test_rows_in_the_package_are_those_of_tuples(count: int) -> None:
    random = Random(count)
    values = [tuple(random.choice(USUAL[kind]) for kind in TYPES) for _ in range(count)]
    rows, expected = packed(TABLE, values), TupleRows(TABLE, values)
    assert rows == expected
    assert len(rows) == count
    assert [type(row["int"]) for row in rows] == [type(row["int"]) for row in expected]
    assert all(rows.column(kind) == expected.column(kind) for kind in TYPES)
    made = arrow_table(TABLE, rows)
    made.validate(full=True)
    assert made.equals(arrow_table(TABLE, [*expected]))


@pytest.mark.parametrize(
    ("kind", "value"), [("string", "a\udcff"), ("long", 2**63), ("timestamp", -(2**70)), ("int", 2**31), ("int", True)]
)
def test_unusual_values_have_the_results_of_python(kind: str, value: Any) -> None:
    values = [tuple(cell if one == kind else None for one in TYPES) for cell in (value, USUAL[kind][1])]
    rows, expected = packed(TABLE, values), TupleRows(TABLE, values)
    assert rows == expected
    assert [type(row[kind]) for row in rows] == [type(row[kind]) for row in expected]
    results = []
    for some in (rows, [*expected]):
        try:
            results.append(arrow_table(TABLE, some))
        except (OverflowError, pa.ArrowException) as error:
            results.append(str(error))
    assert results[0] == results[1]


@pytest.mark.parametrize("values", [["a", 5, None, 7, "b"], [{}, {1: 2}]], ids=["text and int", "dicts"])
def test_values_without_an_order_are_a_type_error(values: list[Any]) -> None:
    for count in range(2, 60):
        rows = [(0, values[number % len(values)]) for number in range(count)]
        table = Table("t", "", (Column("a", "int", ""), Column("b", "string", "")), ("a", "b"))
        for create in (TupleRows, packed):
            with pytest.raises(TypeError, match="not supported between instances"):
                create(table, rows)


def test_values_of_any_type_have_the_order_of_python() -> None:
    random = Random(4)
    for count in range(60):
        values = [
            (random.choice([None, 0.5, float("nan"), 2.0]), random.choice([None, True, 2**70, -1]), [str(number % 3)])
            for number in range(count)
        ]
        table = Table("t", "", tuple(map(Column, "abc", ("double", "long", "list<string>"), "   ")), ("a", "b", "c"))
        assert repr(packed(table, values)) == repr(TupleRows(table, values))


def test_rows_of_other_objects_are_refused() -> None:
    made = native_columns(["long", "string"], ["number", None], Call)
    for values, message in (((object(), ("a",)), "not of the class"), ((object(), ()), "1 values are needed, not 0")):
        with pytest.raises(TypeError, match=message):
            made.add(*values)
    with pytest.raises(TypeError, match="the rows come from objects"):
        made.add_tuples([(1, "a")])
    with pytest.raises(TypeError, match="the rows come from tuples"):
        native_columns(["long"], [None]).add(object(), (1,))
    with pytest.raises(ValueError, match="slots need a class"):
        native_columns(["long"], ["number"])
    with pytest.raises(ValueError, match="each column must have a type and a slot"):
        native_columns(["long"], [])
    assert len(made) == 0


def test_error_codes_are_found_in_structs_and_lists() -> None:
    is_refused = usage.native_is_refused()
    topic, partition = OffsetCommitResponse.Topic, OffsetCommitResponse.Topic.Partition
    for codes, expected in (((), False), ((0, 0), False), ((0, 9), True), ((-1,), True)):
        response = OffsetCommitResponse(
            topics=[topic(), topic(partitions=[partition(error_code=code) for code in codes])]
        )
        assert is_refused(response) is usage.plain_is_refused(response) is expected
    assert is_refused(HeartbeatResponse(error_code=27))
    assert not is_refused(HeartbeatResponse())


def test_classes_without_slots_are_searched_in_python() -> None:
    class Other:
        error_code = 5

    search = package().ErrorCodes(lambda _: (("error_code",), ()), lambda message: message.error_code == 5)
    assert search(Other())


def parts(path: Path, folder: Path) -> Iterator[Path]:
    """Yield the path of a capture, and of two files with its first bytes."""
    yield path
    whole, random = path.read_bytes(), Random(path.name)
    for number in range(2):
        cut = folder / f"{number}-{path.name}"
        cut.write_bytes(whole[: random.randrange(len(whole))])
        yield cut


def tables_of(items: list[Any]) -> dict[str, Any]:
    calls = [item for item in items if isinstance(item, Call)]
    return analyse(calls, [item for item in items if isinstance(item, Connection)], "c")


@pytest.mark.parametrize("path", PATHS, ids=[path.name.partition(".pcap")[0] for path in PATHS])
def test_captures_have_the_same_tables(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_refused = usage.native_is_refused()
    for file in parts(path, tmp_path):
        items = [*read(file)]
        frames: list[list[Row]] = []
        for new in (without_package, native_columns):
            collector = FrameRows("c", bodies=True, new=new)
            for call in items:
                if isinstance(call, Call):
                    collector.add(call, usage.refusals(call))
                    if call.response is not None:
                        assert is_refused(call.response) is usage.plain_is_refused(call.response)
            frames.append([*collector.rows()])
        assert frames[0] == frames[1]
        for name, rows in tables_of(items).items():
            results = [arrow(name, rows, new, monkeypatch) for new in (without_package, native_columns)]
            assert results[0].equals(results[1]), name


def test_package_is_used_with_the_native_engine_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for engine, is_used in (("native", True), ("compiled", False)):
        monkeypatch.setattr(native, "DEFAULT", engine)
        assert (native.new_columns(["long"], [None]) is not None) is is_used
