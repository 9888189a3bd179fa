"""Tables to a folder of Parquet files and back: a folder for each table, as the Spark pipeline writes them too."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from kwire.analysis.columns import Row, Tables, arrow_schema, arrow_table, rows_of
from kwire.analysis.tables import EVERY, TABLES

# Columns that tables of older versions do not have: null in them.
NEWER = {"cluster", "life", "node_id", "response_file", "response_position"}
_PLAIN = re.compile("[^A-Za-z0-9._-]+")


def write(folder: Path, capture_id: str, found: Tables) -> None:
    """Write every table; the files of the same capture are replaced."""
    import pyarrow.parquet as pq

    # Readers skip files whose name begins with a dot or an underscore.
    name = _PLAIN.sub("_", capture_id).lstrip("._") or "capture"
    for table, rows in found.items():
        (folder / table).mkdir(parents=True, exist_ok=True)
        arrow = arrow_table(EVERY[table], rows)
        pq.write_table(arrow, folder / table / f"{name}.parquet", compression="zstd")


def read(folder: Path, names: Collection[str] = tuple(TABLES)) -> dict[str, list[Row]]:
    """The tables of a folder; one that is not there is empty. Raises: OSError, ValueError for what is not a table."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    found: dict[str, list[Row]] = {}
    for name in names:
        table = EVERY[name]
        path = folder / name
        if not path.is_dir():
            found[name] = []
            continue
        try:
            folders = ds.partitioning(pa.schema([("capture_id", pa.string())]), flavor="hive")  # 007 is no number
            dataset = ds.dataset(path, format="parquet", partitioning=folders)
            if not dataset.files:
                found[name] = []
                continue
            older = NEWER - {*dataset.schema.names}
            there = dataset.to_table(columns=[column.name for column in table.columns if column.name not in older])
            for place, column in enumerate(table.columns):
                if column.name in older:
                    there = there.add_column(place, column.name, pa.nulls(len(there)))
            rows = rows_of(there.cast(arrow_schema(table)))
        except (pa.ArrowException, KeyError) as error:
            raise ValueError(f"{path}: not the table {name}: {error}") from error
        found[name] = table.sorted(rows)
    return found
