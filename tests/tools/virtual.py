"""Consumers of classic groups in virtual time: a broker without sockets, and every frame as a packet of its very moment.

What the broker's journal says, with the exact times, is what a capture of it has to come to.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tools.broker_harness import BrokerHarness, SentRequest
from tools.pcap import START, Segment, Talk, packets, pcap, prefixed

import kwire
from kwire.analysis.columns import Row
from kwire.analysis.run import analyse
from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.capture import Call, Connection, read
from kwire.errorcodes import ErrorCode
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.sync_group import SyncGroupRequest
from mockbroker.broker.journal import Event

GROUP, TOPIC, PARTITIONS = "billing", "t", 12
THINK = 0.001_037  # seconds between an answer and what a member does about it
BEAT = 0.300_011  # seconds between heartbeats


def micros(seconds: float) -> int:
    """A moment of virtual time as a packet has it."""
    return START + round(seconds * 1e6)


@dataclass
class Member:
    """A consumer. ``syncs``: whether it answers to a generation; ``told``: from when to when it waited for each share."""

    world: World
    name: str
    session: float = 3.0
    rebalance: float = 5.0
    instance: str | None = None
    member_id: str = ""
    generation: int = -1
    alive: bool = True
    syncs: bool = True
    number: int = 0
    asked: float | None = None
    told: list[tuple[int, str, float | None, float]] = field(default_factory=list)
    left: float | None = None

    def after(self, delay: float, what: Callable[[], None]) -> None:
        """Each has a pace of its own, so that no two do something in one microsecond."""
        self.world.at(self.world.now + delay + 0.000_211 * self.number, self, what)

    def join(self) -> None:
        self.asked = self.world.now if self.asked is None else self.asked
        subscription = ConsumerProtocolSubscription(topics=[TOPIC])
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=round(self.session * 1000),
            rebalance_timeout_ms=round(self.rebalance * 1000),
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=encode_stored(subscription, 1))],
        )
        self.world.ask(self, request, 7, self.joined)

    def joined(self, answer: Any) -> None:
        if answer.error_code in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.UNKNOWN_MEMBER_ID):
            self.member_id = answer.member_id
            self.after(THINK, self.join)
            return
        assert answer.error_code == 0, answer
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self.world.named[self.member_id] = self
        plan: dict[str, list[int]] = {member.member_id: [] for member in answer.members}
        for partition in range(PARTITIONS):
            if plan:
                plan[sorted(plan)[partition % len(plan)]].append(partition)
        if self.syncs:
            self.after(THINK, lambda: self.sync(plan))

    def sync(self, plan: dict[str, list[int]]) -> None:
        if plan:
            self.world.plans[self.generation] = plan
        shares = {
            member: ConsumerProtocolAssignment.TopicPartition(topic=TOPIC, partitions=share)
            for member, share in plan.items()
        }
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequest.Assignment(
                    member_id=member,
                    assignment=encode_stored(ConsumerProtocolAssignment(assigned_partitions=[share]), 1),
                )
                for member, share in shares.items()
            ],
        )
        self.world.ask(self, request, 5, self.synced)

    def synced(self, answer: Any) -> None:
        if answer.error_code:
            self.again(answer.error_code)
            return
        had_one = any(member == self.member_id for _, member, *_ in self.told)
        self.told.append((self.generation, self.member_id, self.asked if had_one else None, self.world.now))
        self.asked = None
        self.after(BEAT, self.beat)

    def beat(self) -> None:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        self.world.ask(self, request, 4, self.beaten)

    def beaten(self, answer: Any) -> None:
        if answer.error_code:
            self.again(answer.error_code)
        else:
            self.after(BEAT, self.beat)

    def again(self, code: int) -> None:
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self.after(THINK, self.join)

    def leave(self) -> None:
        """Leave, and be gone."""
        leaving = LeaveGroupRequest.Member(member_id=self.member_id, group_instance_id=self.instance)
        self.left = self.world.now
        self.world.ask(self, LeaveGroupRequest(group_id=GROUP, members=[leaving]), 4, lambda _: None)
        self.alive = False

    def die(self) -> None:
        """Be gone without a word."""
        self.alive = False


class World(BrokerHarness):
    """Virtual time, in seconds from 0; ``happened``: the journal, with exact times."""

    def __init__(self, **config: Any) -> None:
        super().__init__(topics={TOPIC: PARTITIONS}, config=config)
        self.happened: list[tuple[float, Event]] = []
        self.journal.listeners.append(lambda event: self.happened.append((self.now, event)))
        self.members: list[Member] = []
        self.named: dict[str, Member] = {}  # by member id
        self.plans: dict[int, dict[str, list[int]]] = {}  # by generation
        self._due: list[tuple[float, int, Member, Callable[[], None]]] = []
        self._turns = count()
        self._open: list[tuple[Member, SentRequest, int, Callable[[Any], None]]] = []
        self._frames: list[tuple[int, int, str, bool, bytes]] = []
        self._ids: dict[str, Any] = defaultdict(count)

    def member(self, name: str, at: float, **how: Any) -> Member:
        """A consumer that begins at this time."""
        made = Member(self, name, number=len(self.members), **how)
        self.members.append(made)
        self.at(at, made, made.join)
        return made

    def at(self, when: float, member: Member, what: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when, next(self._turns), member, what))

    def ask(self, member: Member, request: Any, version: int, then: Callable[[Any], None]) -> None:  # type: ignore[override]
        number = next(self._ids[member.name])
        frame = kwire.encode_request(request, version, correlation_id=number, client_id=member.name)
        self._note(member.name, to_broker=True, frame=frame)
        sent = self.send(request, version, client_id=member.name)
        self._open.append((member, sent, number, then))
        self._hear()

    def _note(self, name: str, *, to_broker: bool, frame: bytes) -> None:
        self._frames.append((micros(self.now), next(self._turns), name, to_broker, frame))

    def _hear(self) -> None:
        """Answers that are there: into packets, and to their member unless it is gone."""
        answered = [one for one in self._open if one[1].done]
        self._open = [one for one in self._open if not one[1].done]
        for member, sent, number, then in answered:
            if sent.answer is None:
                continue
            frame = kwire.encode_response(sent.answer, sent.ticket.version, correlation_id=number)
            self._note(member.name, to_broker=False, frame=frame)
            if member.alive:
                then(sent.answer)

    def run(self, until: float) -> None:
        """Let everything happen that does before this time."""
        while (due := min(self.router.deadline(), self._due[0][0] if self._due else until)) < until:
            if self._due and self._due[0][0] <= due:
                when, _, member, what = heapq.heappop(self._due)
                self.wait(max(when - self.now, 0.0))
                if member.alive:
                    what()
            else:
                self.wait(due - self.now)
            self._hear()

    def last_frame(self, member: Member, before: int) -> int:
        """When the last frame from or to a member went over the wire, at or before a moment, in µs."""
        return max(time_us for time_us, _, name, *_ in self._frames if name == member.name and time_us <= before)

    def segments(self) -> list[Segment]:
        """Everything that was said, a connection for each member."""
        talks = {
            member.name: Talk(client=(f"10.0.1.{n + 1}", 40_000 + n), mss=60_000)
            for n, member in enumerate(self.members)
        }
        made = [segment for talk in talks.values() for segment in talk.open()]
        for segment in made:
            assert segment.time_us < micros(0.5), "the first join comes later"
        for time_us, _, name, to_broker, frame in sorted(self._frames):
            talks[name].time_us = time_us
            made += talks[name].say(to_broker, prefixed(frame))
        return made

    def tables(self, folder: Path) -> dict[str, list[Row]]:
        """What a capture of it says happened."""
        file = folder / "virtual.pcap"
        file.write_bytes(pcap(packets(self.segments())))
        reading = read(file)
        items = list(reading)
        assert reading.problems == []
        calls = [item for item in items if isinstance(item, Call)]
        return analyse(calls, [item for item in items if isinstance(item, Connection)], "virtual")
