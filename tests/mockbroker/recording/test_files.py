from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import trio

from kwire import encode_request
from kwire.capture import Call, Problem, read
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.recording import WRITERS
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.observer import Connection, Exchange, Moment
from mockbroker.recording.files import RecordingFiles
from mockbroker.recording.rotation import Limits

CONNECTION = Connection(1, Address("127.0.0.1", 5), 0, Address("real", 9), Address("127.0.0.1", 7))
AT = Moment(1.0, 1_700_000_000.5)


def record(recording: RecordingFiles, count: int) -> None:
    recording.recorder.opened(CONNECTION, AT)
    for number in range(count):
        frame = encode_request(HeartbeatRequest(group_id="g"), 4, correlation_id=number)
        recording.recorder.requested(Exchange(CONNECTION, 12, 4, number, AT, frame, frame))


def recording_at(path: Path) -> RecordingFiles:
    return RecordingFiles(path, WRITERS[path.suffix](), Limits())


@pytest.mark.parametrize("suffix", WRITERS)
async def test_events_are_in_the_file_before_the_end(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"out{suffix}"
    path.touch(0o644)
    recording = recording_at(path)
    async with recording.running():
        record(recording, 3)
        with trio.fail_after(30):
            while len([item for item in read(path) if isinstance(item, Call)]) < 3:
                await trio.sleep(0.01)
        record(recording, 2)
    assert len([item for item in read(path) if isinstance(item, Call)]) == 5
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("suffix", WRITERS)
async def test_a_torn_end_is_reported_and_the_rest_is_read(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"out{suffix}"
    recording = recording_at(path)
    async with recording.running():
        record(recording, 3)
    os.truncate(path, path.stat().st_size - 5)
    items = list(read(path))
    assert len([item for item in items if isinstance(item, Call)]) == 2
    assert len([item for item in items if isinstance(item, Problem)]) == 1


async def test_the_proxy_goes_on_if_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recording = recording_at(tmp_path / "out.jsonl")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with recording.running():
        for call in ("write", "writev"):
            monkeypatch.setattr(os, call, full, raising=False)
        record(recording, 1)
        with trio.fail_after(30):
            while not caplog.messages:
                await trio.sleep(0.01)
        record(recording, 1)
    assert caplog.messages == [
        f"the recording has ended: cannot write {tmp_path / 'out.jsonl'}: No space left on device"
    ]
