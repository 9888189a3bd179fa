"""The record batches of a recording in a topic."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence

from kwire.lazy_dataclass import dataclass
from kwire.recording.frame_records import ConnectionRecords
from kwire.records import Record, build_batch
from kwire.records.batch import COVERED, HEADER, header, read_batch
from mockbroker.recording.recorder import Opened
from mockbroker.recording.topic_recorder import Frames, TopicEvent

FULL = 512 * 1024  # bytes of records from which a batch gets no further frames
LARGEST = 1_000_000  # bytes that a batch with several frames may have; a topic usually permits 1,048,588
SMALL = 4 * 1024  # bytes; smaller buffers are joined
US_OF_MS = 1_000


@dataclass(slots=True)
class RecordBatch:
    """Records for a partition, whose header is not encoded yet.

    Attributes:
        partition: partition number.
        base_timestamp: timestamp of the first record, in milliseconds since 1970.
        max_timestamp: highest timestamp.
        count: number of records.
        size: number of bytes of the records.
        records: the encoded records, in one or more buffers. A record may begin or end anywhere in a buffer.
    """

    partition: int
    base_timestamp: int
    max_timestamp: int
    count: int
    size: int
    records: list[bytes]

    def encoded(self, producer_id: int, epoch: int, sequence: int) -> list[bytes]:
        """Return the batch in one or more buffers.

        Args:
            producer_id: producer id.
            epoch: producer epoch.
            sequence: sequence number of the first record.
        """
        covered = COVERED.pack(
            0, self.count - 1, self.base_timestamp, self.max_timestamp, producer_id, epoch, sequence, self.count
        )
        self.records = joined(self.records)
        return [header(covered, self.records), *self.records]

    def halves(self) -> list[RecordBatch]:
        """Return the records in two batches. There must be at least two records."""
        records = list(read_batch(b"".join(self.encoded(-1, -1, -1))).records())
        middle = len(records) // 2
        return [_rebuilt(self.partition, half) for half in (records[:middle], records[middle:])]


class TopicBatches:
    """The conversion of recorded frames to record batches. All frames of a connection get into one partition, in order.

    Args:
        run: text that distinguishes this recording from all other recordings in the topic.
        partitions: number of partitions of the topic.
    """

    def __init__(self, run: str, partitions: int) -> None:
        self._run = run
        self._partitions = partitions
        self._connections: dict[int, tuple[ConnectionRecords, int]] = {}  # with the partition

    def batches(self, events: Iterable[TopicEvent]) -> Iterator[RecordBatch]:
        """Return the batches of some frames. The order of the batches of a partition is that of the frames.

        ``events``: what was recorded after the events of the previous call.
        """
        growing: dict[int, RecordBatch] = {}
        for event in events:
            match event:
                case Opened():
                    self._open(event)
                case Frames():
                    records, partition = self._connections[event.connection]
                    batch = growing.get(partition)
                    if batch is not None and batch.size + sum(map(len, event.data)) > LARGEST:
                        yield growing.pop(partition)
                        batch = None
                    if batch is None:
                        time_ms = event.time_us // US_OF_MS
                        batch = growing[partition] = RecordBatch(partition, time_ms, time_ms, 0, 0, [])
                    _add(batch, records, event)
                    if batch.size >= FULL:
                        yield growing.pop(partition)
                case _:
                    self._connections.pop(event.connection, None)
        yield from growing.values()

    def _open(self, event: Opened) -> None:
        key = f"{self._run}-{event.connection}"
        partition = zlib.crc32(key.encode()) % self._partitions  # as librdkafka selects it
        self._connections[event.connection] = ConnectionRecords(key, event.client, event.broker), partition


def joined(buffers: Sequence[bytes]) -> list[bytes]:
    """Return buffers with the same bytes, in which small ones are joined."""
    out: list[bytes] = []
    small: list[bytes] = []
    for each in buffers:
        if len(each) < SMALL:
            small.append(each)
        else:
            out += b"".join(small), each
            small = []
    return [each for each in (*out, b"".join(small)) if each]


def _add(batch: RecordBatch, records: ConnectionRecords, frames: Frames) -> None:
    time_ms = frames.time_us // US_OF_MS
    added, count = records.records(
        frames.to_broker, frames.data, frames.time_us, time_ms - batch.base_timestamp, batch.count, frames.api
    )
    batch.records += added
    batch.count += count
    batch.size += sum(map(len, added))
    batch.max_timestamp = max(batch.max_timestamp, time_ms)


def _rebuilt(partition: int, records: Sequence[Record]) -> RecordBatch:
    """Return a batch of decoded records. ``partition``: its partition."""
    body = build_batch(records)[HEADER.size :]
    times = [record.timestamp for record in records]
    return RecordBatch(partition, times[0], max(times), len(records), len(body), [body])
