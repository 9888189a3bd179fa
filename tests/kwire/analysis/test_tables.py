from __future__ import annotations

import pytest

from kwire.analysis.columns import SPARK, spark_schema
from kwire.analysis.events import GroupEvent
from kwire.analysis.tables import CAPTURE_ID, EVERY, GROUP_EVENTS


@pytest.mark.parametrize("table", EVERY.values(), ids=EVERY)
def test_table(table) -> None:  # type: ignore[no-untyped-def]
    names = [column.name for column in table.columns]
    assert table.columns[0] is CAPTURE_ID
    assert len(names) == len(set(names))
    assert set(table.order) <= set(names)
    assert all(column.type in SPARK and column.how and column.name.isidentifier() for column in table.columns)
    assert spark_schema(table).count("`") == 2 * len(names)


def test_an_event_has_the_columns_of_its_table() -> None:
    columns = [column.name for column in GROUP_EVENTS.columns if column.name not in ("capture_id", "cluster", "life")]
    assert columns == list(GroupEvent.__slots__)
