from __future__ import annotations

from tools.handmade_calls import BEGIN, CallLog

from kwire.analysis.extract import events_of
from kwire.analysis.groups.joins import joins_of


def test_joins_and_their_answers() -> None:
    log = CallLog()
    log.join("a", 0, -1, error=79, member_id="", given="a-1")
    log.join("a", 10, 1, "a-1", member_id="a-1", given="a-1")
    log.join("b", 20, 1, error=25)
    log.call("c", 30, log.calls[0].request, None, 7)
    result = joins_of([event for call in log.calls for event in events_of(call)])
    assert [(join.member_id, join.asked - BEGIN, join.done and join.done.event) for join in result] == [
        ("a-1", 0, "member_id_given"),
        ("a-1", 0, "join_done"),
        ("b", 20_000, "join_error"),
        ("", 30_000, None),
    ]
