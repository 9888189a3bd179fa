from __future__ import annotations

import pytest
from tools.handmade_calls import BEGIN, GROUP, CallLog

from kwire.analysis import extract
from kwire.analysis.what_if import evidence
from kwire.analysis.what_if.evidence import Evidence, Fresh, Size, Subscribed
from kwire.assignors import Partition, Subscription

AT = BEGIN + 1000


def sizes_of(log: CallLog) -> list[Size]:
    return [size for call in log.calls for size in evidence.sizes(call)]


def test_subscriptions_of_a_leader_and_of_a_member() -> None:
    log = CallLog()
    log.join("a", 0, 2, "b", "a", topics=["tea", "cake"])
    log.join("b", 0, 2, instance="i")
    led, own = (list(evidence.subscribed(call)) for call in log.calls)
    wanted = Subscription(["tea", "cake"])
    assert led == [
        Subscribed(AT, GROUP, 2, "b", 0, wanted),
        Subscribed(AT, GROUP, 2, "a", 1, wanted),
        Subscribed(AT, GROUP, 2, "a", -1, wanted),
    ]
    assert own == [Subscribed(AT, GROUP, 2, "b", -1, Subscription(["tea"], instance_id="i"))]


def test_refused_and_other_protocols_are_no_subscription() -> None:
    log = CallLog()
    log.join("a", 0, 2, "a", error=27)
    log.join("a", 0, 2, "a")
    log.calls[1].request.protocol_type = "connect"
    log.join("a", 0, 2, "a")
    log.calls[2].request.protocols[0].metadata = log.calls[2].response.members[0].metadata = b"\0"
    log.beat("a", 0, 2)
    assert [one for call in log.calls for one in evidence.subscribed(call)] == []


def test_sizes_with_racks() -> None:
    log = CallLog()
    log.metadata("a", 0, {"tea": 2, "cake": 0}, racks=["east", "west"])
    (size,) = sizes_of(log)
    assert size == Size(AT, "a", "10.0.0.9:9092", "a", "10.0.0.1", "tea", (("east",), ("west",)))
    log.calls[0].response.topics[0].error_code = 5
    assert sizes_of(log) == []


def test_only_new_evidence_of_a_connection() -> None:
    log = CallLog()
    for at, client, count in [(0, "a", 2), (1, "a", 2), (2, "b", 2), (3, "a", 3), (4, "a", 2)]:
        log.metadata(client, at, {"tea": count})
    results = [(size.conn_id, len(size.racks)) for size in Fresh().of(sizes_of(log))]
    assert results == [("a", 2), ("b", 2), ("a", 3), ("a", 2)]


def test_topics_that_a_replay_needs() -> None:
    log = CallLog()
    log.join("a", 0, 2, "a", topics=["tea"])
    result = evidence.wanted(evidence.subscribed(log.calls[0]), extract.events_of(log.calls[0]))
    assert set(result) == {(GROUP, "tea")}


SIZES = [  # client, time (ms), partitions: A got 2 in Metadata at 0 and 3 at 10, B got 5 at 20
    (("a", "10.0.0.1"), 5, 2),
    (("a", "10.0.0.1"), 30, 3),
    (("b", "10.0.0.1"), 15, 0),
    (("b", "10.0.0.1"), 30, 5),
    (("c", "10.0.0.1"), 15, 3),
    (None, 30, 5),
    (None, 0, 0),
]


@pytest.mark.parametrize(("leader", "at", "expected"), SIZES)
def test_sizes_at_a_moment(leader: tuple[str, str] | None, at: int, expected: int) -> None:
    log = CallLog()
    for client, then, count in [("a", 0, 2), ("a", 10, 3), ("b", 20, 5)]:
        log.metadata(client, then, {"tea": count})
    known = Evidence((), sizes_of(log))
    assert known.partitions(None, "tea", BEGIN + at * 1000 + 500, leader) == [Partition((None,))] * expected


def test_sizes_are_those_of_the_cluster() -> None:
    reported = [Size(1, "c", "b:1", "a", "h", "tea", ((), ()))]
    assert Evidence((), reported).partitions("other", "tea", 1, None) == [
        Partition(),
        Partition(),
    ]  # the cluster is unknown
    assert Evidence((), reported).partitions("other", "cake", 1, None) == []


def test_subscription_at_a_moment() -> None:
    first, listed, later = (Subscription([topic]) for topic in ("first", "listed", "later"))
    known = Evidence(
        [
            Subscribed(1, GROUP, 1, "a", -1, first),
            Subscribed(5, GROUP, 2, "a", 3, listed),
            Subscribed(6, GROUP, 2, "a", -1, later),
        ]
    )
    assert known.subscription(GROUP, "a", 2, 9) == (3, listed)
    assert known.subscription(GROUP, "a", 3, 9) == (-1, later)  # the last before
    assert known.subscription(GROUP, "a", 7, 4) == (-1, first)
    assert known.subscription(GROUP, "a", 7, 0) is None
    assert known.subscription("other", "a", 1, 9) is None


def test_topic_ids() -> None:
    known = Evidence(names={"id:AAAAAAAAAAAAAAAAAAAABw": "tea"})
    result = known.topic_id("tea")
    assert result is not None
    assert result.int == 7
    assert known.topic_id("cake") is None
