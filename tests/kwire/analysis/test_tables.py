from __future__ import annotations

import pytest
from tools.handmade_calls import two_members

from kwire.analysis.columns import CAPTURE_ID, SPARK, spark_schema
from kwire.analysis.frames import frame_row
from kwire.analysis.tables import EVERY, FRAMES


@pytest.mark.parametrize("table", EVERY.values(), ids=EVERY)
def test_table(table) -> None:  # type: ignore[no-untyped-def]
    names = [column.name for column in table.columns]
    assert table.columns[0] is CAPTURE_ID
    assert len(names) == len(set(names))
    assert set(table.order) <= set(names)
    assert all(column.type in SPARK and column.how and column.name.isidentifier() for column in table.columns)
    assert spark_schema(table).count("`") == 2 * len(names)


def test_a_row_has_the_columns_of_frames() -> None:
    for call in two_members().calls:
        assert list(frame_row(call, "c", [])) == [column.name for column in FRAMES.columns]
