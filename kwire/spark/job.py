"""Captures into tables, once: what ``kwire pipeline`` does without ``--stream``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from kwire.spark import source, stages
from kwire.spark.output import Output

A_TASK = 4 * 1024 * 1024  # bytes of captures that a task follows connections of, if there are not many more
TASKS = 4  # of a core at most, for connections differ in size


@dataclass(frozen=True, slots=True)
class Job:
    """``paths``: as ``source.files`` gives them; ``split_size``: bytes of a file that a task reads."""

    paths: Sequence[str]
    output: Output
    capture_id: str
    split_size: int = source.SPLIT

    def run(self, spark: SparkSession) -> list[str]:
        """Write the tables; what is wrong with the files, a line each."""
        found = traffic(spark, self.paths, self.capture_id, self.split_size)
        made = stages.tables(found, self.capture_id)
        self.output.write(made.rows, self.capture_id, made.empty)
        spark.catalog.clearCache()
        return made.problems


def traffic(spark: SparkSession, paths: Sequence[str], capture_id: str, split_size: int) -> DataFrame:
    """What each connection in these files says, in the shape TRAFFIC."""
    source.register(spark)
    reader = spark.read.format(source.FORMAT).option("paths", json.dumps(paths))
    size = sum(os.path.getsize(path) for path in paths)
    tasks = max(1, min(size // A_TASK + 1, TASKS * spark.sparkContext.defaultParallelism))
    return stages.traffic(reader.option("splitSize", split_size).load(), paths, capture_id, tasks)


def read_frames(
    spark: SparkSession, inputs: str | Sequence[str], *, capture_id: str | None = None, split_size: int = source.SPLIT
) -> DataFrame:
    """The table ``frames`` of captures: files, folders and patterns. Raises: OSError for a path that is not there."""
    given = [inputs] if isinstance(inputs, str) else inputs
    return stages.kind(traffic(spark, source.files(given), capture_id or name_of(given), split_size), "frames")


def name_of(inputs: Sequence[str]) -> str:
    """What a capture is called that nobody gave a name: as its file or folder is."""
    common = os.path.commonpath([os.path.abspath(path) for path in inputs])
    while re.search(r"[*?\[]", common):
        common = os.path.dirname(common)
    return os.path.basename(common) or "capture"
