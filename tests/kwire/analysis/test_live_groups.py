"""Current members of groups in captured traffic."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest
from effort import amount
from tools.captures import CAPTURES
from tools.handmade_calls import GROUP, CallLog, two_members

from kwire.analysis import live_groups
from kwire.analysis.events import GroupEvent
from kwire.analysis.live import LiveState
from kwire.analysis.live_groups import REBALANCE_US, SESSION_US, LiveGroup
from kwire.capture import Call, read
from kwire.errorcodes import ErrorCode
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kwire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse


def group_after(log: CallLog) -> LiveGroup:
    state = LiveState()
    for call in sorted(log.calls, key=lambda call: call.response_us or 0):
        state.note(call)
    return state.groups[GROUP]


def pass_time(log: CallLog, at: float) -> None:
    """Add a request of another group, whose time the state reads."""
    log.call("c", at, HeartbeatRequest(group_id="other", member_id="m", generation_id=1), HeartbeatResponse(), 4)


def live_beat(
    log: CallLog,
    client: str,
    at: float,
    epoch: int,
    answer: int,
    assigned: list[int] | None = None,
    *,
    error: int = 0,
    instance: str | None = None,
    interval: int = 5_000,
) -> None:
    """Return a heartbeat of a member of a consumer group (KIP-848)."""
    share = ConsumerGroupHeartbeatResponse.Assignment
    parts = None if assigned is None else [share.TopicPartition(topic_id=UUID(int=7), partitions=assigned)]
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=client, member_epoch=epoch, instance_id=instance)
    response = ConsumerGroupHeartbeatResponse(
        error_code=error,
        member_id=client,
        member_epoch=answer,
        heartbeat_interval_ms=interval,
        assignment=None if parts is None else share(topic_partitions=parts),
    )
    log.call(client, at, request, response, 1)


def share_beat(log: CallLog, client: str, at: float, epoch: int, answer: int, assigned: list[int] | None) -> None:
    share = ShareGroupHeartbeatResponse.Assignment
    parts = None if assigned is None else [share.TopicPartition(topic_id=UUID(int=7), partitions=assigned)]
    request = ShareGroupHeartbeatRequest(group_id=GROUP, member_id=client, member_epoch=epoch)
    response = ShareGroupHeartbeatResponse(
        member_id=client,
        member_epoch=answer,
        heartbeat_interval_ms=5_000,
        assignment=None if parts is None else share(topic_partitions=parts),
    )
    log.call(client, at, request, response, 1)


def streams_beat(log: CallLog, client: str, at: float, epoch: int, answer: int, error: int = 0) -> None:
    request = StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=client, member_epoch=epoch)
    response = StreamsGroupHeartbeatResponse(
        error_code=error, member_id=client, member_epoch=answer, heartbeat_interval_ms=5_000
    )
    log.call(client, at, request, response, 0)


def members_after(log: CallLog) -> list[str]:
    return sorted(group_after(log).members)


def test_member_that_was_evicted_is_no_member() -> None:
    """The member sends no LeaveGroup, but is missing in the JoinGroup response of the leader."""
    state = LiveState()
    for item in read([str(CAPTURES / "java-4.2.0__kafka-4.2.0__timeout.pcap.gz")]):
        if isinstance(item, Call):
            state.note(item)
    assert list(state.groups["g-timeout-java-4.2.0-r2"].members) == []


@pytest.mark.parametrize("error", ["UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "FENCED_INSTANCE_ID"])
def test_fenced_consumer_is_no_member(error: str) -> None:
    log = CallLog()
    live_beat(log, "a", 0, 0, 1, [0, 1])
    live_beat(log, "a", 5_000, 1, 0, error=ErrorCode[error])
    assert members_after(log) == []


def test_fenced_streams_member_is_no_member() -> None:
    log = CallLog()
    streams_beat(log, "a", 0, 0, 1)
    streams_beat(log, "b", 10, 0, 2)
    streams_beat(log, "a", 5_000, 1, 0, ErrorCode.UNKNOWN_MEMBER_ID)
    assert members_after(log) == ["b"]


@pytest.mark.parametrize("error", ["UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"])
@pytest.mark.parametrize("api", ["heartbeat", "join", "sync", "commit"])
def test_fenced_classic_member_is_no_member(api: str, error: str) -> None:
    log = two_members()
    code = ErrorCode[error]
    match api:
        case "heartbeat":
            log.beat("a", 790, 3, code)
        case "join":
            log.join("a", 790, -1, error=code)
        case "sync":
            log.sync("a", 790, 3, [], error=code)
        case _:
            log.commit("a", 790, 3, 0, 1, code)
    assert members_after(log) == []


def test_member_of_an_older_generation_remains() -> None:
    """The coordinator knows the member; the member rejoins."""
    log = two_members()
    log.beat("a", 790, 2, ErrorCode.ILLEGAL_GENERATION)
    assert members_after(log) == ["a"]


def test_member_whose_partitions_another_one_received() -> None:
    """The coordinator reassigns them only after the owner revoked them or its session expired."""
    log = CallLog()
    live_beat(log, "a", 0, 0, 1, [0, 1])
    live_beat(log, "b", 100, 0, 2, [2])
    live_beat(log, "b", 20_000, 2, 3, [0, 1, 2])
    assert members_after(log) == ["b"]


def test_member_that_returned_partitions_remains() -> None:
    log = CallLog()
    live_beat(log, "a", 0, 0, 1, [0, 1])
    live_beat(log, "b", 100, 0, 2, [])
    live_beat(log, "a", 110, 1, 1, [0])
    live_beat(log, "b", 150, 2, 2, [1])
    group = group_after(log)
    assert {key: member.partitions for key, member in group.members.items()} == {"a": 1, "b": 1}


def test_members_of_a_share_group_share_partitions() -> None:
    log = CallLog()
    share_beat(log, "a", 0, 0, 1, [0, 1])
    share_beat(log, "b", 100, 0, 2, [0, 1])
    assert members_after(log) == ["a", "b"]


@pytest.mark.parametrize("beats", [live_beat, share_beat, streams_beat], ids=["consumer", "share", "streams"])
def test_member_without_heartbeats_for_45_s(beats: Any) -> None:
    """The default of group.consumer.session.timeout.ms, of share groups and of streams groups."""
    log = CallLog()
    beats(log, "a", 0, 0, 1, *([[]] if beats is share_beat else []))
    for second in range(0, 45, 5):
        beats(log, "b", second * 1000 + 2, 1 if second else 0, 1, *([None] if beats is share_beat else []))
    assert members_after(log) == ["a", "b"]
    beats(log, "b", 45_010, 1, 1, *([None] if beats is share_beat else []))
    assert members_after(log) == ["b"]


def test_session_timeout_of_a_classic_member() -> None:
    """The JoinGroup has a timeout of 1 s; the traffic of any client shows that the time has passed."""
    log = two_members()
    pass_time(log, 1_700)
    assert members_after(log) == ["a"]
    pass_time(log, 1_900)
    assert members_after(log) == []


def test_commit_renews_the_session_of_a_classic_member() -> None:
    log = two_members()
    log.commit("a", 1_500, 3, 0, 1)
    pass_time(log, 2_300)
    assert members_after(log) == ["a"]


def test_waiting_for_a_join_is_no_silence() -> None:
    """The heartbeats stop until the JoinGroup is answered, at the latest after the rebalance timeout (5 s)."""
    log = two_members()
    log.beat("a", 790, 3, ErrorCode.REBALANCE_IN_PROGRESS)
    pass_time(log, 4_000)
    assert members_after(log) == ["a"]
    pass_time(log, 6_000)
    assert members_after(log) == []


def test_longer_heartbeat_interval_than_the_session() -> None:
    """The session timeout of the group is then longer than the default."""
    log = CallLog()
    live_beat(log, "a", 0, 0, 1, [0], interval=60_000)
    pass_time(log, 61_000)
    assert members_after(log) == ["a"]


def test_static_member_that_left_for_a_while_remains() -> None:
    log = CallLog()
    live_beat(log, "a", 0, 0, 1, [0], instance="i")
    live_beat(log, "a", 100, -2, -2, instance="i")
    assert members_after(log) == ["a"]
    live_beat(log, "b", 200, 0, 1, [0], instance="i")
    assert members_after(log) == ["b"]


def test_admin_removes_a_static_member() -> None:
    log = CallLog()
    log.join("a", 0, 1, "a", instance="i")
    leaving = LeaveGroupRequest.Member(member_id="", group_instance_id="i")
    answered = LeaveGroupResponse.Member(member_id="", group_instance_id="i")
    request = LeaveGroupRequest(group_id=GROUP, members=[leaving])
    log.call("admin", 10, request, LeaveGroupResponse(members=[answered]), 4)
    assert members_after(log) == []


def test_group_that_begins_again_has_new_members() -> None:
    """The group was deleted, or its coordinator lost it: generations begin at 1."""
    log = two_members()
    log.join("z", 900, 1, "z")
    group = group_after(log)
    assert (group.generation, list(group.members)) == (1, ["z"])


@pytest.mark.parametrize("timeout_ms", [-(2**31), -1, 0])
def test_timeouts_that_are_not_positive_are_ignored(timeout_ms: int) -> None:
    """Otherwise, ``kwire top`` would check such a member for ever while its group rebalances."""
    log = CallLog()
    request = JoinGroupRequest(
        group_id=GROUP, session_timeout_ms=timeout_ms, rebalance_timeout_ms=timeout_ms, member_id="a"
    )
    log.call("a", 0, request, JoinGroupResponse(generation_id=1, member_id="a", leader="b"), 7)
    member = group_after(log).members["a"]
    assert (member.session_us, member.rebalance_us) == (SESSION_US, REBALANCE_US)


KINDS = [
    "join_done",
    "sync_done",
    "heartbeat",
    "epoch_change",
    "assigned",
    "owned",
    "leave",
    "fenced",
    "heartbeat_error",
    "sync_error",
    "commit",
]


def random_event(random: Random, ts: int) -> GroupEvent:
    return GroupEvent(
        ts=ts - random.choice([0, 5_000_000]),
        group_id=GROUP,
        protocol=random.choice(["classic", "consumer", "share", "streams"]),
        event=random.choice(KINDS),
        member_id=random.choice(["", "a", "b", "c", "d", "e", "f", None]),
        instance_id=random.choice([None, None, "i", "j"]),
        generation=random.choice([None, -2, -1, 0, 1, 2, 3]),
        error_code=random.choice([0, 0, 0, None, 25, 27, 110]),
        members=random.choice([None, ["a", "b"]]),
        partitions=random.choice([None, [], ["x-0", "x-1"], ["x-1", "x-2", "x-3"]]),
    )


@pytest.mark.parametrize("seed", range(amount(20, 500)))
def test_owners_are_current_members(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds for any events in any order, and there are never more members than allowed."""
    monkeypatch.setattr(live_groups, "MAX_MEMBERS", 4)
    random, group, ts = Random(seed), LiveGroup(), 0
    for _ in range(200):
        ts += random.choice([0, 1, 1_000_000])
        call = [random_event(random, ts) for _ in range(random.randrange(1, 4))]
        for event in call:
            group.note(event, call)
        owned = {partition: name for name, member in group.members.items() for partition in member.owned}
        assert group.owners == owned
        assert len(group.members) <= 4
