"""The function that reads captures."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from captures import COMMITTED, all_of
from tools.pcap import START, Talk, packets, pcap, prefixed

from kwire import encode_request
from kwire.capture import Call, Connection, Conversation, read
from kwire.capture.files.capture_file import CaptureFile
from kwire.capture.files.gzipped import opened
from kwire.capture.limits import MAX_IDLE_SECONDS
from kwire.capture.reading import Conversations
from kwire.capture.tcp.packets import SegmentReader
from kwire.messages.heartbeat import HeartbeatRequest


def test_connections_follow_their_calls() -> None:
    for path in COMMITTED:
        ended: set[str] = set()
        for item in read(path):
            if isinstance(item, Connection):
                assert item.id not in ended
                ended.add(item.id)
            elif isinstance(item, Call):
                assert item.connection not in ended
        calls, connections, problems = all_of(path)
        assert {call.connection for call in calls} <= {connection.id for connection in connections}
        assert problems == []


def test_calls_are_in_order_of_completion() -> None:
    for path in COMMITTED:
        times = [call.response_us for call in read(path).calls() if call.response_us is not None]
        assert times == sorted(times)


def test_the_same_again_whatever_is_read_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {str(path): sorted(all_of(path)[0], key=lambda call: (call.connection, call.number)) for path in COMMITTED}
    monkeypatch.setattr(CaptureFile.__init__, "__defaults__", (3_000, *(CaptureFile.__init__.__defaults__ or ())[1:]))
    for path, calls in whole.items():
        assert sorted(all_of(path)[0], key=lambda call: (call.connection, call.number)) == calls


@pytest.mark.parametrize("path", [*COMMITTED[:2], "log"], ids=str)
def test_progress_counts_bytes(path: Path | str, tmp_path: Path) -> None:
    """Progress counts the bytes of plain files, gzip files and frame logs."""
    if isinstance(path, str):
        path = tmp_path / "log.jsonl"
        path.write_text('{"time_us": 1}\n' * 3)
    progress: list[int] = []
    for _ in read(path, progress=progress.append):
        pass
    assert sum(progress) == path.stat().st_size


def test_a_path_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        read("/not/there.pcap")


def test_idle_connections_of_a_stream_end() -> None:
    """One connection begins in each minute of a day; each stays open, and is idle after its first request."""
    made = Conversations(lambda key, row: Conversation(key, row), idle_us=MAX_IDLE_SECONDS * 1_000_000)
    ended, largest = 0, 0
    for minute in range(24 * 60):
        talk = Talk(client=("10.0.0.1", 10_000 + minute), time_us=START + minute * 60_000_000)
        request = encode_request(HeartbeatRequest(group_id="g"), 4, correlation_id=1, client_id="c")
        content = pcap(packets([*talk.open(), *talk.say(True, prefixed(request))]))
        file = CaptureFile("-", stream=BytesIO(content))
        for block in file.blocks():
            ended += sum(isinstance(one, Connection) for one in made.add_segments(SegmentReader().segments(block)))
        largest = max(largest, len(made.open))
    assert largest == MAX_IDLE_SECONDS // 60 + 1
    assert ended == 24 * 60 - largest


def test_stream_equals_its_file_however_it_arrives(tmp_path: Path) -> None:
    class Trickle(BytesIO):
        """A stream of which each read returns at most 701 bytes."""

        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 701, 701))

    for path in COMMITTED[:4]:
        with path.open("rb") as raw:
            content = opened(raw).read(1 << 30)
        plain = tmp_path / path.name.removesuffix(".gz")
        plain.write_bytes(content)
        whole = [time for block in CaptureFile(str(plain)).blocks() for time in block.times.tolist()]
        file = CaptureFile("-", stream=Trickle(content))
        assert [time for block in file.blocks() for time in block.times.tolist()] == whole
        assert file.problems == []
