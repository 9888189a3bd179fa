"""References to the TCP segments of captures, as rows for Spark."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import fs
from pyspark.sql.datasource import InputPartition

from kwire.capture.files.blocks import Problem, Skipped, Split
from kwire.capture.files.capture_file import CaptureFile
from kwire.capture.files.file_systems import below, file_system
from kwire.capture.files.framelog import LoggedFrame
from kwire.capture.files.splits import NOT_PROVEN
from kwire.capture.tcp.packets import read_segments, splits
from kwire.capture.tcp.segments import Segments, pack_key
from kwire.capture.tls.keylog import KeyLog
from kwire.lazy_dataclass import dataclass
from kwire.spark import packing
from kwire.spark.following import Spool, log_key
from kwire.spark.tls_secrets import store

REFERENCES = pa.schema(
    [
        ("connection", pa.binary()),  # both endpoints, the lower first; empty in rows about the file
        ("path", pa.string()),
        ("file", pa.int32()),  # number of the file, in reading order
        ("position", pa.int64()),  # of the packet's record in the file
        (
            "number",
            pa.int32(),
        ),  # number of the segment in the part; number of packets where ``skipped`` is not null
        ("upward", pa.bool_()),  # sent by the lower endpoint
        ("time_us", pa.int64()),
        ("start", pa.int64()),  # of the payload in the file
        ("captured", pa.int32()),  # captured bytes of the payload
        ("size", pa.int32()),  # bytes of the payload that were sent
        ("seq", pa.int64()),
        ("ack", pa.int64()),
        ("flags", pa.int16()),
        ("payload", pa.binary()),  # null where ``start`` has its position
        ("problem", pa.string()),  # damage of the file
        ("skipped", pa.string()),  # why packets were skipped
    ]
)
PACKED = REFERENCES.append(packing.FIELD)  # columns with packed segments
SPARK_TYPES = {
    pa.binary(): "BINARY",
    pa.bool_(): "BOOLEAN",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.string(): "STRING",
}
ORDER = ("file", "position", "number")  # order of the segments of a connection


@dataclass
class Part(InputPartition):
    """A part of a capture file that one task reads.

    Attributes:
        file: number of the file, in reading order.
        split: byte range of the part.
        unpacked: folder for decompressed content; None to put the content of a gzip file into the rows.
        guess: True if the start of the part is guessed.
        then: next part of the file, whose start is guessed: the task verifies that this part ends there. None if there
            is no next part, or its start is exact.
        carried: True if rows contain the payload instead of its position, as for remote files.
    """

    file: int
    split: Split
    unpacked: str | None = None
    guess: bool = False
    then: Split | None = None
    carried: bool = False


def parts(path: str, size: int) -> list[Split]:
    """Divide a capture file into parts of about ``size`` bytes, which begin at exact positions of packet records.

    Small files, gzip files and frame logs are one part. The function reads all record headers of a larger file.
    """
    file = CaptureFile(path, block=65_536)
    if file.is_log:
        return [whole_file(path)]
    if file.size > size and not file.is_packed:
        return splits(path, size)
    return [block.whole for block in itertools.islice(file.blocks(), 1)] or [whole_file(path)]


def whole_file(path: str) -> Split:
    """Return one part with all bytes of a file that is a frame log, or that is not a capture."""
    return Split(path, 0, None, "", (), pcapng=False)


def references(
    part: Part, wrong: str | None = None, secrets: str | None = None, *, packed: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield Arrow batches with the columns REFERENCES: references to the TCP segments in a part of a file.

    Damage and skipped packets are batches of one row. For a frame log, the batches contain the frames themselves.

    Args:
        part: part of a capture file, or a whole frame log.
        wrong: folder in which a wrong guess of the start of a part is reported: by an empty file whose name is the file
            number. None for no report.
        secrets: folder in which the TLS secrets of a pcapng file are stored. None to store none.
        packed: True for the columns PACKED. Rows with payload are not packed.
    """
    if packed:
        for batch in _references(part, wrong, secrets, packed=True):
            yield batch if len(batch.schema) == len(PACKED) else _widened(batch)
    else:
        yield from _references(part, wrong, secrets, packed=False)


def _widened(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*batch.columns, pa.nulls(len(batch), packing.FIELD.type)], schema=PACKED)


def _references(part: Part, wrong: str | None, secrets: str | None, *, packed: bool) -> Iterator[pa.RecordBatch]:
    if not part.split.order:
        yield from _frames_of_log(part)
        return
    number = 0
    is_spooled = part.split.packed and part.unpacked and not part.carried
    spool = Spool(part.unpacked, part.split.path) if is_spooled and part.unpacked else None
    keylog = KeyLog()
    for segments in read_segments(part.split, guess=part.guess, then=part.then, keylog=keylog):
        if spool and isinstance(segments, Segments):
            spool.add(segments.data, segments.base)
        if wrong and isinstance(segments, Problem) and segments.reason == NOT_PROVEN:
            _write_empty(wrong, str(part.file))
        if not isinstance(segments, Segments):
            yield remark_row(part.file, segments)
        elif len(segments):
            if packed and not segments.spare and not _carries_payload(part):
                yield packing.pack(segments, PACKED, part.file, part.split.path, number)
            else:
                yield _batch(part, segments, number)
            number += len(segments)
    if spool:
        spool.close()
    if secrets and len(keylog):
        store(keylog, secrets)


def _write_empty(folder: str, name: str) -> None:
    files, inside = file_system(below(folder, name))
    files.create_dir(inside.rpartition("/")[0], recursive=True)
    files.open_output_stream(inside).close()


def wrongly_guessed(folder: str) -> list[int]:
    """Return the numbers of the files for which tasks have reported a wrong guess, in ascending order.

    ``folder``: the option ``wrong`` of the data source. If the folder does not exist, the list is empty.
    """
    files, inside = file_system(folder)
    found = files.get_file_info(fs.FileSelector(inside, allow_not_found=True))
    return sorted(int(info.base_name) for info in found)


def _carries_payload(part: Part) -> bool:
    return part.carried or (part.split.packed and not part.unpacked)


def _batch(part: Part, segments: Segments, number: int) -> pa.RecordBatch:
    count = len(segments)
    keys = pa.array([pack_key(key) for key in segments.keys], pa.binary())
    if _carries_payload(part):
        payload = pa.array([segments.payload(n) for n in range(count)], pa.binary())
    elif segments.spare:
        payload = pa.array([segments.spare.get(start) for start in segments.start.tolist()], pa.binary())
    else:
        payload = pa.nulls(count, pa.binary())
    columns = [
        keys.take(pa.array(segments.flow)),
        pa.array([part.split.path]).take(pa.array(np.zeros(count, np.int8))),
        pa.array(np.full(count, part.file, np.int32)),
        pa.array(segments.position),
        pa.array(np.arange(number, number + count, dtype=np.int32)),
        pa.array(segments.upward),
        pa.array(segments.time_us),
        pa.array(segments.start),
        pa.array(segments.captured.astype(np.int32)),
        pa.array(segments.size.astype(np.int32)),
        pa.array(segments.seq.astype(np.int64)),
        pa.array(segments.ack.astype(np.int64)),
        pa.array(segments.flags.astype(np.int16)),
        payload,
        pa.nulls(count, pa.string()),
        pa.nulls(count, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=REFERENCES)


def logged_row(frame: LoggedFrame, path: str, file: int, number: int) -> dict[str, Any]:
    """Return the row of a frame in a frame log or a topic, including its bytes.

    Args:
        frame: the frame.
        path: path of the file, or address of the partition.
        file: number of the file in the list of paths, or of the partition.
        number: number of the row in its task, which orders rows at one position.
    """
    return {
        "connection": log_key(frame.connection, frame.client, frame.broker),
        "path": path,
        "file": file,
        "position": frame.position,
        "number": number,
        "upward": frame.to_broker,
        "time_us": frame.time_us,
        "start": frame.position,
        "captured": len(frame.frame),
        "size": len(frame.frame),
        "seq": 0,
        "ack": 0,
        "flags": 0,
        "payload": frame.frame,
        "problem": None,
        "skipped": None,
    }


def _frames_of_log(part: Part) -> Iterator[pa.RecordBatch]:
    """Yield the frames of a frame log, including their bytes.

    For a file that is not a capture, yield one row with the problem.
    """
    file = CaptureFile(part.split.path)
    frames = file.frames() if file.is_log else iter(())
    number = itertools.count()
    while some := list(itertools.islice(frames, 1_000)):
        rows = [logged_row(frame, part.split.path, part.file, next(number)) for frame in some]
        yield pa.RecordBatch.from_pylist(rows, schema=REFERENCES)
    if not file.is_log:
        for _ in file.blocks():
            pass
    for problem in file.problems:
        yield remark_row(part.file, problem)


def remark_row(file: int, remark: Problem | Skipped) -> pa.RecordBatch:
    """Return a batch with one row, which reports a damaged position of a file or the number of skipped packets."""
    row: dict[str, Any] = dict.fromkeys(REFERENCES.names)
    row |= {"connection": b"", "path": remark.file, "file": file, "position": 0, "number": 0}
    if isinstance(remark, Skipped):
        row |= {"number": remark.packets, "skipped": remark.reason}
    else:
        row |= {"position": remark.position, "time_us": remark.time_us, "problem": remark.reason}
    return pa.RecordBatch.from_pylist([row], schema=REFERENCES)
