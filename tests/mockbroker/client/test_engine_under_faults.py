"""Members under random errors, lost connections and late responses: listener calls stay consistent, members recover."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from effort import amount
from tools.fake_cluster import ERROR_RESPONSES, FakeCluster, ReceivedRequest, topic_id

from kwire.assignors import Assignment, write_assignment
from kwire.blobs import decode_stored, encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.errorcodes import ErrorCode as E
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kwire.messages.heartbeat import HeartbeatResponse
from kwire.messages.join_group import JoinGroupResponse
from kwire.messages.leave_group import LeaveGroupResponse
from kwire.messages.sync_group import SyncGroupResponse
from mockbroker.client.classic.status import ClassicState
from mockbroker.client.errors import ConsumerError

CODES = {
    "FindCoordinator": [14, 15, 16, 30, -1],
    "JoinGroup": [14, 15, 16, 25, 27, 79, 81, 30, -1],
    "SyncGroup": [14, 15, 16, 22, 25, 27, 30],
    "Heartbeat": [14, 15, 16, 22, 25, 27, 30, -1],
    "OffsetCommit": [3, 7, 14, 15, 16, 22, 25, 27, 12, 30],
    "ConsumerGroupHeartbeat": [14, 15, 16, 25, 110, 29, 81, -1],
}
TOPICS = {"t": 4, "u": 3}


class FaultyCluster:
    """One member with random faults. ``owned``: the assignment according to the listener calls."""

    def __init__(self, seed: int, **settings: Any) -> None:
        self.random = Random(seed)
        self.cluster = cluster = FakeCluster(topics=TOPICS, enable_auto_commit=True, **settings)
        self.generation = 0
        self.owned: list[str] = []
        self.checked_calls = self.checked_requests = 0
        self.raised = 0
        cluster.answers["FindCoordinator"] = lambda request: (
            None if self.random.random() < 0.2 else self.correct_response(request)
        )
        cluster.on_listener_call = self.check_listener_call
        cluster.engine.subscribe(["t"])

    def act(self) -> None:
        """Do one random action, then check the invariants."""
        cluster, random = self.cluster, self.random
        act = random.choice(["poll", "wait", *["answer"] * 8, "cut", "refuse", "subscribe", "rejoin", "commit"])
        try:
            match act:
                case "poll":
                    cluster.poll()
                case "wait":
                    cluster.wait(random.choice([0.01, 0.2, 1.0, 3.0, 3.0, 50.0]), polling=random.random() < 0.7)
                case "answer":
                    self.answer_one()
                case "cut" if random.random() < 0.3 and self.links():
                    cluster.cut(random.choice(self.links()), polling=random.random() < 0.5)
                case "refuse" if random.random() < 0.3 or cluster.down:
                    cluster.down = set(random.sample([9000, 9001, 9002, 9003], random.choice([0, 0, 1, 3])))
                case "subscribe" if random.random() < 0.3:
                    cluster.engine.subscribe(random.choice([["t"], ["t", "u"]]))
                case "rejoin" if random.random() < 0.3:
                    cluster.member.rejoin("a whim")
                case "commit" if len(cluster.engine.positions):
                    cluster.commit({next(iter(cluster.engine.positions)): 9}, retried=random.random() < 0.5)
        except ConsumerError:
            self.raised += 1
        self.check()

    def check_listener_call(self, method: str) -> None:
        if method == "assigned":
            assert self.cluster.member.identity.generation > 0, "only members get an assignment"

    def links(self) -> list[Any]:
        return [link for link in self.cluster.links if link.state.value in ("checking api versions", "ready")]

    def answer_one(self) -> None:
        """Answer the first pending request of a random connection, correctly or with an error."""
        first: dict[Any, ReceivedRequest] = {}
        for request in self.cluster.requests:
            if not request.done and request.link in self.links():
                first.setdefault(request.link, request)
        if first:
            request = self.random.choice(list(first.values()))
            wrong = CODES.get(request.api)
            body = (
                self.error_response(request, self.random.choice(wrong))
                if wrong and self.random.random() < 0.25
                else self.correct_response(request)
            )
            self.cluster.answer(request, body, polling=self.random.random() < 0.7)

    def error_response(self, request: ReceivedRequest, code: int) -> Any:
        if request.api == "FindCoordinator":
            return self.cluster.find_coordinator(request, code)
        if request.api == "OffsetCommit":
            return self.cluster.offset_commit(request, code)
        fields = {"member_id": "given"} if code == E.MEMBER_ID_REQUIRED else {}
        return ERROR_RESPONSES[request.api](error_code=code, **fields)

    def correct_response(self, request: ReceivedRequest) -> Any:
        cluster = self.cluster
        match request.api:
            case "FindCoordinator":
                return cluster.find_coordinator(request)
            case "Metadata":
                return cluster.metadata(request)
            case "OffsetFetch":
                return cluster.offset_fetch(request)
            case "OffsetCommit":
                return cluster.offset_commit(request)
            case "Heartbeat":
                return HeartbeatResponse()
            case "LeaveGroup":
                return LeaveGroupResponse()
            case "JoinGroup":
                self.generation += 1
                return JoinGroupResponse(
                    generation_id=self.generation,
                    protocol_type="consumer",
                    protocol_name=request.body.protocols[0].name,
                    leader="other",
                    member_id=request.body.member_id or f"me-{self.generation}",
                )
            case "SyncGroup":
                blob = encode_stored(write_assignment(Assignment(self.random_assignment())), 3)
                return SyncGroupResponse(
                    protocol_type="consumer", protocol_name=request.body.protocol_name, assignment=blob
                )
            case "ConsumerGroupHeartbeat":
                return self.heartbeat_response(request.body.member_epoch)
        return cluster.answers[request.api](request)

    def random_assignment(self) -> list[tuple[str, int]]:
        topics = sorted(self.cluster.engine.subscription.topics)
        return [(topic, number) for topic in topics for number in range(TOPICS[topic]) if self.random.random() < 0.5]

    def heartbeat_response(self, epoch: int) -> ConsumerGroupHeartbeatResponse:
        if epoch < 0:
            return ConsumerGroupHeartbeatResponse(member_id="uuid", member_epoch=epoch)
        self.generation += epoch == 0
        assignment = None
        if epoch == 0 or self.random.random() < 0.3:
            share = self.random_assignment()
            part = ConsumerGroupHeartbeatResponse.Assignment.TopicPartition
            parts = [
                part(topic_id=topic_id(topic), partitions=[number for name, number in share if name == topic])
                for topic in dict.fromkeys(name for name, _ in share)
            ]
            assignment = ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=parts)
        return ConsumerGroupHeartbeatResponse(
            member_id="uuid", member_epoch=self.generation, heartbeat_interval_ms=5000, assignment=assignment
        )

    def check(self) -> None:
        """Check that no partition is assigned twice, and that only assigned partitions are revoked."""
        for method, partitions in self.cluster.listener_calls[self.checked_calls :]:
            if method == "assigned":
                assert not set(partitions) & set(self.owned), (method, partitions, self.owned)
                self.owned += partitions
            else:
                assert set(partitions) <= set(self.owned), (method, partitions, self.owned)
                self.owned = [partition for partition in self.owned if partition not in partitions]
        self.checked_calls = len(self.cluster.listener_calls)
        for request in self.cluster.requests[self.checked_requests :]:
            if request.api == "JoinGroup":
                blob, _ = decode_stored(ConsumerProtocolSubscription, request.body.protocols[0].metadata)
                assert blob.generation_id > 0 or not blob.owned_partitions, "a new member owns no partitions"
        self.checked_requests = len(self.cluster.requests)
        assert sorted(self.cluster.assigned) == sorted(self.owned)

    def stop_faults(self) -> None:
        """Stop all faults, and let the member recover."""
        cluster = self.cluster
        cluster.down = set()
        cluster.answers = dict.fromkeys([*CODES, "Metadata", "OffsetFetch", "LeaveGroup"], self.correct_response) | {
            "ApiVersions": cluster.api_versions
        }
        for link in self.links():
            cluster.cut(link, polling=False)
        end = cluster.now + 400.0
        while cluster.now < end:
            try:
                cluster.wait(10.0, polling=True)
            except ConsumerError:
                self.raised += 1
            self.check()


UNJOINED, PREPARING, COMPLETING, STABLE = ClassicState
TRANSITIONS = {  # all transitions between states
    (UNJOINED, PREPARING),
    (PREPARING, COMPLETING),
    (COMPLETING, STABLE),
    (STABLE, PREPARING),  # the member rejoins
    (COMPLETING, PREPARING),  # SyncGroup failed with REBALANCE_IN_PROGRESS
    *((state, UNJOINED) for state in (PREPARING, COMPLETING, STABLE)),  # a failure
}


def transitions(seed: int, kind: str) -> set[tuple[ClassicState, ClassicState]]:
    """Return the state transitions of a member under faults."""
    faulty = FaultyCluster(seed, assignors=[kind])
    status, observed = faulty.cluster.member.status, set()
    usual = type(status)

    class RecordingStatus(usual):  # type: ignore[misc, valid-type]
        def __setattr__(self, name: str, value: Any) -> None:
            if name == "state" and value is not self.state:
                observed.add((self.state, value))
            super().__setattr__(name, value)

    status.__class__ = RecordingStatus
    for _ in range(200):
        faulty.act()
    return observed


@pytest.mark.parametrize("kind", ["range", "cooperative-sticky"])
def test_member_makes_exactly_the_transitions_of_the_table(kind: str) -> None:
    assert set().union(*(transitions(seed, kind) for seed in range(25))) == TRANSITIONS


@pytest.mark.parametrize("kind", ["range", "cooperative-sticky", "consumer"])
@pytest.mark.parametrize("seed", range(amount(8, 25)))
def test_listener_calls_are_consistent_and_the_member_recovers(kind: str, seed: int) -> None:
    settings = {"group_protocol": "consumer"} if kind == "consumer" else {"assignors": [kind]}
    faulty = FaultyCluster(seed, **settings)
    for _ in range(200):
        faulty.act()
    faulty.stop_faults()
    member = faulty.cluster.member
    if kind == "consumer":
        assert (member.epoch, member.member_id) == (faulty.generation, "uuid")
        faulty.random.random = lambda: 1.0  # the target does not change any more
        faulty.cluster.wait(12.0, polling=True)
    assert member.stable
    if kind != "consumer":
        assert (member.state, member.generation) == (ClassicState.STABLE, faulty.generation)
    beats = faulty.cluster.count("Heartbeat") + faulty.cluster.count("ConsumerGroupHeartbeat")
    faulty.cluster.wait(60.0, polling=True)
    after = faulty.cluster.count("Heartbeat") + faulty.cluster.count("ConsumerGroupHeartbeat")
    assert 10 <= after - beats <= 22, "one every few seconds"
