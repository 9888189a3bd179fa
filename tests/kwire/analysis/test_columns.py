from __future__ import annotations

import pytest
from tools.captures import capture

from kwire.analysis.columns import arrow_table, rows_of
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
