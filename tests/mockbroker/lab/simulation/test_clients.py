"""Scripted members behave like Kafka's clients; otherwise a run could fail although the broker is correct."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from golden import ROOT

from kwire import APIS
from kwire import ErrorCode as E
from kwire.messages.find_coordinator import FindCoordinatorResponse
from kwire.messages.heartbeat import HeartbeatResponse
from kwire.messages.join_group import JoinGroupResponse
from kwire.messages.offset_commit import OffsetCommitResponse
from kwire.messages.offset_fetch import OffsetFetchResponse
from kwire.messages.sync_group import SyncGroupResponse
from kwire.schema import schema_of
from mockbroker.base.effects import Call
from mockbroker.broker.handlers import HANDLERS
from mockbroker.lab.simulation.clients import plans
from mockbroker.lab.simulation.clients.classic import AWAY, JOINING, STABLE, ClassicClient
from mockbroker.lab.simulation.clients.describer import REQUESTS
from mockbroker.lab.simulation.clients.leaders import Leaders
from mockbroker.lab.simulation.clients.sender import Sender
from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.network import Network, Wire
from mockbroker.lab.simulation.queue import Queue
from mockbroker.lab.simulation.run import run
from mockbroker.lab.simulation.schemes import mix
from mockbroker.lab.simulation.script import MemberScript
from mockbroker.lab.simulation.shell import Shell
from mockbroker.lab.simulation.trace import Trace

SIMULATION = ROOT / "mockbroker/lab/simulation"
PRODUCE, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 0, 8, 9, 10, 11, 12, 14


class Scene:
    """One member of group g, and a broker whose answers the test determines."""

    def __init__(self, kind: str = "eager", *, commit: float = 1.0, **script: Any) -> None:
        self.queue = Queue()
        self.pending: list[tuple[Wire, Any]] = []
        self.partitions = [0]
        cluster = SimpleNamespace(nodes={0: None}, topics={"t": SimpleNamespace(partitions=self.partitions)})
        self.network = Network(self.queue, self)
        self.member = ClassicClient(
            MemberScript(number=0, kind=kind, group="g", topics=("t",), commit=commit, **script),
            Dice("test", 0),
            self.queue,
            self.network,
            Trace(),
            lambda: cluster,  # type: ignore[arg-type, return-value]
        )
        self.member.start()

    def receive(self, connection: Wire, call: Any) -> None:
        self.pending.append((connection, call))

    def disconnected(self, connection: Wire) -> None:
        self.pending = [each for each in self.pending if each[0] is not connection]

    def asked_for(self, api_key: int) -> list[Any]:
        """Return the requests of an API that have no answer yet."""
        return [call.request for _, call in self.pending if call.ticket.api_key == api_key]

    def run_until(self, api_key: int) -> None:
        for _ in range(1_000):
            if self.asked_for(api_key):
                return
            self.queue.step()
        raise AssertionError(f"API {api_key} is not asked for")

    def wait(self, seconds: float) -> None:
        until = self.queue.now + seconds
        while self.queue.next <= until:
            self.queue.step()

    def answer(self, api_key: int, response: object) -> None:
        """Answer the first pending request of an API, and wait until the answer has arrived."""
        self.run_until(api_key)
        found = next(each for each in self.pending if each[1].ticket.api_key == api_key)
        self.pending.remove(found)
        self.network.answer(*found, response)
        self.wait(0.05)

    def find(self) -> None:
        coordinator = FindCoordinatorResponse.Coordinator(key="g", node_id=0)
        self.answer(FIND_COORDINATOR, FindCoordinatorResponse(coordinators=[coordinator]))

    def join(self, generation: int, *, leads: bool = True, skip: bool = False) -> None:
        reported = plans.Subscription(("t",)).encoded()
        member = JoinGroupResponse.Member(member_id="m-1", metadata=reported)
        self.answer(
            JOIN_GROUP,
            JoinGroupResponse(
                generation_id=generation,
                protocol_name=self.member.strategy,
                leader="m-1" if leads else "m-2",
                member_id="m-1",
                members=[member] if leads else [],
                skip_assignment=skip,
            ),
        )

    def sync(self, partitions: Sequence[int] = (0,)) -> None:
        share = plans.encoded_share(frozenset(("t", partition) for partition in partitions))
        self.answer(SYNC_GROUP, SyncGroupResponse(assignment=share))
        if self.member.state == STABLE and self.member.owned - self.member.positions.keys():
            group = OffsetFetchResponse.Group(group_id="g", topics=[])
            self.answer(OFFSET_FETCH, OffsetFetchResponse(groups=[group]))

    def stable(self, generation: int) -> None:
        self.find()
        self.join(generation)
        self.sync()
        assert self.member.state == STABLE


def refused_commit(error: E) -> OffsetCommitResponse:
    place = OffsetCommitResponse.Topic.Partition(error_code=error)
    return OffsetCommitResponse(topics=[OffsetCommitResponse.Topic(name="t", partitions=[place])])


def with_a_join_and_a_commit_under_way() -> Scene:
    """Return a scene in which a rebalance begins while a commit is pending, and the commit fails."""
    scene = Scene()
    scene.stable(1)
    scene.member.positions = {("t", 0): 5}
    scene.member.commit()
    scene.member.join()
    scene.run_until(JOIN_GROUP)
    scene.answer(OFFSET_COMMIT, refused_commit(E.UNKNOWN_MEMBER_ID))
    return scene


def test_one_join_group_is_under_way_at_a_time():
    scene = with_a_join_and_a_commit_under_way()
    scene.wait(3.0)
    assert len(scene.asked_for(JOIN_GROUP)) == 1
    assert scene.member.state == JOINING


@pytest.mark.parametrize(
    "response",
    [
        JoinGroupResponse(generation_id=2, protocol_name="eager", leader="m-2", member_id="m-1"),
        JoinGroupResponse(error_code=E.MEMBER_ID_REQUIRED, member_id="m-3"),
        JoinGroupResponse(error_code=E.REBALANCE_IN_PROGRESS),
    ],
    ids=["joined", "member id given", "refused"],
)
def test_a_member_that_was_fenced_joins_again_without_id(response):
    scene = with_a_join_and_a_commit_under_way()
    scene.wait(1.0)
    scene.answer(JOIN_GROUP, response)
    scene.run_until(JOIN_GROUP)
    assert [request.member_id for request in scene.asked_for(JOIN_GROUP)] == [""]
    assert not scene.asked_for(SYNC_GROUP)
    scene.join(2)
    scene.sync()
    assert (scene.member.state, scene.member.generation) == (STABLE, 2)


def test_a_join_group_waits_for_the_sync_group():
    scene = Scene()
    scene.find()
    scene.join(1)
    scene.run_until(SYNC_GROUP)
    scene.member.join()
    scene.wait(1.0)
    assert not scene.asked_for(JOIN_GROUP)
    scene.sync()
    scene.run_until(JOIN_GROUP)


def test_new_coordinator_is_asked_while_the_old_owes_a_response():
    scene = with_a_join_and_a_commit_under_way()
    scene.wait(1.0)
    assert scene.member.coordinator is not None
    scene.network.break_off(scene.member.coordinator)
    scene.find()
    scene.join(2)
    assert (scene.member.generation, scene.member.outdated) == (2, False)


def test_static_leader_notices_growth_after_a_lost_generation():
    """Generation 5 was assigned with one partition. Generation 6 was never written, so 5 is the latest generation
    again."""
    scene = Scene(instance="i")
    scene.stable(5)
    scene.partitions.append(1)
    scene.member.join()
    scene.join(6)
    assert scene.member.seen == {"t": 2}
    scene.member.crash()
    scene.member.start()
    scene.find()
    scene.join(5, skip=True)
    scene.sync()
    scene.wait(scene.member.script.heartbeat + 0.5)
    assert scene.asked_for(JOIN_GROUP)


def test_only_the_settled_generation_is_kept():
    scene = Scene(instance="i")
    scene.stable(5)
    scene.member.join()
    scene.join(6)
    assert set(scene.member.seen_in) == {5, 6}
    scene.sync()
    assert set(scene.member.seen_in) == {6}


def test_cooperative_join_group_names_the_last_generation():
    """Kafka's client sends the generation with every subscription: after a revocation the metadata differs, so the
    group rebalances."""
    scene = Scene("cooperative")
    scene.stable(1)
    scene.member.join()
    scene.join(2, leads=False)
    scene.sync([])
    scene.run_until(JOIN_GROUP)
    (request,) = scene.asked_for(JOIN_GROUP)
    assert plans.decoded_subscription(request.protocols[0].metadata) == plans.Subscription(("t",), generation=2)


def test_follower_joins_once_when_topics_grow():
    """The coordinator answers a follower with the current generation; only a JoinGroup of the leader begins a
    rebalance."""
    scene = Scene(commit=60.0)
    scene.find()
    scene.join(1, leads=False)
    scene.sync()
    scene.partitions.append(1)
    scene.answer(HEARTBEAT, HeartbeatResponse())
    scene.join(1, leads=False)
    scene.sync()
    for _ in range(3):
        scene.answer(HEARTBEAT, HeartbeatResponse())
    scene.wait(0.5)
    assert not scene.asked_for(JOIN_GROUP)


@pytest.mark.parametrize("instance", [None, "i"], ids=["dynamic", "static"])
def test_generations_of_a_member_that_was_removed(instance):
    """A dynamic member joins as a new member of a group with the same generations; the removal of a static member was
    lost."""
    scene = Scene("cooperative", instance=instance)
    scene.stable(1)
    scene.member.join()
    scene.join(2, leads=False)
    scene.member.gave_up_in = 2
    scene.answer(SYNC_GROUP, SyncGroupResponse(error_code=E.UNKNOWN_MEMBER_ID))
    scene.join(2, leads=False)
    scene.sync([])
    scene.wait(1.0)
    assert bool(scene.asked_for(JOIN_GROUP)) == (instance is not None)


@pytest.mark.parametrize("answered", [True, False], ids=["JoinGroup answered", "JoinGroup without answer"])
def test_static_member_revokes_after_a_restart(answered):
    """The leader expects the member to revoke the partitions that it had reported, and to rejoin; the member knows this
    after its restart."""
    scene = Scene("cooperative", instance="i")
    scene.stable(1)
    scene.member.join()
    if answered:
        scene.join(2, leads=False)
    scene.run_until(SYNC_GROUP if answered else JOIN_GROUP)
    scene.member.crash()
    scene.member.start()
    scene.find()
    scene.join(2, leads=False)
    scene.sync([])
    scene.run_until(JOIN_GROUP)
    scene.join(3, leads=False)
    scene.sync([])
    scene.wait(1.0)
    assert not scene.asked_for(JOIN_GROUP)


def test_without_a_coordinator_a_member_is_away():
    scene = Scene()
    scene.member.join()
    assert scene.member.state == AWAY


def test_reconnect_backoff_doubles_until_a_response() -> None:
    class Refusing(Scene):
        listens = False

        def receive(self, connection: Wire, call: Any) -> None:
            attempts.append(self.queue.now)
            if self.listens:
                super().receive(connection, call)
            else:
                self.network.refuse(connection)

    attempts: list[float] = []
    scene = Refusing()
    scene.wait(60.0)
    waits = [later - at for at, later in pairwise(attempts)]
    assert waits[0] < 0.2
    assert all(1.28 < wait < 1.5 for wait in waits[7:])
    assert len(waits) > 30
    scene.listens = True
    scene.find()
    scene.listens = False
    assert scene.member.coordinator is not None
    scene.network.break_off(scene.member.coordinator)
    attempts.clear()
    scene.wait(0.5)
    assert len(attempts) > 2


def test_a_sender_has_one_timer_for_its_retries() -> None:
    scene = Scene()
    leaders = Leaders(scene.member)
    sender = Sender(scene.member, leaders, -1, 9, lambda _: None)
    leaders.nodes["t", 0], leaders.ids["t"] = 0, UUID(int=1)
    sender.add(("t", 0), [b"v"])
    for _ in range(5):
        sender.send_due()
    polls = []
    real = sender.send_due
    sender.send_due = lambda: (polls.append(scene.queue.now), real())  # type: ignore[method-assign, assignment]
    scene.wait(3.0)
    assert 20 <= len(polls) <= 60  # each 0.05 to 0.15 s after the previous one
    assert len(scene.asked_for(PRODUCE)) == 1


# --- the client that reads the state of the cluster ---


def test_all_reading_requests_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    answered: set[int] = set()
    real = Shell.answered

    def seen(self: Shell, call: Call[Any], response: Any) -> None:
        answered.add(call.ticket.api_key)
        real(self, call, response)

    monkeypatch.setattr(Shell, "answered", seen)
    describer = MemberScript(number=0, kind="describer", group="", topics=("t0",), commit=0.05)
    outcome = run(replace(mix(0, 500), members=(describer,), faults=(), rules=(), release="4.2"))
    assert not outcome.broken, outcome.text
    kinds = {schema_of(type(request(("t0",)))).api for request in REQUESTS}
    assert {api.key for api in kinds if api} <= answered


def test_clients_send_all_requests_that_the_broker_handles() -> None:
    source = "".join(path.read_text("utf-8") for path in SIMULATION.rglob("*.py"))
    names = {APIS[key].name for key in HANDLERS}
    assert {name for name in names if not re.search(rf"\b{name}Request\b", source)} == set()
