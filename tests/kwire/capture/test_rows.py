"""The conversion of calls to rows in the order of time."""

from __future__ import annotations

from pathlib import Path

from captures import COMMITTED

from kwire.capture import Problem, read
from kwire.capture.calls.model import Call
from kwire.capture.rows import COLUMNS, remark_row, rows, time_text


def test_a_row_for_each_frame_in_order() -> None:
    for path in COMMITTED:
        calls = list(read(path).calls())
        results = list(rows(read(path)))
        assert len(results) == sum((c.request_us is not None) + (c.response_us is not None) for c in calls)
        assert [row["time"] for row in results] == sorted(row["time"] for row in results)
        assert all(tuple(row)[: len(COLUMNS)] == COLUMNS for row in results)
        answered = [row for row in results if row["latency_ms"] is not None]
        assert all(row["direction"] == "response" and row["latency_ms"] >= 0 for row in answered)


def test_a_filter_before_and_after_the_body() -> None:
    path: Path = COMMITTED[0]
    names = [row["api_name"] for row in rows(read(path), where=lambda row: row["api_name"] == "Metadata")]
    assert set(names) == {"Metadata"}
    some = rows(read(path), where=lambda row: bool(row["body"]), needs_body=True)
    assert all(row["body"] for row in some)


def test_times() -> None:
    assert time_text(1_700_000_000_000_001) == "2023-11-14T22:13:20.000001Z"
    assert time_text(-1) == "1969-12-31T23:59:59.999999Z"
    assert time_text(2**62) is None


def test_a_problem_is_a_row() -> None:
    row = remark_row(Problem("f.pcap", 77, "it is cut", 0))
    assert (row["file"], row["position"], row["error"], row["api_name"]) == ("f.pcap", 77, "it is cut", None)
    assert next(rows([Problem("f.pcap", 77, "it is cut")]))["error"] == "it is cut"


def test_a_call_without_a_request() -> None:
    call = Call(
        connection="c", client="a", broker="b", number=1, response_us=5, response_size=3, reason="request_not_seen"
    )
    (row,) = rows([call])
    assert (row["direction"], row["latency_ms"], row["body"], row["reason"]) == (
        "response",
        None,
        None,
        "request_not_seen",
    )
