"""Real clients of a broker with a stopped clock: they read and commit, and remain members when the clock advances by 45
s in one step.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from interop.stage import CONSUMER, FAMILIES, MARKS, Stage, stage_of

from mockbroker import Request, run_cluster

pytestmark = MARKS

SESSION = 45.0  # seconds, the default of Kafka's clients; each test here takes much less time
BEFORE, AFTER = ([f"{when}-{number}" for number in range(12)] for when in ("before", "after"))
CONFIG = {"group.initial.rebalance.delay.ms": 0, "group.consumer.heartbeat.interval.ms": 100}
PLAYED = [
    *((family, "classic") for family in FAMILIES),
    *((family, "consumer") for family in CONSUMER),
]


@pytest.fixture
def stage() -> Iterator[Stage]:
    topics = {Stage.topic: Stage.partitions}
    with run_cluster(topics=topics, config=CONFIG, clock="manual") as cluster, stage_of(cluster) as stage:
        stage.session_ms = round(SESSION * 1000)
        yield stage


@pytest.mark.parametrize(("family", "protocol"), PLAYED)
def test_member_reads_while_the_clock_stops_and_rejoins_later(stage: Stage, family: str, protocol: str) -> None:
    began = time.monotonic()
    stage.produce(BEFORE)
    member = stage.joined(family, protocol=protocol)
    stage.wait_values(BEFORE, member)
    events = stage.cluster.clock.advance(SESSION)
    (expired,) = [event for event in events if event.event == "expire"]
    assert (expired.client, expired.time_ms) == (member.name, SESSION * 1000)
    stage.wait(
        "it to be back", lambda: any(e.time_ms >= SESSION * 1000 for e in stage.events("assign") if e.assignment)
    )
    stage.produce(AFTER)
    stage.wait("what came after", lambda: set(AFTER) <= set(member.values))
    assert stage.cluster.clock.now() == SESSION
    assert time.monotonic() - began < SESSION


@pytest.mark.parametrize("family", ["kafka-python", "confluent-kafka", "aiokafka"])
def test_only_the_silent_one_expires_in_two_steps(stage: Stage, family: str) -> None:
    """As docs/testing.md says: the running members send heartbeats between the two steps."""
    lives, dies = stage.joined(family), stage.joined(family)
    dies.kill()
    clock = stage.cluster.clock
    assert "expire" not in [event.event for event in clock.advance(30.0)]
    too_late = time.monotonic() + SESSION
    while not any(asked.client_id == lives.name for asked in heartbeats(stage, since_ms=30_000)):
        assert time.monotonic() < too_late
        time.sleep(0.01)  # a heartbeat is no event of the journal, so nothing wakes a waiting test
    expired = [(event.client, event.time_ms) for event in clock.advance(20.0) if event.event == "expire"]
    assert expired == [(dies.name, 45_000)]
    stage.wait_stable({lives.name})


def heartbeats(stage: Stage, since_ms: int) -> list[Request]:
    return [asked for asked in stage.cluster.requests("Heartbeat") if asked.time_ms >= since_ms]
