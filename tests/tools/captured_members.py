"""Consumers of classic groups in virtual time, on a broker without sockets, with a capture of all frames.

The broker's journal has the exact time of each event, so tests compare the tables of the capture with it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from tools.broker_harness import BrokerHarness, SentRequest
from tools.group_members import ClassicMember, GroupMember, Then, Timing, in_turns
from tools.pcap import START, Segment, Talk, packets, pcap, prefixed

import kwire
from kwire.analysis.columns import Row
from kwire.analysis.run import analyse
from kwire.capture import Call, Connection, read
from mockbroker.broker.journal import Event

GROUP, TOPIC, PARTITIONS = "billing", "t", 12
THINK = 0.001_037  # seconds between a response and the next step of a member
JITTER = 0.000_211  # seconds of delay of each member after the previous one, so that no two act in the same microsecond
TIMING = Timing(session=3.0, rebalance=5.0, heartbeat=0.300_011, think=THINK)


def micros(seconds: float) -> int:
    """Return a virtual time as the time of a packet, in microseconds since 1970."""
    return START + round(seconds * 1e6)


class CapturedMember(ClassicMember):
    """A consumer.

    ``syncs``: False if it never sends SyncGroup; ``waits``: generation, member id, begin and end of the wait for each
    assignment; ``left``: time of its LeaveGroup.
    """

    transport: CapturedWorld
    join_version = 7

    def __init__(self, transport: CapturedWorld, name: str, *, syncs: bool = True, **how: Any) -> None:
        super().__init__(transport, name, group=GROUP, topic=TOPIC, **how)
        self.syncs = syncs
        self.waits: list[tuple[int, str, float | None, float]] = []
        self.left: float | None = None
        self._asked: float | None = None

    def join(self) -> None:
        self._asked = self.transport.now if self._asked is None else self._asked
        super().join()

    def _joined(self, response: Any) -> None:
        if not response.error_code:
            self.transport.named[response.member_id] = self
        super()._joined(response)

    def plan(self, joined: Any) -> dict[str, bytes]:
        members = [each.member_id for each in joined.members]
        self.transport.plans[self.generation] = in_turns(members, PARTITIONS)
        return super().plan(joined)

    def sync(self, plan: Mapping[str, bytes]) -> None:
        if self.syncs:
            super().sync(plan)

    def assigned(self, partitions: list[int]) -> None:
        super().assigned(partitions)
        had_one = any(member == self.member_id for _, member, *_ in self.waits)
        self.waits.append((self.generation, self.member_id, self._asked if had_one else None, self.transport.now))
        self._asked = None

    def leave(self) -> None:
        self.left = self.transport.now
        super().leave()


class CapturedWorld(BrokerHarness):
    """A broker in virtual time with captured members. ``happened``: events of the journal, with times in seconds."""

    def __init__(self, **config: Any) -> None:
        super().__init__(topics={TOPIC: PARTITIONS}, config=config)
        self.happened: list[tuple[float, Event]] = []
        self.journal.listeners.append(lambda event: self.happened.append((self.now, event)))
        self.members: list[CapturedMember] = []
        self.named: dict[str, CapturedMember] = {}  # by member id
        self.plans: dict[int, dict[str, list[int]]] = {}  # by generation
        self._due: list[tuple[float, int, CapturedMember | None, Callable[[], None]]] = []
        self._turns = count()
        self._open: list[tuple[GroupMember, SentRequest, int, Then]] = []
        self._frames: list[tuple[int, int, str, bool, bytes]] = []
        self._ids: dict[str, Any] = defaultdict(count)

    def member(
        self, name: str, at: float, *, instance: str | None = None, syncs: bool = True, **timing: float
    ) -> CapturedMember:
        """Return a consumer that starts at a time."""
        made = CapturedMember(
            self,
            name,
            timing=replace(TIMING, jitter=JITTER * len(self.members), **timing),
            instance=instance,
            syncs=syncs,
        )
        self.members.append(made)
        self.at(at, made, made.start)
        return made

    def at(self, when: float, member: CapturedMember | None, what: Callable[[], None]) -> None:
        """Call a function at a time, unless the member has stopped by then."""
        heapq.heappush(self._due, (when, next(self._turns), member, what))

    def call_later(self, delay: float, action: Callable[[], None]) -> None:
        self.at(self.now + delay, None, action)

    def partition_count(self, topic: str) -> int:
        return len(self.broker.cluster.topics[topic].partitions)

    def request(self, member: GroupMember, request: Any, version: int, then: Then) -> None:
        number = next(self._ids[member.name])
        frame = kwire.encode_request(request, version, correlation_id=number, client_id=member.name)
        self._note(member.name, to_broker=True, frame=frame)
        sent = self.send(request, version, client_id=member.name)
        self._open.append((member, sent, number, then))
        self._hear()

    def _note(self, name: str, *, to_broker: bool, frame: bytes) -> None:
        self._frames.append((micros(self.now), next(self._turns), name, to_broker, frame))

    def _hear(self) -> None:
        """Record the responses that have been sent, and pass each to its member."""
        answered = [one for one in self._open if one[1].done]
        self._open = [one for one in self._open if not one[1].done]
        for member, sent, number, then in answered:
            if sent.answer is None:
                continue
            frame = kwire.encode_response(sent.answer, sent.ticket.version, correlation_id=number)
            self._note(member.name, to_broker=False, frame=frame)
            then(sent.answer)

    def run(self, until: float) -> None:
        """Process all events before a time."""
        while (due := min(self.router.deadline(), self._due[0][0] if self._due else until)) < until:
            if self._due and self._due[0][0] <= due:
                when, _, member, what = heapq.heappop(self._due)
                self.wait(max(when - self.now, 0.0))
                if member is None or not member.gone:
                    what()
            else:
                self.wait(due - self.now)
            self._hear()

    def last_frame(self, member: CapturedMember, before: int) -> int:
        """Return the time of the last frame from or to a member, at or before a time, in microseconds."""
        return max(time_us for time_us, _, name, *_ in self._frames if name == member.name and time_us <= before)

    def segments(self) -> list[Segment]:
        """Return the TCP segments of all frames, with a connection for each member."""
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

    def tables(self, folder: Path) -> dict[str, Sequence[Row]]:
        """Return the tables of a capture of all frames."""
        file = folder / "virtual.pcap"
        file.write_bytes(pcap(packets(self.segments())))
        reading = read(file)
        items = list(reading)
        assert reading.problems == []
        calls = [item for item in items if isinstance(item, Call)]
        return analyse(calls, [item for item in items if isinstance(item, Connection)], "virtual")
