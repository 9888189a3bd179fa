"""Captures into tables, once: what ``kwire pipeline`` does without ``--stream``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from kwire.capture.files.file_systems import is_address, size_of
from kwire.capture.files.splits import NOT_PROVEN
from kwire.spark import source, stages
from kwire.spark.following import Following, Witness
from kwire.spark.output import Output
from kwire.spark.stages import DriverNotes

A_TASK = 2 * 1024 * 1024  # bytes of captures that a task follows connections of, if there are not many more
TASKS = 4  # of a core at most, for connections differ in size


@dataclass(frozen=True, slots=True)
class Job:
    """``paths``: as ``source.files`` gives them; ``split_size``: bytes of a file that a task reads, by default 64 MiB
    or less, so that there is work for all cores.

    ``guess``: the files whose parts are guessed, and found exactly if that proves wrong; by default all. None of the
    rows depend on it. ``assignor``: through which groups are replayed, into the tables that the output has on request.
    """

    paths: Sequence[str]
    output: Output
    capture_id: str
    split_size: int | None = None
    guess: Collection[str] | None = None
    assignor: str | None = None

    def run(self, spark: SparkSession) -> DriverNotes:
        """Write the tables. What is wrong with the files is among what was told."""
        guess = set(self.paths if self.guess is None else self.guess)
        while True:
            with self.output.staging() as staging:
                told, written = self._staged(spark, staging, guess)
                wrong = {problem.file for problem in told.damage if problem.reason == NOT_PROVEN}
                if not wrong:
                    self.output.put(spark, staging, self.capture_id, written)
                    return told
            guess -= wrong

    def _staged(self, spark: SparkSession, staging: str, guess: Collection[str]) -> tuple[DriverNotes, list[str]]:
        """Write the tables there; return the notes for the driver, and the files."""
        follow = Following if self.assignor is None else Witness
        ordered = ordered_references(spark, self.paths, self.split_size, stages.unpacked_in(staging), guess)
        found = stages.said(ordered, self.paths, self.capture_id, staging, follow).persist()
        try:
            told = stages.notes_of(found)
            if any(problem.reason == NOT_PROVEN for problem in told.damage):
                return told, []
            written = told.written + stages.remarked(told, self.capture_id, staging)
            most = TASKS * _cores(spark)
            return told, written + stages.written(found, told, self.capture_id, staging, most, assignor=self.assignor)
        finally:
            found.unpersist()


def ordered_references(
    spark: SparkSession,
    paths: Sequence[str],
    split_size: int | None = None,
    unpacked: str | None = None,
    guess: Collection[str] = (),
) -> DataFrame:
    """References to the segments in these files, by connection. ``unpacked``, ``guess``: of ``CaptureSource``."""
    source.register(spark)
    cores, size = _cores(spark), sum(map(size_of, paths))
    part = split_size or min(max(size // (TASKS * cores), source.LEAST_SPLIT), source.SPLIT)
    options: dict[str, str | int] = {"files": json.dumps(paths), "splitSize": part, "guess": json.dumps(sorted(guess))}
    if unpacked is not None:
        options["unpacked"] = unpacked
    tasks = max(1, min(size // A_TASK + 1, TASKS * cores))
    return stages.by_connection(spark.read.format(source.FORMAT).options(**options).load(), tasks)


def _cores(spark: SparkSession) -> int:
    return spark.sparkContext.defaultParallelism


def read_frames(
    spark: SparkSession, inputs: str | Sequence[str], *, capture_id: str | None = None, split_size: int | None = None
) -> DataFrame:
    """The table ``frames`` of captures: files, folders and patterns. Raises: OSError for a path that is not there."""
    given = [inputs] if isinstance(inputs, str) else inputs
    paths = source.files(given)
    return stages.frames(ordered_references(spark, paths, split_size), paths, capture_id or name_of(given))


def name_of(inputs: Sequence[str]) -> str:
    """What a capture is called that nobody gave a name: as its file or folder is."""
    plain = [path.partition("://")[2].partition("?")[0] if is_address(path) else path for path in inputs]
    common = os.path.commonpath([os.path.abspath(path) for path in plain])
    while re.search(r"[*?\[]", common):
        common = os.path.dirname(common)
    return os.path.basename(common) or "capture"
