from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tools.captures import CAPTURES
from tools.handmade_calls import BEGIN, GROUP, CallLog, two_members

from kwire.analysis import live, live_groups
from kwire.analysis.live import LiveState
from kwire.analysis.live_groups import EXPIRY_US
from kwire.capture import Call, read
from kwire.errorcodes import ErrorCode
from kwire.json.objects import uuid_text
from kwire.messages.fetch import FetchRequest, FetchResponse
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

HOUR = 3_600_000.0  # milliseconds


def state_after(log: CallLog) -> LiveState:
    state = LiveState()
    for call in sorted(log.calls, key=lambda call: call.response_us or 0):
        state.note(call)
    return state


def beat(log: CallLog, at: float, group: str, member: str, generation: int = 1) -> None:
    request = HeartbeatRequest(group_id=group, member_id=member, generation_id=generation)
    log.call("c", at, request, HeartbeatResponse(), 4)


def commit(log: CallLog, at: float, group: str, topic: str, offset: int, error_code: int = 0) -> None:
    asked, answered = OffsetCommitRequest.Topic, OffsetCommitResponse.Topic
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=1,
        member_id="m",
        topics=[asked(name=topic, partitions=[asked.Partition(partition_index=0, committed_offset=offset)])],
    )
    partition = answered.Partition(partition_index=0, error_code=error_code)
    response = OffsetCommitResponse(topics=[answered(name=topic, partitions=[partition])])
    log.call("c", at, request, response, 8)


def end_offset(log: CallLog, at: float, topic: str, offset: int) -> None:
    asked, answered = ListOffsetsRequest.Topic, ListOffsetsResponse.Topic
    partition = asked.Partition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[asked(name=topic, partitions=[partition])])
    partitions = [answered.Partition(partition_index=0, offset=offset)]
    log.call("c", at, request, ListOffsetsResponse(topics=[answered(name=topic, partitions=partitions)]), 5)


def test_members_and_rebalances() -> None:
    group = state_after(two_members()).groups[GROUP]
    assert (group.protocol, group.generation, group.rebalances) == ("classic", 3, 2)
    assert [(key, one.client_id, one.partitions) for key, one in group.members.items()] == [("a", "a", 2)]


def test_lag_is_watermark_less_commit() -> None:
    log = CallLog()
    commit(log, 0, "g", "tea", 40)
    assert list(state_after(log).lags(state_after(log).groups["g"])) == [("tea", 0, 40, None)]
    end_offset(log, 10, "tea", 100)
    state = state_after(log)
    assert list(state.lags(state.groups["g"])) == [("tea", 0, 40, 60)]


def test_names_that_come_later_replace_topic_ids() -> None:
    """The traffic begins while clients are connected: they know the topic's id, and the name comes later."""
    tea = UUID(int=7)
    log = CallLog()
    for at, offset in ((1, 8), (5, 9)):
        asked = FetchRequest.Topic(topic_id=tea, partitions=[FetchRequest.Topic.Partition(partition=0)])
        answered = FetchResponse.Topic.Partition(partition_index=0, high_watermark=offset)
        topics = [FetchResponse.Topic(topic_id=tea, partitions=[answered])]
        log.call("c", at, FetchRequest(topics=[asked]), FetchResponse(responses=topics), 13)
    request = OffsetCommitRequest(
        group_id=GROUP,
        topics=[
            OffsetCommitRequest.Topic(
                topic_id=tea, partitions=[OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=6)]
            )
        ],
    )
    stored = OffsetCommitResponse.Topic.Partition(partition_index=0)
    response = OffsetCommitResponse(topics=[OffsetCommitResponse.Topic(topic_id=tea, partitions=[stored])])
    log.call("c", 6, request, response, 10)
    state = state_after(log)
    state.use_names()
    assert [topic for topic, *_ in state.lags(state.groups[GROUP])] == [f"id:{uuid_text(tea)}"]
    named = MetadataResponse.Topic(topic_id=tea, name="tea")
    log.call("c", 7, MetadataRequest(), MetadataResponse(topics=[named]), 12)
    end_offset(log, 8, "tea", 12)
    state = state_after(log)
    state.use_names()
    assert list(state.lags(state.groups[GROUP])) == [("tea", 0, 6, 6)]
    assert list(state.ends) == [("tea", 0)]


def test_rejected_commits_are_counted() -> None:
    log = CallLog()
    commit(log, 0, "g", "tea", 40)
    commit(log, 1, "g", "tea", 41, ErrorCode.ILLEGAL_GENERATION)
    state = state_after(log)
    assert (state.groups["g"].refused, state.groups["g"].commits["tea", 0][0]) == (1, 40)
    assert state.errors["OffsetCommit", "ILLEGAL_GENERATION"] == 1


@pytest.mark.parametrize("hours", [0.2, 1, 24])
def test_groups_remain_when_the_clock_is_set_back(hours: float) -> None:
    """A capture at a second broker, which is read as the next file, begins at an earlier time, too."""
    log, state = CallLog(), LiveState()
    commit(log, 0, "before", "tea", 40)
    for at in range(10):
        commit(
            log,
            at * 1_000 - hours * HOUR,
            "after",
            "tea",
            41 + at,
            ErrorCode.NONE if at else ErrorCode.FENCED_INSTANCE_ID,
        )
    for call in log.calls:
        state.note(call)
    assert list(state.groups) == ["before", "after"]
    assert (state.groups["after"].refused, state.groups["after"].commits["tea", 0][0]) == (1, 50)


def test_sum_of_latencies_never_falls() -> None:
    """The clock may be set back between request and response."""
    log, state = CallLog(), LiveState()
    beat(log, 0, "g", "m")
    log.call("c", 10, HeartbeatRequest(group_id="g"), HeartbeatResponse(), 4, took=-5_000)
    for call in log.calls:
        state.note(call)
    assert (state.apis["Heartbeat"].seconds, state.apis["Heartbeat"].responses) == (0.001, 2)


def test_silent_member_expires_while_its_group_lives() -> None:
    log = CallLog()
    beat(log, 0, "g", "silent")
    for minute in range(20):
        beat(log, minute * 60_000 + 1, "g", "alive")
    assert list(state_after(log).groups["g"].members) == ["alive"]


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.pcap*")), ids=lambda path: path.name.partition(".pcap")[0])
def test_counts_of_a_capture(path: Any) -> None:
    state, calls = LiveState(), 0
    for item in read(str(path)):
        if isinstance(item, Call):
            state.note(item)
            calls += item.request_us is not None
    assert sum(api.requests for api in state.apis.values()) == calls
    assert all(sum(api.buckets.values()) == api.responses for api in state.apis.values())


def test_members_expire_while_no_packet_arrives() -> None:
    log = CallLog()
    beat(log, 0, "g", "a")
    state = state_after(log)
    state.pass_time(44_000_000)
    assert list(state.groups["g"].members) == ["a"]
    state.pass_time(46_000_000)
    assert list(state.groups["g"].members) == []


def test_time_does_not_pass_before_the_first_call() -> None:
    state = LiveState()
    state.pass_time(46_000_000)
    assert (state.now_us, state.clock_us) == (0, 0)


def test_a_day_of_new_groups_does_not_grow() -> None:
    """A group, a member and a topic appear every 30 s, and are never seen again."""
    state, largest = LiveState(), [0, 0, 0, 0]
    for step in range(24 * 120):
        log = CallLog()
        at = step * 30_000.0
        beat(log, at, f"g{step}", "m")
        commit(log, at, f"g{step}", f"t{step}", 1)
        end_offset(log, at, f"t{step}", 2)
        beat(log, at, "always", f"m{step}")
        commit(log, at, "always", f"t{step}", 1)
        for call in log.calls:
            state.note(call)
        kept = [len(state.groups), len(state.ends), len(state.groups["always"].members), len(state._checks)]
        largest = [max(pair) for pair in zip(largest, kept, strict=True)]
    assert (state.now_us - BEGIN) / 1000 > 23.9 * HOUR
    most = EXPIRY_US // 30_000_000 + 2
    assert max(largest) <= most
    assert len(state.groups["always"].commits) <= most


def test_maxima_hold_within_the_expiry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_GROUPS", 5)
    monkeypatch.setattr(live, "MAX_PARTITIONS", 7)
    monkeypatch.setattr(live_groups, "MAX_MEMBERS", 3)
    log = CallLog()
    for number in range(20):
        beat(log, number, f"g{number}", "m")
        beat(log, number, "one", f"m{number}")
        commit(log, number, f"c{number}", f"t{number}", 1)
        end_offset(log, number, f"t{number}", 1)
    state = state_after(log)
    assert len(state.groups) == 5
    assert len(state.groups["one"].members) == 3
    assert len(state.ends) == 7
