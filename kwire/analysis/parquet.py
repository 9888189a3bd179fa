"""Tables as Parquet files: one folder per table, in the layout of the Spark pipeline."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from kwire.analysis.columns import Row, Tables, arrow_schema, arrow_table, rows_of
from kwire.analysis.tables import EVERY, TABLES

# Columns that are missing in tables of older releases; they are read as null.
NEWER = {"cluster", "life", "node_id", "response_file", "response_position"}
_PLAIN = re.compile("[^A-Za-z0-9._-]+")


def write(folder: Path, capture_id: str, tables: Tables) -> None:
    """Write each table to a subfolder of a folder, as one Parquet file.

    A file of an earlier capture with a different id is kept. A file of the same capture is replaced.

    Args:
        folder: the output folder.
        capture_id: id of the capture.
        tables: rows by table name.
    """
    import pyarrow.parquet as pq

    # Readers skip files whose name begins with a dot or an underscore.
    name = _PLAIN.sub("_", capture_id).lstrip("._") or "capture"
    for table, rows in tables.items():
        (folder / table).mkdir(parents=True, exist_ok=True)
        arrow = arrow_table(EVERY[table], rows)
        pq.write_table(arrow, folder / table / f"{name}.parquet", compression="zstd")


def read(folder: Path, names: Collection[str] = tuple(TABLES)) -> dict[str, list[Row]]:
    """Return the rows of the tables in a folder, by table name; tables without files are empty.

    Args:
        folder: the folder.
        names: names of the tables to read.

    Raises: OSError; ValueError if a file does not contain the table.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    tables: dict[str, list[Row]] = {}
    for name in names:
        table = EVERY[name]
        path = folder / name
        if not path.is_dir():
            tables[name] = []
            continue
        try:
            folders = ds.partitioning(
                pa.schema([("capture_id", pa.string())]), flavor="hive"
            )  # as strings: capture id 007 stays 007
            dataset = ds.dataset(path, format="parquet", partitioning=folders)
            if not dataset.files:
                tables[name] = []
                continue
            older = NEWER - {*dataset.schema.names}
            stored = dataset.to_table(columns=[column.name for column in table.columns if column.name not in older])
            for place, column in enumerate(table.columns):
                if column.name in older:
                    stored = stored.add_column(place, column.name, pa.nulls(len(stored)))
            rows = rows_of(stored.cast(arrow_schema(table)))
        except (pa.ArrowException, KeyError) as error:
            raise ValueError(f"{path} is not a valid table {name}: {error}") from error
        tables[name] = table.sorted(rows)
    return tables
