from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path
from random import Random

import pytest
import trio

from kwire import encode_request
from kwire.capture import Call, Problem, read
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.recording import WRITERS
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.observer import Connection, Exchange, Moment
from mockbroker.recording.chunks import ALIGNMENT
from mockbroker.recording.files import DIRECT, AppendedFile, RecordingFiles
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


async def test_recording_ends_if_its_next_file_cannot_be_created(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recording = RecordingFiles(tmp_path / "out.jsonl", WRITERS[".jsonl"](), Limits(size=1))
    tmp_path.joinpath("out-00001.jsonl").mkdir()
    async with recording.running():
        record(recording, 3)
        with trio.fail_after(30):
            while not caplog.messages:
                await trio.sleep(0.01)
    assert caplog.messages == [f"the recording has ended: cannot write {tmp_path / 'out-00001.jsonl'}: Is a directory"]


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


@pytest.mark.parametrize("is_permitted", [True, False], ids=["direct", "refused"])
@pytest.mark.parametrize("seed", range(3))
def test_large_writes_append_all_bytes(
    seed: int, is_permitted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that does not support direct writes rejects them with EINVAL."""
    fcntl = pytest.importorskip("fcntl")
    if not DIRECT:
        pytest.skip("this system has no direct writes")
    random, expected, begin, directly = Random(seed), b"", 0, []
    write = os.write

    def observed(file: int, data: memoryview) -> int:
        if fcntl.fcntl(file, fcntl.F_GETFL) & DIRECT:
            directly.append(len(data))
            if not is_permitted:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return write(file, data)

    monkeypatch.setattr(os, "write", observed)
    file = AppendedFile(tmp_path / "out")
    for _ in range(20):
        data = random.randbytes(random.choice([10, 5_000, 400_000]))
        memory = mmap.mmap(-1, begin + len(data))
        memory[begin:] = data
        with memoryview(memory) as view:
            file.write(view, begin, begin + len(data))
        expected += data
        begin = (begin + len(data)) % ALIGNMENT
    file.close()
    assert (tmp_path / "out").read_bytes() == expected
    assert len(directly) > 1 if is_permitted else len(directly) == 1
