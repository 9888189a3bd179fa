"""The batch job: it converts captures to tables, for ``kwire pipeline`` without ``--stream``."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from kwire.capture.files.capture_file import no_traffic
from kwire.capture.files.file_systems import is_address, size_of
from kwire.capture.tls.keylog import KeyLog
from kwire.lazy_dataclass import dataclass
from kwire.spark import connection_slices, first_stage, input_files, one_task, second_stage, source, topic
from kwire.spark.bundles import SLICE
from kwire.spark.capture_summary import CaptureSummary, summary_of
from kwire.spark.folding import SLICE_CALLS
from kwire.spark.following import ConnectionFollower, ReplayFollower
from kwire.spark.output import Output
from kwire.spark.segment_references import wrongly_guessed
from kwire.spark.session import session_on
from kwire.spark.staging_folders import secrets_in, unpacked_in, wrong_in
from kwire.spark.tasks import task_count, task_size
from kwire.spark.topic import PartitionNames
from kwire.topic_address import is_topic

A_TASK = 8 * 1024 * 1024  # bytes of captures per task, for small inputs
SMALL = 20 * 1024 * 1024  # bytes of captures that one task converts, in the time in which Spark starts two stages
EXPANSION = 10  # estimated bytes of content for each byte of a gzip file


@dataclass(frozen=True, slots=True)
class Job:
    """A run of the pipeline that converts captures to tables.

    Args:
        paths: paths of the captures, in the order of ``input_files.files``; or only the address of a topic with
            frames, see ``kwire.spark.topic``.
        output: output folder and format.
        capture_id: value of the column ``capture_id``.
        split_size: bytes of a file per task. None for one task for up to SMALL bytes of captures, and for 8 to 64 MiB
            of larger captures, see ``tasks.task_size``. If the one task finds that the captures are too large for it,
            the job runs again as for larger captures.
        guess: files that several tasks may read, each of which guesses the position of the first packet record in its
            part of the file. None for all files. If a guess is wrong, the whole job runs again, and one task reads this
            file. So the rows do not depend on guesses.
        assignor: name of the assignor with which groups are replayed. The replay adds the tables ``what_if`` and
            ``what_if_assignments``. None for no replay.
        settings: changed thresholds of detectors, by ``detector.threshold``; None for all defaults.
        slice_size: bytes of events that one task processes if a consumer group is so large that several tasks share it.
        slice_calls: number of calls that one task decodes if a connection has more calls than this number. If groups
            are replayed, one task decodes all calls of a connection.
        keylog: TLS secrets, such as a ``KeyLogFile``, besides those of pcapng files; None for none. Spark sends the
            secrets that are known when the job begins to all tasks.
    """

    paths: Sequence[str]
    output: Output
    capture_id: str
    split_size: int | None = None
    guess: Collection[str] | None = None
    assignor: str | None = None
    settings: Mapping[str, float] | None = None
    slice_size: int = SLICE
    slice_calls: int = SLICE_CALLS
    keylog: KeyLog | None = None

    def run(self, spark: SparkSession | SparkContext) -> CaptureSummary:
        """Write the tables to the output folder, and return the summary, which lists the damaged files.

        The files of the same capture from an earlier run are replaced.

        ``spark``: session or context that runs the job. On a context, a job starts a session only for captures that
        are too large for one task, and for other formats than Parquet.

        Raises: ValueError for a job without paths; StreamedError if the output has tables of a stream with the same
        capture id.
        """
        if not self.paths:
            raise ValueError("the job has no captures: paths is empty")
        self.output.require_no_stream(self.capture_id)
        self.output.check(spark)
        if self.split_size is None and not is_topic(self.paths[0]) and is_small(self.paths):
            report = self._in_one_task(spark)
            if report is not None:
                return report
        session = session_on(spark)
        guess = set(self.paths if self.guess is None else self.guess)
        while True:
            with self.output.staging() as staging:
                report, written = self._staged(session, staging, guess)
                wrong = {self.paths[number] for number in wrongly_guessed(wrong_in(staging))}
                if not wrong:
                    self.output.put(session, staging, self.capture_id, written)
                    return report
            guess -= wrong

    def _staged(self, spark: SparkSession, staging: str, guess: Collection[str]) -> tuple[CaptureSummary, list[str]]:
        """Write the tables to the staging folder; return the summary and the paths of the written files.

        The paths are relative to the staging folder. If a task has reported a wrong guess, the list of paths is empty,
        and the tables are incomplete.

        Args:
            spark: session that runs the stages.
            staging: temporary folder for incomplete tables.
            guess: files that several tasks may read, each from a guessed position. One task reads each remaining file.
        """
        folders = unpacked_in(staging), wrong_in(staging), secrets_in(staging)
        ordered = ordered_references(spark, self.paths, self.split_size, *folders, guess)
        paths = PartitionNames(self.paths[0]) if is_topic(self.paths[0]) else list(self.paths)
        slice_calls = self.slice_calls if self.assignor is None else 0
        connections = first_stage.connection_bundles(
            ordered, paths, self.capture_id, staging, self._follow, self.slice_size, slice_calls, self.keylog
        ).persist()
        bundles, persisted = connections, [connections]
        try:
            report = summary_of(bundles)
            if wrongly_guessed(wrong_in(staging)):
                return report, []
            if report.sliced:
                bundles, more = connection_slices.with_slices(
                    connections, report, self.capture_id, staging, self.slice_size
                )
                persisted += more
                report = summary_of(bundles)
            written = report.written + second_stage.write_problems(report, self.capture_id, staging)
            return report, written + second_stage.write_tables(
                bundles,
                report,
                self.capture_id,
                staging,
                assignor=self.assignor,
                settings=self.settings,
                slice_size=self.slice_size,
            )
        finally:
            for one in persisted:
                one.unpersist()

    def _in_one_task(self, spark: SparkSession | SparkContext) -> CaptureSummary | None:
        """Write the tables with one task, and return the summary.

        The result is None, and the output is unchanged, if the captures are too large for one task: only the task knows
        the size of the content of a gzip file, and the number of rows.
        """
        with self.output.staging() as staging:
            folders = {"unpacked": unpacked_in(staging), "secrets": secrets_in(staging)}
            reader = source.CaptureReader(list(self.paths), SMALL, guess=(), packed=True, **folders)
            about = self.capture_id, staging, self._follow, self.assignor, self.settings, self.keylog
            report = one_task.write_small(spark, reader, *about)
            if report is not None:
                written = report.written + second_stage.write_problems(report, self.capture_id, staging)
                self.output.put(spark, staging, self.capture_id, written)
            return report

    @property
    def _follow(self) -> type[ConnectionFollower]:
        return ConnectionFollower if self.assignor is None else ReplayFollower


def is_small(paths: Sequence[str]) -> bool:
    """Return whether one task may convert captures: they have up to SMALL bytes.

    A gzip file counts as EXPANSION times its size. A smaller file than ``source.OPENING`` counts as that many bytes.

    ``paths``: paths of the captures; no file is opened.
    """
    size = 0
    for path in paths:
        size += max(size_of(path) * (EXPANSION if path.endswith(".gz") else 1), source.OPENING)
        if size > SMALL:
            return False
    return True


def ordered_references(
    spark: SparkSession,
    paths: Sequence[str],
    split_size: int | None = None,
    unpacked: str | None = None,
    wrong: str | None = None,
    secrets: str | None = None,
    guess: Collection[str] | None = None,
) -> DataFrame:
    """Return references to the TCP segments of capture files, ordered by connection.

    Args:
        spark: session that runs the query.
        paths: paths of the files, in the order of their file numbers; or only the address of a topic with frames. The
            arguments after ``paths`` are ignored for a topic.
        split_size: bytes of a file per task; None for 8 to 64 MiB, see ``tasks.task_size``.
        unpacked: folder to which gzip files are decompressed; None to put their payload into the rows.
        wrong: folder in which tasks report wrong guesses, see ``CaptureReader``; None to report none.
        secrets: folder in which tasks store the TLS secrets of pcapng files; None to store none.
        guess: files that several tasks read, each from a guessed position of a packet record. One task reads each
            remaining file. None to divide all files at exact positions, for which the driver reads all record headers.
    """
    if is_topic(paths[0]):
        return first_stage.by_connection(topic.references(spark, paths[0]), None)
    size = sum(map(size_of, paths))
    part = split_size or min(task_size(size, A_TASK), source.SPLIT)
    guessed = None if guess is None else sorted(guess)
    reader = source.CaptureReader(list(paths), part, unpacked, guessed, wrong, secrets, packed=True)
    captured = source.scan(spark, reader)
    return first_stage.by_connection(captured, task_count(size, A_TASK))


def read_frames(
    spark: SparkSession,
    inputs: str | Sequence[str],
    *,
    capture_id: str | None = None,
    split_size: int | None = None,
    keylog: KeyLog | None = None,
) -> DataFrame:
    """Return the requests and responses of captures as a DataFrame with the columns of the table ``frames``.

    Args:
        spark: session that runs the query.
        inputs: capture files, folders and glob patterns.
        capture_id: value of the column ``capture_id``; None for the name of the input.
        split_size: bytes of a file per task; None for 8 to 64 MiB, see ``tasks.task_size``.
        keylog: TLS secrets, such as a ``KeyLogFile``; None to decrypt nothing. The secrets in pcapng files are not
            used.

    Raises: OSError for a path that does not exist, and for inputs without capture files.
    """
    paths_or_patterns = [inputs] if isinstance(inputs, str) else inputs
    paths = input_files.files(paths_or_patterns)
    if not paths:
        raise FileNotFoundError(no_traffic(paths_or_patterns, paths))
    ordered = ordered_references(spark, paths, split_size)
    known = None if keylog is None else keylog.copy()
    return first_stage.frames(ordered, paths, capture_id or name_of(paths_or_patterns), known)


def name_of(inputs: Sequence[str]) -> str:
    """Return the default capture id: the name of the input file, or of the folder that contains all inputs.

    ``inputs``: paths, glob patterns or addresses. A part of a path with a wildcard is never the name, unless a file or
    folder has this name. Without a name, the result is ``capture``.
    """
    common = os.path.commonpath(
        [
            f"/{path.partition('://')[2].partition('?')[0]}" if is_address(path) else os.path.abspath(path)
            for path in inputs
        ]
    )
    while re.search(r"[*?\[]", common) and not os.path.exists(common):
        common = os.path.dirname(common)
    return os.path.basename(common) or "capture"
