"""The Parquet files that tasks write, one for each table, day and cluster. ``put`` moves them to the output folder.

Tasks write Parquet themselves instead of passing rows to Spark, because most of a job's data is rows of ``frames``. A
file has the rows of one cluster, so a query with a filter on ``cluster`` skips the files of other clusters.
This module does not depend on Spark.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import field
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from kwire.analysis.columns import SPARK, Row, Table, arrow_schema, arrow_table
from kwire.analysis.tables import EVERY, TABLES
from kwire.capture.files.file_systems import file_system
from kwire.lazy_dataclass import dataclass

CAPTURE, DATE, CLUSTER = "capture_id", "date", "cluster"
EXACT = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}  # for text formats: Spark's default drops microseconds
DAY = 86_400_000_000  # microseconds
UNKNOWN_DAY = "__HIVE_DEFAULT_PARTITION__"  # name used by Spark and Hive
NO_DAY, NONE = "1970-01-01", "none"  # folder and mark of the file of an empty table
GROUP_ROWS, GROUP_BYTES = 50_000, 16 * 1024 * 1024  # size of a row group; a part is buffered up to this
OPEN_PARTS = 64  # open files per task
_SPECIAL = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")  # characters escaped in folder names with a value


def day_of(table: Table) -> str | None:
    """Return the name of a table's first column with a time, or None for a table without times.

    The time in this column selects the day folder of a row.
    """
    return next((column.name for column in table.columns if column.type == "timestamp"), None)


def has_cluster(table: Table) -> bool:
    """Return whether a table has the column ``cluster``."""
    return any(column.name == CLUSTER for column in table.columns)


def schema_of(table: Table) -> Any:
    """Return the Arrow schema of the files of a table.

    The schema does not have the column ``capture_id``: the value of this column is in the folder name.
    """
    schema = arrow_schema(table)
    return schema.remove(schema.get_field_index(CAPTURE))


def spark_schema(table: Table) -> str:
    """Return the Spark schema of the files of a table, with the date of their folder."""
    columns = [f"`{column.name}` {SPARK[column.type]}" for column in table.columns if column.name != CAPTURE]
    return ", ".join([*columns, *([f"`{DATE}` DATE"] if day_of(table) else [])])


def folder_of(capture_id: str) -> str:
    """Return the folder name of a capture.

    The name has the form ``capture_id=...``, which Spark and Hive use for partition folders.
    """
    return f"{CAPTURE}={_SPECIAL.sub(lambda special: f'%{ord(special[0]):02X}', capture_id)}"


@dataclass(slots=True)
class _Part:
    """A Parquet file that is being written.

    Attributes:
        writer: writer of the file.
        buffered: Arrow tables whose rows are not written yet. ``flush`` writes them as one row group.
        rows: number of buffered rows.
        size: bytes of the buffered tables.
    """

    writer: Any
    buffered: list[Any] = field(default_factory=list)
    rows: int = 0
    size: int = 0

    def add(self, table: Any) -> None:
        self.buffered.append(table)
        self.rows += table.num_rows
        self.size += table.nbytes
        if self.rows >= GROUP_ROWS or self.size >= GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if self.buffered:
            self.writer.write_table(pa.concat_tables(self.buffered))
        self.buffered, self.rows, self.size = [], 0, 0

    def close(self) -> None:
        self.flush()
        self.writer.close()


class Parts:
    """A writer of the Parquet files of one task: one or more files for each table, day and cluster.

    Args:
        folder: folder of the files: a path, or an address such as ``s3://...``.

    Attributes:
        written: paths of the files so far, relative to the folder.
    """

    def __init__(self, folder: str) -> None:
        self.files, self.folder = file_system(folder)
        self.written: list[str] = []  # paths relative to the folder
        self._open: dict[tuple[str, str | None, str | None, str], _Part] = {}

    def add(self, name: str, rows: Iterable[Row], mark: str = "") -> None:
        """Add rows to the files of a table.

        Args:
            name: name of the table.
            rows: rows with values for the columns of the table.
            mark: text in the names of the files. When ``put`` replaces old files, it finds them by this text.
        """
        table = EVERY[name]
        for (day, cluster), some in _by_day_and_cluster(table, rows).items():
            self._part(name, day, cluster, mark).add(arrow_table(table, some).drop_columns([CAPTURE]))

    def close(self) -> list[str]:
        """Write the buffered rows and close all files. Return the paths of all files, relative to the folder."""
        while self._open:
            self._open.popitem()[1].close()
        return self.written

    def _part(self, name: str, day: str | None, cluster: str | None, mark: str) -> _Part:
        key = name, day, cluster, mark
        if key not in self._open:
            if len(self._open) >= OPEN_PARTS:
                self._open.pop(next(iter(self._open))).close()
            place = posixpath.join(name, f"{DATE}={day}" if day else "", f"part-{mark}-{uuid4().hex}.parquet")
            path = posixpath.join(self.folder, place)
            self.files.create_dir(posixpath.dirname(path), recursive=True)
            writer = pq.ParquetWriter(path, schema_of(EVERY[name]), filesystem=self.files, compression="zstd")
            self._open[key] = _Part(writer)
            self.written.append(place)
        return self._open[key]


def _by_day_and_cluster(table: Table, rows: Iterable[Row]) -> dict[tuple[str | None, str | None], list[Row]]:
    """Divide the rows of a table by the name of their day and by their cluster.

    The day is None in a table without times. The cluster is None if it is unknown, or the table does not have it.
    """
    column, by_cluster = day_of(table), has_cluster(table)
    divided: dict[tuple[int | None, str | None], list[Row]] = defaultdict(list)
    for row in rows:
        moment = None if column is None else row[column]
        divided[None if moment is None else moment // DAY, row[CLUSTER] if by_cluster else None].append(row)
    return {(None if column is None else _name_of(day), cluster): some for (day, cluster), some in divided.items()}


def _name_of(day: int | None) -> str:
    return UNKNOWN_DAY if day is None else str(np.datetime64(day, "D"))


def put(
    staging: str,
    folder: str,
    capture_id: str,
    written: Iterable[str],
    stale: Collection[str] | None = None,
    names: Iterable[str] = tuple(TABLES),
) -> None:
    """Move written files to the output folder, and delete the old files of the capture.

    Args:
        staging: folder with the written files.
        folder: output folder.
        capture_id: name of the capture.
        written: paths of the files, relative to ``staging``.
        stale: file marks (texts in file names, such as ``k07``) of the old files to delete. Files without rows are
            deleted, too, and so are files with marks such as ``s07.000012`` if ``s07`` is one of them. None to delete
            all old files.
        names: names of the tables. A table that has no file afterwards gets a file with columns and no rows.
    """
    files, begin = file_system(staging)
    _, target = file_system(folder)
    by_table: dict[str, list[str]] = {name: [] for name in names}
    for place in written:
        by_table[place.partition("/")[0]].append(place)
    for name, places in by_table.items():
        here = posixpath.join(target, name, folder_of(capture_id))
        files.create_dir(here, recursive=True)
        remaining = _delete_stale(files, here, stale)
        if not places and not remaining:
            places.append(_no_rows(files, begin, EVERY[name]))
        for place in places:
            destination = posixpath.join(here, place.partition("/")[2])
            files.create_dir(posixpath.dirname(destination), recursive=True)
            files.move(posixpath.join(begin, place), destination)


def _delete_stale(files: Any, folder: str, stale: Collection[str] | None) -> int:
    """Delete files of a capture in one table; return the number of the remaining files.

    Args:
        files: file system that contains ``folder``.
        folder: folder of the capture in a table.
        stale: file marks, which are texts in file names. Files with one of these marks, and files without rows, are
            deleted; so are files with marks such as ``s07.000012`` if ``s07`` is one of them. None to delete all files.
    """
    if stale is None:
        files.delete_dir_contents(folder)
        return 0
    remaining = 0
    for info in files.get_file_info(fs.FileSelector(folder, recursive=True)):
        mark = next(iter(info.base_name.split("-")[1:2]), None)
        is_old = mark is not None and (mark == NONE or mark in stale or mark.partition(".")[0] in stale)
        if info.type == fs.FileType.File and is_old:
            files.delete_file(info.path)
        else:
            remaining += info.type == fs.FileType.File
    return remaining


def _no_rows(files: Any, begin: str, table: Table) -> str:
    """Write a file with columns but no rows, so that an empty table still has its columns.

    Args:
        files: file system of the staging folder.
        begin: path of the staging folder in the file system.
        table: table whose columns the file has.

    Returns: the path of the file, relative to the staging folder.
    """
    place = posixpath.join(table.name, f"{DATE}={NO_DAY}" if day_of(table) else "", f"part-{NONE}-.parquet")
    path = posixpath.join(begin, place)
    files.create_dir(posixpath.dirname(path), recursive=True)
    pq.write_table(schema_of(table).empty_table(), path, filesystem=files, compression="zstd")
    return place
