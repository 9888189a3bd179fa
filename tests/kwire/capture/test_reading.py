"""The front door."""

from __future__ import annotations

from pathlib import Path

import pytest
from captures import COMMITTED, all_of

from kwire.capture import Call, Connection, read
from kwire.capture.files.capture_file import CaptureFile


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
    """Of plain files, gzip'd ones and frame logs."""
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
