from __future__ import annotations

from pathlib import Path

import pytest

from kwire import encode_request, encode_response
from kwire.capture import Call, read
from kwire.frames import pack
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.recording import WRITERS
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.observer import Connection, Exchange, Moment
from mockbroker.recording.chunks import Chunk, ChunkRecorder
from mockbroker.recording.rotation import Limits

REQUEST = encode_request(HeartbeatRequest(group_id="g"), 4, correlation_id=1)
RESPONSE = encode_response(HeartbeatResponse(), 4, correlation_id=1)
CONNECTION = Connection(1, Address("10.0.0.1", 5), 0, Address("real", 9), Address("10.0.0.2", 9092))
START = 1_700_000_000.0


class Written:
    """A recorder whose chunks are written to a folder when the recorder passes them on."""

    def __init__(self, folder: Path, suffix: str, limits: Limits) -> None:
        self.folder = folder
        self.recorder = ChunkRecorder(
            folder / f"out{suffix}", WRITERS[suffix](), limits, lambda: None, lambda chunk: self._write(chunk)
        )

    def _write(self, chunk: Chunk) -> None:
        with chunk.path.open("ab") as out:
            out.write(chunk.memory[chunk.begin : chunk.end])
        self.recorder.release(chunk)

    def names(self) -> list[str]:
        self.recorder.flush()
        return [path.name for path in sorted(self.folder.iterdir(), key=lambda path: (len(path.name), path.name))]


def record_heartbeats(recorder: ChunkRecorder, count: int, step: float = 1.0) -> None:
    """Record one connection with heartbeats, one each ``step`` seconds. Half of the requests arrive in pieces."""
    recorder.opened(CONNECTION, Moment(0.0, START))
    for number in range(count):
        at, later = Moment(0.0, START + number * step), Moment(0.0, START + number * step + 0.001)
        if number % 2:
            recorder.requested(Exchange(CONNECTION, 12, 4, 1, at, REQUEST, REQUEST))
            recorder.answered(Exchange(CONNECTION, 12, 4, 1, at, REQUEST, REQUEST, later, RESPONSE, RESPONSE))
            continue
        request = pack(REQUEST)
        recorder.passed(CONNECTION, True, request[:9], at, ends_frame=False)
        recorder.passed(CONNECTION, True, request[9:], at, ends_frame=True)
        recorder.passed(CONNECTION, False, pack(RESPONSE), later, ends_frame=True)
    recorder.closed(CONNECTION, Moment(0.0, START + count * step))


@pytest.mark.parametrize("suffix", [".jsonl", ".pcapng"])
@pytest.mark.parametrize(
    ("limits", "files"),
    [(Limits(), 1), (Limits(seconds=4.0), 3), (Limits(size=1), 21), (Limits(size=1_000_000, seconds=9.0), 2)],
)
def test_frames_are_divided_into_files(suffix: str, limits: Limits, files: int, tmp_path: Path) -> None:
    written = Written(tmp_path, suffix, limits)
    record_heartbeats(written.recorder, 10)
    names = written.names()
    numbered = [f"out-{number:05}{suffix}" for number in range(1, len(names))]
    assert names == [f"out{suffix}", *numbered]
    assert len(names) == files or (limits.size == 1 and len(names) > 10)
    calls = [item for item in read(tmp_path) if isinstance(item, Call)]
    assert len(calls) == 10
    assert all(call.request is not None and call.response is not None for call in calls)
