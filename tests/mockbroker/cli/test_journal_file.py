from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from mockbroker.base.effects import Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.journal import Journal
from mockbroker.cli.journal_file import open_journal, write_journal


def test_lines_have_the_wall_clock_time(tmp_path: Path) -> None:
    path, journal = tmp_path / "journal.jsonl", Journal(0.0)
    path.write_text("{}\n")
    with open_journal(path) as file:
        write_journal(journal, 86_400.0, file)
        journal.record(Note(event=EventKind.EMPTY, group="g"), 1.5)
    (_, line) = path.read_text("utf-8").splitlines()
    event = json.loads(line)
    assert (event["time"], event["time_ms"], event["event"]) == ("1970-01-02T00:00:01.500+00:00", 1_500, "empty")


def test_a_full_disk_ends_the_journal(caplog: pytest.LogCaptureFixture) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    journal = Journal(0.0)
    with caplog.at_level(logging.ERROR):
        file = open_journal(Path("/dev/full"))
        write_journal(journal, 0.0, file)
        for _ in range(2):
            journal.record(Note(event=EventKind.EMPTY, group="g"), 1.0)
    assert [text.partition(":")[0] for text in caplog.messages] == ["journal"]
    assert (file.closed, journal.listeners, len(journal.events)) == (True, [], 2)
