"""Tests of Gathering: it accepts records that are read again after a rebalance, if they were not committed before."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from interop.gathering import Gathering, gathering_on, positions
from interop.ground import SETTINGS, MockGround
from interop.stage import MARKS, Member, start_process

from mockbroker import run_cluster

pytestmark = MARKS


@pytest.fixture
def unsettled() -> Iterator[Gathering]:
    """Yield a gathering with two librdkafka members that share the partitions."""
    with (
        run_cluster(brokers=3, config=SETTINGS) as cluster,
        MockGround(cluster) as ground,
        gathering_on(ground) as gathering,
    ):
        gathering.come("confluent-kafka", "confluent-kafka", assignor="roundrobin")
        yield gathering


def after_the_first_records(gathering: Gathering, happens: Callable[[], object]) -> None:
    """Call ``happens`` once, when a member has read the records of partition 0 and the others are not written yet."""
    produce, ground = gathering.ground.produce, gathering.ground

    def interrupted(topic: str, values: Sequence[str], **options: Any) -> None:
        produce(topic, values, **options)
        ground.produce = produce
        gathering.wait("the first records", lambda: set(values) <= {v for m in gathering.members for v in m.values})
        happens()

    ground.produce = interrupted


def rebalance_with(gathering: Gathering, begin: Callable[[], object]) -> None:
    """Begin a rebalance, and wait until each member has a new assignment."""
    before = {member.name: len(member.assigned) for member in gathering.members}
    begin()
    gathering.wait(
        "new assignments", lambda: all(len(member.assigned) > before[member.name] for member in gathering.members)
    )


def reads_of_the_first(gathering: Gathering) -> int:
    return sum(value == "batch 1: 0" for member in gathering.members for value in member.values)


def test_rebalance_before_the_commit_repeats_records(unsettled: Gathering) -> None:
    cluster = unsettled.ground.cluster
    rebalance = partial(rebalance_with, unsettled, lambda: cluster.rebalance(unsettled.group))
    after_the_first_records(unsettled, rebalance)
    unsettled.check_reading()
    reads = reads_of_the_first(unsettled)
    assert reads > 1
    unsettled.go(unsettled.members[0])
    unsettled.check_reading()
    unsettled.check_none_lost_or_twice()
    assert reads_of_the_first(unsettled) == reads


def test_expired_session_before_the_commit_repeats_records(unsettled: Gathering) -> None:
    cluster = unsettled.ground.cluster

    def expire() -> None:
        with cluster.faults.hold("Heartbeat", times="always"):
            unsettled.wait("expired sessions", lambda: [e for e in cluster.journal.events if e.event == "expire"])

    after_the_first_records(unsettled, partial(rebalance_with, unsettled, expire))
    unsettled.check_reading()
    assert reads_of_the_first(unsettled) > 1
    unsettled.check_none_lost_or_twice()


def test_lost_commit_is_noticed(unsettled: Gathering) -> None:
    unsettled.check_reading()
    cluster = unsettled.ground.cluster
    cluster.set_committed(unsettled.group, dict.fromkeys(unsettled.all_partitions(), 0))
    unsettled.go(unsettled.members[0])
    with pytest.raises(AssertionError, match="read twice"):
        unsettled.check_reading()


@pytest.mark.parametrize(
    ("lines", "twice"),
    [
        (["a assigned", "a record", "a record"], True),
        (["a assigned", "a record", "a assigned", "a record"], False),
        (["a assigned", "a record", "b assigned", "b record"], False),
        (["a assigned", "b assigned", "a record", "b record"], True),
    ],
    ids=["one assignment", "assigned again", "another owner", "two owners"],
)
def test_record_may_be_read_again_after_an_assignment(lines: list[str], twice: bool) -> None:
    with quiet_members("ab") as (gathering, members):
        for line in lines:
            name, event = line.split()
            hears(members[name], event)
        assert gathering.read_twice() == (["tea"] if twice else [])


def test_partition_is_read_again_to_its_end_after_an_assignment() -> None:
    with quiet_members("a") as (_, members):
        read = []
        for event, offset in [
            ("assigned", 0),
            ("record", 0),
            ("record", 1),
            ("assigned", 0),
            ("record", 0),
            ("record", 1),
        ]:
            hears(members["a"], event, offset)
            read.append(bool(positions(members["a"], {("orders", 0): 1})))
        assert read == [False, False, True, False, False, True]


@contextmanager
def quiet_members(names: str) -> Iterator[tuple[Gathering, dict[str, Member]]]:
    """Yield a gathering and its members, which report nothing themselves."""
    with (
        run_cluster(config=SETTINGS) as cluster,
        MockGround(cluster) as ground,
        gathering_on(ground) as gathering,
    ):
        idle = [sys.executable, "-c", "input()"]
        members = {name: Member(gathering, name, start_process(idle)) for name in names}
        gathering.members += members.values()
        yield gathering, members


def hears(member: Member, event: str, offset: int = 0) -> None:
    """Let the member process an event of its client: partition 0 was assigned, or its record at an offset was read."""
    report = {"event": event, "topic": "orders", "partition": 0, "offset": offset, "value": "tea"}
    member.heard(json.dumps(report | {"partitions": [["orders", 0]]}))
