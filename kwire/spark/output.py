"""The output folder of the pipeline, with one folder per table.

The folder of a table has one folder per capture, which has one folder per day.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from uuid import uuid4

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from kwire.analysis.tables import EVERY, ON_REQUEST, TABLES
from kwire.capture.files.file_systems import below, file_system
from kwire.lazy_dataclass import dataclass
from kwire.spark import delta, parts
from kwire.spark.hadoop_paths import path_to_read
from kwire.spark.session import session_on

PARQUET = "parquet"
OPTIONS = {"csv": parts.EXACT | {"header": "true", "escape": '"'}, "json": parts.EXACT, "orc": {"compression": "zstd"}}
FLAT = ("csv",)  # formats without lists and maps
WRITERS = 4  # Delta tables that the driver changes at the same time: most of the time goes into waiting for small tasks


class StreamedError(RuntimeError):
    """The error for a job or a format whose tables would replace those of a stream, which could not continue."""


@dataclass(frozen=True, slots=True)
class Output:
    """The folder and the file format of the tables.

    Attributes:
        folder: folder that contains the folders of the tables: a path, or an address such as ``s3://...``.
        form: name of a file format that Spark can write.
        more: names of additional tables to write, such as ``what_if``.
    """

    folder: str
    form: str = "parquet"
    more: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tables to write."""
        return (*TABLES, *self.more)

    def stream_folder(self, capture_id: str) -> str:
        """Return the folder with the state of the stream that writes a capture."""
        return below(self.folder, "_stream", parts.folder_of(capture_id))

    def require_no_stream(self, capture_id: str) -> None:
        """Check that no stream has written the tables of a capture: it adds rows to the files that it has written.

        ``capture_id``: name of the capture. Raises: StreamedError if a stream has written them.
        """
        work = self.stream_folder(capture_id)
        files, inside = file_system(below(work, "summary"))  # written with the first tables
        if files.get_file_info(inside).type.name == "Directory":
            raise StreamedError(
                f"a stream has written the tables of {capture_id}: choose another --capture-id or --output,"
                f" or delete {work} to replace the tables and end the stream"
            )

    @contextmanager
    def staging(self, place: str | None = None) -> Iterator[str]:
        """Create a temporary folder for incomplete tables; delete it at the end of the ``with`` block.

        ``place``: folder that contains the temporary folder; None for the output folder.
        """
        folder = below(place or self.folder, f"_staging-{uuid4().hex}")
        files, inside = file_system(folder)
        files.create_dir(inside, recursive=True)
        try:
            yield folder
        finally:
            files.delete_dir(inside)

    def check(self, spark: SparkSession | SparkContext, place: str | None = None) -> None:
        """Write a table without rows to a temporary folder, in a format other than Parquet.

        So a format that Spark cannot write fails before captures are read.

        Args:
            spark: session or context that writes the table.
            place: folder that contains the temporary folder; None for the output folder.
        """
        if self.form != PARQUET:
            with self.staging(place) as folder:
                session_on(spark).range(0).write.format(self.form).save(below(folder, "check"))

    def put(
        self,
        spark: SparkSession | SparkContext,
        staging: str,
        capture_id: str,
        written: Iterable[str],
        stale: Collection[str] | None = None,
        kept: str | None = None,
        number: int | None = None,
    ) -> None:
        """Replace the files of a capture in the output folder with newly written files.

        Without ``stale``, also delete the capture's files of additional tables that are not in ``more``.

        Args:
            spark: session or context that converts the files if ``form`` is not Parquet.
            staging: folder with the written files.
            capture_id: name of the capture.
            written: paths of the files, relative to ``staging``.
            stale: file marks (texts in file names, such as ``k07``) of the old files to delete, as in ``parts.put``.
                None to delete all old files.
            kept: folder in which the Parquet files stay if ``form`` is not Parquet. All files of this folder are
                converted again, so the folder is required with ``stale``. None for a temporary folder. Not used for
                Delta tables.
            number: number of the micro-batch of a stream; None for a job.
        """
        if self.form == delta.FORMAT:
            self._change_delta_tables(session_on(spark), staging, capture_id, written, stale, number)
        else:
            place = self.folder if self.form == PARQUET else kept or below(staging, "ready")
            parts.put(staging, place, capture_id, written, stale, self.names)
            if self.form != PARQUET:
                self._convert(session_on(spark), place, capture_id)
        if stale is None:
            self._delete_additional_tables(capture_id, ON_REQUEST.keys() - self.more)

    def _change_delta_tables(
        self,
        spark: SparkSession,
        staging: str,
        capture_id: str,
        written: Iterable[str],
        stale: Collection[str] | None,
        number: int | None,
    ) -> None:
        """Do the work of ``put`` for Delta tables, with one transaction for each table."""
        places: dict[str, list[str]] = {name: [] for name in self.names}
        for place in written:
            places[place.partition("/")[0]].append(place)

        def change(name: str) -> None:
            table, path = EVERY[name], below(self.folder, name, parts.folder_of(capture_id))
            if number is None:
                delta.overwrite(delta.read_parquet(spark, staging, table, places[name]), table, path)
                return
            rows = delta.stream_rows(spark, staging, table, places[name], number)
            if stale is None:
                delta.overwrite(rows, table, path)
            else:
                delta.replace(spark, rows, path, number, stale)

        with ThreadPoolExecutor(WRITERS) as writers:
            list(writers.map(change, self.names))

    def _delete_additional_tables(self, capture_id: str, names: Iterable[str]) -> None:
        """Delete the rows of a capture from tables that only an earlier run has written.

        Args:
            capture_id: name of the capture.
            names: names of the tables. A table without a folder for the capture is ignored.
        """
        for name in names:
            files, inside = file_system(below(self.folder, name, parts.folder_of(capture_id)))
            if files.get_file_info(inside).type.name == "Directory":
                files.delete_dir(inside)

    def _convert(self, spark: SparkSession, folder: str, capture_id: str) -> None:
        for name in self.names:
            table = EVERY[name]
            place = path_to_read(below(folder, name, parts.folder_of(capture_id)))
            rows = spark.read.schema(parts.spark_schema(table)).parquet(place)
            if self.form in FLAT:
                nested = {column.name: sql.to_json(column.name) for column in table.columns if "<" in column.type}
                rows = rows.withColumns(nested) if nested else rows
            writer = rows.write.format(self.form).mode("overwrite").options(**OPTIONS.get(self.form, {}))
            by_day = writer.partitionBy(parts.DATE) if parts.day_of(table) else writer
            by_day.save(below(self.folder, name, parts.folder_of(capture_id)))
