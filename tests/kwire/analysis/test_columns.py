from __future__ import annotations

import pytest
from tools.captures import capture

from kwire.analysis.columns import ColumnRows, TupleRows, arrow_table, rows_of
from kwire.analysis.tables import ERRORS, GROUP_EVENTS, TABLES


def test_rows_are_sorted_with_nothing_first() -> None:
    rows = [ERRORS.row(api_name="a", error_code=code, client_id=who) for code in (2, 1) for who in ("c", None, "b")]
    results = [(row["error_code"], row["client_id"]) for row in ERRORS.sorted(rows)]
    assert results == [(1, None), (1, "b"), (1, "c"), (2, None), (2, "b"), (2, "c")]


def test_unknown_column_is_refused() -> None:
    with pytest.raises(ValueError, match="no column sugar"):
        GROUP_EVENTS.row(sugar=1)


@pytest.mark.parametrize("name", TABLES)
def test_rows_go_through_arrow(name: str) -> None:
    rows = capture("java-4.2.0__kafka-4.2.0__kip848")[name]
    assert rows_of(arrow_table(TABLES[name], rows)) == rows


def test_invalid_utf8_stops_no_table() -> None:
    table = TABLES["members"]
    row = table.row(group_id="a\udcff", subscription=["b\udc80", "c"])
    assert rows_of(arrow_table(table, [row])) == [row | {"group_id": "a\\udcff", "subscription": ["b\\udc80", "c"]}]


@pytest.mark.parametrize(
    ("lag", "generation", "stored"),
    [(2**64 - 1, 2**31, (2**63 - 1, 2**31 - 1)), (-(2**64), -(2**31) - 1, (-(2**63), -(2**31))), (None, 5, (None, 5))],
    ids=["above", "below", "fits"],
)
def test_numbers_that_do_not_fit_stop_no_table(
    lag: int | None, generation: int, stored: tuple[int | None, int]
) -> None:
    """The lag is a difference of two 64-bit numbers, which may have any value in an invalid request."""
    table = TABLES["offset_commits"]
    row = table.row(group_id="a", lag=lag, generation=generation)
    (found,) = rows_of(arrow_table(table, [row]))
    assert (found["lag"], found["generation"]) == stored


@pytest.mark.parametrize("name", ["frames", "group_events"])
def test_rows_that_are_created_when_read_are_rows(name: str) -> None:
    rows = capture("java-4.2.0__kafka-4.2.0__kip848")[name]
    every = [*rows]
    assert isinstance(rows, ColumnRows)
    assert len(rows) == len(every) > 10
    assert rows == every
    assert every == rows
    assert rows != every[1:]
    assert rows != 1
    assert [rows[n] for n in (0, -1)] == [every[0], every[-1]]
    assert rows[2:-3] == every[2:-3]
    assert list(every[0]) == [column.name for column in TABLES[name].columns]
    assert repr(rows) == repr(every)
    assert every[1] in rows
    for column in every[0]:
        assert rows.column(column) == [row[column] for row in every]
    for place in (len(every), -len(every) - 1):
        with pytest.raises(IndexError):
            rows[place]


def test_rows_from_tuples_are_sorted_with_nothing_first() -> None:
    names = [column.name for column in TABLES["frames"].columns]
    values = [tuple({"request_ts": ts, "conn_id": "c", "number": n}.get(name) for name in names) for n, ts in TIMES]
    assert [(row["number"], row["request_ts"]) for row in TupleRows(TABLES["frames"], values)] == sorted(
        TIMES, key=lambda time: (time[1] is not None, time[1], time[0])
    )


TIMES = [(4, 9), (3, None), (2, 9), (1, None), (5, 8)]  # numbers and times of requests
