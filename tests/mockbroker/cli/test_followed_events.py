"""Events that are followed over several connections, by a client with scripted responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from mockbroker.cli import followed_events as module
from mockbroker.cli.control_client import ControlClient, ControlError, UnreachableError
from mockbroker.cli.followed_events import followed_events


class Scripted:
    """A client with scripted responses.

    begins: for each request for the clock, the second at which the journal begins, or the error
    streams: for each stream, the ids of its events, or the error that ends it
    """

    url = "http://h"

    def __init__(self, begins: list[int | Exception], *streams: list[int | Exception]) -> None:
        self.begins, self.streams = begins, list(streams)
        self.queries: list[dict[str, Any]] = []

    def ask(self, method: str, path: str, query: object = None) -> dict[str, Any]:
        assert (method, path) in {("GET", "/v1/clock"), ("GET", "/v1/events")}
        if path == "/v1/events":
            assert query == {"limit": 1}
            return {"last": 7}
        begin = self.begins.pop(0)
        if isinstance(begin, Exception):
            raise begin
        return {"time": f"2026-01-01T00:00:{begin + 5:02}.250Z", "time_ms": 5_250}

    def events(self, **query: Any) -> Iterator[dict[str, Any]]:
        self.queries.append(query)
        for each in self.streams.pop(0):
            if isinstance(each, Exception):
                raise each
            yield {"id": each}


@pytest.fixture(autouse=True)
def _without_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY", 0)


def follow(client: Scripted, count: int, after: int | None = 0) -> tuple[list[int], list[str]]:
    """Return the ids of the first events, and the notes."""
    notes: list[str] = []
    events = followed_events(cast("ControlClient", client), after, notes.append, group="g")
    return [next(events)["id"] for _ in range(count)], notes


def test_a_stream_that_ends_is_continued_after_its_last_event() -> None:
    client = Scripted([10, 10, 10], [1, 2], [UnreachableError("gone")], [5])
    ids, notes = follow(client, 3)
    assert (ids, [each["after"] for each in client.queries]) == ([1, 2, 5], [0, 2, 2])
    assert client.queries[0]["group"] == "g"
    assert notes == [
        "http://h: the event stream has ended; reconnecting",
        "http://h: reconnected",
        "gone; reconnecting",
        "http://h: reconnected",
    ]


def test_the_journal_of_a_new_cluster_is_read_from_its_begin() -> None:
    client = Scripted([10, UnreachableError("gone"), ControlError("stopping", {"status": 503}), 14], [8], [1])
    assert follow(client, 2)[0] == [8, 1]
    assert [each["after"] for each in client.queries] == [0, 0]


def test_events_from_now_on_begin_after_the_last_one() -> None:
    client = Scripted([10, 10], [], [9])
    assert follow(client, 1, after=None)[0] == [9]
    assert [each["after"] for each in client.queries] == [7, 7]


REFUSED = ControlError("the token is wrong", {"status": 401})


@pytest.mark.parametrize("begins", [[UnreachableError("gone")], [10, REFUSED]], ids=["never reached", "refused"])
def test_other_errors_end_the_command(begins: list[int | Exception]) -> None:
    with pytest.raises(ControlError):
        follow(Scripted(begins, []), 1)
    with pytest.raises(ControlError, match="the token"):
        follow(Scripted([10], [REFUSED]), 1)
