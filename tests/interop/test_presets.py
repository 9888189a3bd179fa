"""Real clients under three presets; benchmarks/presets.py observes five clients under all of them."""

from __future__ import annotations

import pytest
from interop.stage import MARKS, Stage

pytestmark = MARKS

BEFORE, AFTER = ([f"{when}-{number}" for number in range(12)] for when in ("before", "after"))


def reader(stage: Stage, family: str) -> None:
    """Let a member of this family read the first records."""
    stage.produce(BEFORE)
    member = stage.joined(family, family)
    stage.wait_values(BEFORE, member)


@pytest.mark.clients("kafka-python")
def test_commit_whose_response_is_lost_is_sent_again(stage: Stage) -> None:
    reader(stage, "kafka-python")
    (name,) = stage.cluster.faults.preset("commit-gap", group=stage.group)
    stage.members[0].commit()
    assert stage.cluster.faults.state(name).applied == 1
    assert [request.fault for request in stage.cluster.requests("OffsetCommit")] == [name, None]
    assert sum(stage.cluster.committed(stage.group).values()) == len(BEFORE)


@pytest.mark.clients("confluent-kafka")
def test_member_joins_again_after_each_heartbeat_of_a_storm(stage: Stage) -> None:
    reader(stage, "confluent-kafka")
    classic, _ = stage.cluster.faults.preset("rebalance-storm", group=stage.group, times=2)
    stage.wait("two more joins", lambda: len(stage.events("rejoin")) >= 2)
    assert stage.cluster.faults.state(classic).exhausted
    stage.wait_stable({"confluent-kafka"})


@pytest.mark.clients("aiokafka")
def test_consumer_reads_on_during_a_rolling_restart(wide_stage: Stage) -> None:
    reader(wide_stage, "aiokafka")
    assert wide_stage.cluster.faults.preset("rolling-restart", down_ms=300, pause_ms=300) == []
    steps = [f"broker {node} is {what}" for node in range(3) for what in ("stopped", "started")]
    wide_stage.wait("three restarts", lambda: [each.reason for each in wide_stage.happened() if each.fault] == steps)
    wide_stage.produce(AFTER)
    member = wide_stage.members[0]
    wide_stage.wait("all records", lambda: set(member.values) >= {*BEFORE, *AFTER})
