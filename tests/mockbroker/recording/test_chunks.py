from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from kwire import encode_request
from kwire.capture import Call, read
from kwire.frames import pack
from kwire.messages.produce import ProduceRequest
from kwire.recording import FrameLog, RecordingWriter
from kwire.recording.pcapng import PcapngFile
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.observer import Connection, Moment
from mockbroker.recording import chunks as chunks_module
from mockbroker.recording import recorder as recorder_module
from mockbroker.recording.chunks import BATCH, CHUNK, Chunk, ChunkRecorder
from mockbroker.recording.recorder import Frame
from mockbroker.recording.rotation import Limits

CONNECTION = Connection(3, Address("10.0.0.1", 5), 0, Address("real", 9), Address("10.0.0.2", 7))
OTHER = replace(CONNECTION, number=4)
AT = Moment(1.0, 100.5)
US = 100_500_000


class Chunks:
    """A recorder whose chunks are kept until ``take`` is called."""

    def __init__(self, writer: RecordingWriter) -> None:
        self.waiting: list[Chunk] = []
        self.wakes = 0
        self.recorder = ChunkRecorder(Path("out"), writer, Limits(), self._wake, self.waiting.append)

    def _wake(self) -> None:
        self.wakes += 1

    def take(self) -> bytes:
        """Return the recorded bytes, and release their chunks."""
        self.recorder.flush()
        taken = []
        while self.waiting:
            chunk = self.waiting.pop(0)
            taken.append(chunk.memory[chunk.begin : chunk.end])
            self.recorder.release(chunk)
        return b"".join(taken)


def line(frame: bytes, number: int = 3, to_broker: bool = True) -> bytes:
    log = FrameLog()
    log.opened(number, "10.0.0.1:5", "10.0.0.2:7", US)
    return log.frame(number, to_broker, frame, US)


def expected_lines(frames: list[bytes]) -> bytes:
    return b"".join(map(line, frames))


@pytest.mark.parametrize("seed", range(5))
def test_lines_have_the_order_in_which_frames_arrived(seed: int) -> None:
    random, chunks, expected, taken = Random(seed), Chunks(FrameLog()), [], []
    for connection in (CONNECTION, OTHER):
        chunks.recorder.opened(connection, AT)
    for _ in range(500):
        connection, to_broker = random.choice([CONNECTION, OTHER]), random.random() < 0.5
        frame = random.randbytes(random.choice([0, 5, 300, 2 * BATCH]))
        expected.append(line(frame, connection.number, to_broker))
        if random.random() < 0.1:
            chunks.recorder.add(Frame(connection.number, to_broker, frame, US, 0, 0))
        else:
            chunks.recorder.passed(connection, to_broker, pack(frame), AT, ends_frame=True)
        if random.random() < 0.02:
            taken.append(chunks.take())
    for connection in (CONNECTION, OTHER):
        chunks.recorder.closed(connection, AT)
    assert b"".join([*taken, chunks.take()]) == b"".join(expected)


def test_each_flush_writes_all_frames_that_arrived() -> None:
    chunks = Chunks(FrameLog())
    chunks.recorder.opened(CONNECTION, AT)
    for number in range(5):
        frame = bytes([number])
        chunks.recorder.passed(CONNECTION, True, pack(frame), AT, ends_frame=True)
        assert chunks.recorder.waiting > 0
        assert chunks.take() == line(frame)
        assert chunks.recorder.waiting == 0


def test_memory_of_incomplete_frames_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks_module, "MAX_INCOMPLETE", 1_000_000)
    chunks, frame = Chunks(FrameLog()), bytes(600_000)
    for connection in (CONNECTION, OTHER):
        chunks.recorder.opened(connection, AT)
        chunks.recorder.passed(connection, True, pack(frame)[:550_000], AT, ends_frame=False)
    assert chunks.recorder.dropped == 1
    for connection in (CONNECTION, OTHER):
        chunks.recorder.passed(connection, True, pack(frame)[550_000:], AT, ends_frame=True)
    assert chunks.take() == line(frame)


@pytest.mark.parametrize("seed", range(5))
def test_frames_larger_than_a_chunk_are_recorded_completely(seed: int) -> None:
    random, chunks = Random(seed), Chunks(FrameLog())
    frames = [random.randbytes(size) for size in (10, CHUNK, 0, 100_000, 2 * CHUNK + 1)]
    chunks.recorder.opened(CONNECTION, AT)
    stream, at, taken = b"".join(map(pack, frames)), 0, []
    while at < len(stream):
        end = min(at + random.choice([3, 60_000, 131_072]), len(stream))
        chunks.recorder.passed(CONNECTION, True, stream[at:end], AT, ends_frame=end == len(stream))
        at = end
        if random.random() < 0.2:
            taken.append(chunks.take())
    assert b"".join([*taken, chunks.take()]) == expected_lines(frames)


def test_the_flush_is_requested_once_for_each_chunk() -> None:
    chunks = Chunks(FrameLog())
    chunks.recorder.opened(CONNECTION, AT)
    chunks.take()
    before = chunks.wakes
    for _ in range(3):
        chunks.recorder.passed(CONNECTION, True, pack(b"frame"), AT, ends_frame=True)
    assert chunks.wakes == before + 1
    chunks.take()
    chunks.recorder.passed(CONNECTION, True, pack(b"frame"), AT, ends_frame=True)
    assert chunks.wakes == before + 2


def test_packets_contain_incomplete_frames() -> None:
    chunks, piece = Chunks(PcapngFile()), pack(b"A frame of which only the first half arrives")[:30]
    chunks.recorder.opened(CONNECTION, AT)
    chunks.take()
    chunks.recorder.passed(CONNECTION, True, piece, AT, ends_frame=False)
    assert piece in chunks.take()


def test_memory_of_unwritten_frames_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "MAX_WAITING", 8 * CHUNK)
    chunks = Chunks(PcapngFile())
    chunks.recorder.opened(CONNECTION, AT)
    for _ in range(100):
        chunks.recorder.passed(CONNECTION, True, bytes(CHUNK // 8), AT, ends_frame=False)
    assert len(chunks.waiting) <= 8
    assert chunks.recorder.dropped == 1


def test_memory_is_used_again() -> None:
    chunks = Chunks(PcapngFile())
    chunks.recorder.opened(CONNECTION, AT)
    used = set()
    for _ in range(100):
        chunks.recorder.passed(CONNECTION, True, bytes(CHUNK // 4), AT, ends_frame=False)
        used |= {id(chunk.memory) for chunk in chunks.waiting}
        chunks.take()
    assert len(used) <= 3


@pytest.mark.parametrize("seed", range(5))
def test_received_bytes_are_recorded_in_order(seed: int, tmp_path: Path) -> None:
    random, chunks = Random(seed), Chunks(PcapngFile())
    frames = [request(number, random.randbytes(random.choice([10, 100_000, CHUNK, CHUNK + 1]))) for number in range(6)]
    chunks.recorder.opened(CONNECTION, AT)
    stream, at, taken, lent = b"".join(map(pack, frames)), 0, [], 0
    while at < len(stream):
        most = min(random.choice([3, 60_000, 300_000]), len(stream) - at)
        memory = chunks.recorder.lend(CONNECTION, True, most) if random.random() < 0.8 else ()
        if memory:
            size = random.randint(1, sum(map(len, memory)))
            data, begin = stream[at : at + size], 0
            for part in memory:
                piece = data[begin : begin + len(part)]
                part[: len(piece)] = piece
                begin += len(piece)
            chunks.recorder.filled(CONNECTION, True, size, AT)
            lent += size
        else:
            size = most
            chunks.recorder.passed(CONNECTION, True, stream[at : at + size], AT, ends_frame=False)
        at += size
        if random.random() < 0.1:
            taken.append(chunks.take())
    path = tmp_path / "out.pcapng"
    path.write_bytes(b"".join([*taken, chunks.take()]))
    found = [item for item in read(path) if isinstance(item, Call)]
    assert [encode_request(call.request, 3, correlation_id=number) for number, call in enumerate(found)] == frames
    assert lent > len(stream) / 2


def test_frames_of_limited_files_are_not_received_in_place() -> None:
    chunks: list[Chunk] = []
    recorder = ChunkRecorder(Path("out"), PcapngFile(), Limits(size=100), lambda: None, chunks.append)
    recorder.opened(CONNECTION, AT)
    assert not recorder.lend(CONNECTION, True, 100_000)


def test_no_memory_is_lent_if_too_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "MAX_WAITING", 2 * CHUNK)
    chunks = Chunks(PcapngFile())
    chunks.recorder.opened(CONNECTION, AT)
    while memory := chunks.recorder.lend(CONNECTION, True, CHUNK):
        chunks.recorder.filled(CONNECTION, True, sum(map(len, memory)), AT)
        assert chunks.recorder.waiting <= 2 * CHUNK
    assert chunks.recorder.waiting >= CHUNK
    assert chunks.recorder.dropped == 0
    chunks.take()
    assert chunks.recorder.lend(CONNECTION, True, CHUNK)


def request(number: int, records: bytes) -> bytes:
    partition = ProduceRequest.Topic.Partition(index=0, records=records)
    topic = ProduceRequest.Topic(name="t", partition_data=[partition])
    return encode_request(ProduceRequest(acks=0, topic_data=[topic]), 3, correlation_id=number)
