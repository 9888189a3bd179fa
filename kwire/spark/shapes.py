"""The columns of what one step of the pipeline hands to the next: rows of several kinds in one DataFrame.

A row has a kind, and a struct for each kind, of which that of its own is filled. So one pass over the traffic gives
all that is made of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from kwire.analysis.columns import SPARK, Column, Row, Table, arrow_schema, arrow_table
from kwire.analysis.tables import ERRORS, TABLES

ROWS = 10_000  # of a batch


def _shape(name: str, *columns: str) -> Table:
    """Columns as ``name type``."""
    made = (text.split(" ") for text in columns)
    return Table(name, "", tuple(Column(column, kind, "") for column, kind in made), ())


# What a connection gives beside rows of tables.
NAMES = _shape("names", "id string", "name string")
MARKS = _shape("marks", "ts long", "conn_id string", "broker string", "topic string", "partition int", "offset long")
SAYINGS = _shape("sayings", "ts long", "conn_id string", "broker string", "cluster string", "nodes list<string>")
REFUSED = Table("errors", "", (*ERRORS.columns, Column("conn_id", "string", ""), Column("broker", "string", "")), ())
WAITS = _shape("waits", "bucket_ts long", "api_key int", "api_version int", "broker string", "us long")
PROBLEMS = _shape("problems", "file string", "position long", "reason string")


class Shape:
    """Rows of these kinds. ``told``: columns that all of them have."""

    def __init__(self, kinds: Mapping[str, Table], told: Table) -> None:
        self.kinds = kinds
        self.told = told
        structs = [(kind, pa.struct(list(arrow_schema(table)))) for kind, table in kinds.items()]
        self.arrow = pa.schema([*arrow_schema(told), *structs])

    @property
    def spark(self) -> str:
        """The schema as Spark reads it."""
        common = [f"`{column.name}` {SPARK[column.type]}" for column in self.told.columns]
        structs = [
            f"`{kind}` STRUCT<{', '.join(f'`{column.name}`: {SPARK[column.type]}' for column in table.columns)}>"
            for kind, table in self.kinds.items()
        ]
        return ", ".join([*common, *structs])

    def batches(self, found: Mapping[str, Sequence[Row]], **told: Any) -> Iterator[pa.RecordBatch]:
        """The rows, by kind, as Arrow; ``told``: the same in all of them."""
        for kind, rows in found.items():
            for begin in range(0, len(rows), ROWS):
                yield self._batch(kind, rows[begin : begin + ROWS], told)

    def _batch(self, kind: str, rows: Sequence[Row], told: Mapping[str, Any]) -> pa.RecordBatch:
        size = len(rows)
        common = arrow_table(self.told, [self.told.row(kind=kind, **told)] * size)
        arrays = {name: common.column(name).combine_chunks() for name in common.column_names}
        for other, table in self.kinds.items():
            if other == kind:
                made = arrow_table(table, rows)
                columns = [column.combine_chunks() for column in made.columns]
                arrays[other] = pa.StructArray.from_arrays(columns, fields=list(made.schema))
            else:
                arrays[other] = pa.nulls(size, self.arrow.field(other).type)
        return pa.RecordBatch.from_pydict(arrays, schema=self.arrow)


# What is known once each connection was looked at alone. Rows that are ``provisional`` say how things stood at
# ``turn``, for the connection ``key``: those of its last turn count. Without a stream there are none.
TRAFFIC = Shape(
    {
        **{name: TABLES[name] for name in ("connections", "frames", "clients", "api_usage")},
        "errors": REFUSED,
        "events": TABLES["group_events"],
        "names": NAMES,
        "marks": MARKS,
        "sayings": SAYINGS,
        "waits": WAITS,
        "problems": PROBLEMS,
    },
    _shape("told", "kind string", "key string", "turn long", "provisional bool"),
)
GROUP_TABLES = ("group_events", "rebalances", "members", "assignments", "offset_commits", "violations")
GROUPS = Shape({name: TABLES[name] for name in GROUP_TABLES}, _shape("told", "kind string"))
