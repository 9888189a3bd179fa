from __future__ import annotations

import pytest

from kwire.analysis.columns import CAPTURE_ID, SPARK, spark_schema
from kwire.analysis.tables import EVERY


@pytest.mark.parametrize("table", EVERY.values(), ids=EVERY)
def test_table(table) -> None:  # type: ignore[no-untyped-def]
    names = [column.name for column in table.columns]
    assert table.columns[0] is CAPTURE_ID
    assert len(names) == len(set(names))
    assert set(table.order) <= set(names)
    assert all(column.type in SPARK and column.how and column.name.isidentifier() for column in table.columns)
    assert spark_schema(table).count("`") == 2 * len(names)
