"""Tables as Parquet files: one folder per table, in the layout of the Spark pipeline."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from kwire.analysis.columns import Row, Tables, arrow_schema, arrow_table, rows_of
from kwire.analysis.tables import EVERY, TABLES

# Columns that are missing in tables of older releases; they are read as null.
NEWER = {"cluster", "life", "node_id", "response_file", "response_position"}
LONGEST_NAME = 200  # characters of a file name, of the 255 that file systems allow


def write(folder: Path, capture_id: str, tables: Tables) -> None:
    """Write each table to a subfolder of a folder, as one Parquet file.

    A file of an earlier capture with a different id is kept. A file of the same capture is replaced.

    Args:
        folder: the output folder.
        capture_id: id of the capture.
        tables: rows by table name.
    """
    import pyarrow.parquet as pq

    name = file_name(capture_id)
    for table, rows in tables.items():
        (folder / table).mkdir(parents=True, exist_ok=True)
        arrow = arrow_table(EVERY[table], rows)
        pq.write_table(arrow, folder / table / name, compression="zstd")


def file_name(capture_id: str) -> str:
    """Return the name of the files of a capture. Different ids have different names, in ASCII.

    Readers skip files whose name begins with a dot or an underscore, so these are escaped, too. The name of a long id
    contains a hash of the id.
    """
    name = quote(capture_id, safe="", errors="surrogatepass") or "%"
    if name[0] in "._":
        name = f"%{ord(name[0]):02X}{name[1:]}"
    if len(name) > LONGEST_NAME:
        name = f"{name[: LONGEST_NAME - 65]}-{sha256(name.encode()).hexdigest()}"
    return f"{name}.parquet"


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
