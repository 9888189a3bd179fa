"""Tables on disk: a folder each, in it one for each capture, in that one for each day."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from kwire.analysis.columns import Table
from kwire.analysis.tables import TABLES

DATE, CAPTURE = "date", "capture_id"
OPTIONS = {"parquet": {"compression": "zstd"}, "orc": {"compression": "zstd"}}
AT_ONCE = 4  # tables that are written side by side
NO_DAY = "1970-01-01"  # the folder of a table without rows


@dataclass(frozen=True, slots=True)
class Output:
    """``folder``: of all tables; ``form``: any format that Spark writes to a path."""

    folder: str
    form: str = "parquet"

    def path(self, table: str, capture_id: str) -> str:
        """Where the rows of one capture are."""
        return f"{self.folder}/{table}/{CAPTURE}={capture_id}"

    def write(self, found: Mapping[str, DataFrame], capture_id: str, empty: Collection[str]) -> None:
        """Put tables there, in place of what an earlier run left of this capture. ``empty``: those without rows."""
        with ThreadPoolExecutor(AT_ONCE) as pool:  # most are small: what they wait for is Spark
            writes = [
                pool.submit(self._write, TABLES[name], rows.drop(CAPTURE), self.path(name, capture_id), name in empty)
                for name, rows in found.items()
            ]
            for write in writes:
                write.result()

    def _write(self, table: Table, rows: DataFrame, path: str, empty: bool) -> None:
        day = day_of(table)
        if day is not None and not empty:
            writer = rows.withColumn(DATE, sql.to_date(day)).write.partitionBy(DATE)
        elif day is not None:  # by day Spark would leave no file, and no reader would find the columns
            writer, path = rows.write, f"{path}/{DATE}={NO_DAY}"
        else:
            writer = rows.write
        writer.format(self.form).mode("overwrite").options(**OPTIONS.get(self.form, {})).save(path)


def day_of(table: Table) -> str | None:
    """The column that says the day of a row; None for a table without one."""
    return next((column.name for column in table.columns if column.type == "timestamp"), None)
