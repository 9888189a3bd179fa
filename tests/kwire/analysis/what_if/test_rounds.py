from __future__ import annotations

from tools.captures import capture
from tools.handmade_calls import BEGIN, CallLog, two_members

from kwire.analysis.what_if import evidence
from kwire.analysis.what_if.evidence import Evidence
from kwire.analysis.what_if.rounds import Round, lives_of, rounds_of


def rounds(log: CallLog) -> list[Round]:
    reported = [one for call in log.calls for one in evidence.subscribed(call)]
    sizes = [one for call in log.calls for one in evidence.sizes(call)]
    (life,) = lives_of(log.tables())
    return rounds_of(life, Evidence(reported, sizes))


def ms(times: dict[str, int]) -> dict[str, float]:
    return {member: (ts - BEGIN) / 1000 for member, ts in times.items()}


def test_times() -> None:
    _, second, third = rounds(two_members())
    assert (second.generation, second.members, second.informed) == (2, ["a", "b"], {"a", "b"})
    assert (ms(second.asked), ms(second.resumed)) == ({"a": 150, "b": 100}, {"a": 168, "b": 170})
    assert (second.started, second.ended) == (BEGIN + 100_000, BEGIN + 170_000)
    assert ms(dict(third.gone)) == {"b": 500}
    assert third.present == {"a"}


def test_shares_and_owners_before() -> None:
    _, second, _ = rounds(two_members())
    assert second.shares == {"a": [("tea", 0)], "b": [("tea", 1)]}
    assert second.owners_before == {("tea", 0): "a", ("tea", 1): "a"}
    assert (second.partitions(), second.sized_by) == (2, "assignments")


def test_members_stand_as_the_leader_has_them() -> None:
    log = two_members()
    log.calls[4].response.members.reverse()
    assert rounds(log)[1].members == ["b", "a"]


def test_partitions_from_metadata_and_assignments() -> None:
    log = two_members()
    log.metadata("a", -5, {"tea": 1, "other": 9})
    result = rounds(log)[0]
    assert (result.partitions(), result.sized_by) == (2, "both")
    log.calls.pop()
    log.metadata("a", -5, {"tea": 4})
    result = rounds(log)[0]
    assert (result.partitions(), result.sized_by) == (4, "metadata")


def test_silent_member_left_at_its_last_request() -> None:
    (life,) = lives_of(capture("java-4.2.0__kafka-4.2.0__timeout"))
    silent = next(row for row in life["members"] if row["left_how"] == "silent")
    gone = rounds_of(life, Evidence())[0].gone[silent["member_id"]]
    assert 2900 < (silent["left_ts"] - gone) / 1000 < 3100


COOPERATIVE = "java-4.2.0__kafka-4.2.0__cooperative"


def test_follow_ups() -> None:
    (life,) = lives_of(capture(COOPERATIVE))
    result = rounds_of(life, Evidence())
    assert [(one.generation, one.follow_up) for one in result] == [
        (1, False),
        (2, False),
        (3, True),
        (4, False),
        (5, False),
    ]
    assert result[-1].members == []


def test_rebalance_with_a_new_member_is_no_follow_up() -> None:
    (life,) = lives_of(capture(COOPERATIVE))
    first, second, third, *_ = rounds_of(life, Evidence())
    assert third.same_group(second)
    assert not second.same_group(first)


def test_moves_outside_a_rebalance_are_measured() -> None:
    (life,) = lives_of(capture(COOPERATIVE))
    measured = rounds_of(life, Evidence())[0].measured
    stops = {row["to_generation"]: row["stw_ms_max"] for row in life["rebalances"]}
    assert {(generation, us / 1000) for (generation, _), us in measured.items()} == {(3, stops[3]), (4, stops[4])}
    assert len(measured) == 3


def test_kip848_members_subscribe_in_heartbeats() -> None:
    (life,) = lives_of(capture("java-4.2.0__kafka-4.2.0__kip848"))
    result = rounds_of(life, Evidence())
    assert [len(one.subscriptions) for one in result] == [1, 2, 1, 0]
    (topic,) = {topic for one in result for wanted in one.subscriptions.values() for topic in wanted.topics}
    assert [one.partitions() for one in result if one.members] == [3, 3, 3]
    for expression, fits in ((f"/{topic[:3]}.*/", 3), ("/none/", 0), ("/(/", 0)):
        events = [event | {"topics": event["topics"] and [expression]} for event in life["group_events"]]
        again = rounds_of({**life, "group_events": events}, Evidence())
        assert [one.partitions() for one in again if one.members] == [fits] * 3
