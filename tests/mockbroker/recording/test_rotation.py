from __future__ import annotations

from pathlib import Path

import pytest

from kwire import encode_request, encode_response
from kwire.capture import Call, read
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.recording import WRITERS
from mockbroker.recording.recorder import Closed, Event, Frame, Opened
from mockbroker.recording.rotation import Limits, Part, Rotation

REQUEST = encode_request(HeartbeatRequest(group_id="g"), 4, correlation_id=1)
RESPONSE = encode_response(HeartbeatResponse(), 4, correlation_id=1)
START = 1_700_000_000_000_000


def events(count: int, step_us: int = 1_000_000) -> list[Event]:
    """One connection with heartbeats, each so many microseconds after the last."""
    made: list[Event] = [Opened(1, "10.0.0.1:5", "10.0.0.2:9092", START)]
    for number in range(count):
        at = START + number * step_us
        made += [Frame(1, True, REQUEST, at, 12, 4), Frame(1, False, RESPONSE, at + 1, 12, 4)]
    return [*made, Closed(1, START + count * step_us)]


def written(parts: list[Part], folder: Path) -> list[str]:
    """Write the parts; return the names of the files."""
    for part in parts:
        path = folder / part.path.name
        assert part.begins != path.exists()
        with path.open("ab") as out:
            out.writelines(part.data)
    return [path.name for path in sorted(folder.iterdir(), key=lambda path: (len(path.name), path.name))]


@pytest.mark.parametrize("suffix", [".jsonl", ".pcapng"])
@pytest.mark.parametrize(
    ("limits", "files"),
    [(Limits(), 1), (Limits(seconds=4.0), 3), (Limits(size=1), 21), (Limits(size=1_000_000, seconds=9.0), 2)],
)
def test_frames_are_divided_into_files(suffix: str, limits: Limits, files: int, tmp_path: Path) -> None:
    rotation = Rotation(tmp_path / f"out{suffix}", WRITERS[suffix](), limits)
    parts = [rotation.begin()]
    for event in events(10):
        parts += rotation.parts([event])
    names = written(parts, tmp_path)
    numbered = [f"out-{number:05}{suffix}" for number in range(1, len(names))]
    assert names == [f"out{suffix}", *numbered]
    assert len(names) == files or (limits.size == 1 and len(names) > 10)
    calls = [item for item in read(tmp_path) if isinstance(item, Call)]
    assert len(calls) == 10
    assert all(call.request is not None and call.response is not None for call in calls)


def test_events_of_one_write_are_divided_too(tmp_path: Path) -> None:
    rotation = Rotation(tmp_path / "out.jsonl", WRITERS[".jsonl"](), Limits(seconds=4.0))
    parts = [rotation.begin(), *rotation.parts(events(10))]
    assert written(parts, tmp_path) == ["out.jsonl", "out-00001.jsonl", "out-00002.jsonl"]
