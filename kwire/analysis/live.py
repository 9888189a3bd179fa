"""The state of groups and APIs while traffic is captured: members, lag, rebalances, latency, errors.

All times are packet times. Memory is bounded: groups, members and offsets without traffic for EXPIRY_US are removed.
Each kind of entry also has a maximum number. Above this number, the entries that were updated least recently are
removed; new kinds of errors are ignored.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from kwire.analysis.events import GroupEvent, error_name
from kwire.analysis.extract import events_of
from kwire.analysis.topics import topic_names, watermarks
from kwire.analysis.usage import refusals
from kwire.capture.calls.model import Call
from kwire.lazy_dataclass import dataclass
from kwire.messages import NAMES

EXPIRY_US = 900_000_000  # of members, groups and offsets that are not seen again
MAX_GROUPS = 10_000
MAX_MEMBERS = 5_000  # of one group
MAX_PARTITIONS = 200_000  # end offsets, and commits of all groups
MAX_TOPIC_IDS = 100_000
MAX_ERRORS = 2_000  # pairs of an API and an error
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

# Events that show that a member takes part in its group.
_ALIVE = {"join_done", "sync_done", "heartbeat", "epoch_change", "assigned", "owned"}
_COMMITS = {"commit", "commit_error", "txn_commit", "txn_commit_error"}


@dataclass(slots=True)
class LiveMember:
    """A group member in the captured traffic.

    Attributes:
        client_id: client id; None if the request headers contain none.
        host: address of the client.
        seen_us: time of the latest event of the member, in microseconds since 1970.
        partitions: number of partitions in the latest assignment that the member received.
    """

    client_id: str | None
    host: str | None
    seen_us: int
    partitions: int = 0


@dataclass(slots=True)
class LiveGroup:
    """A group in the captured traffic.

    Attributes:
        protocol: ``classic``, ``consumer``, ``share`` or ``streams``; None if no request has shown the protocol.
        generation: latest generation or epoch; None before the first.
        rebalances: number of increases of the generation or epoch.
        rebalanced_us: time of the latest rebalance in microseconds since 1970; None before the first.
        members: members by member id.
        commits: committed offset, and time in microseconds since 1970, by topic and partition. The partition with the
            latest commit is last. Commits in transactions are not included.
        refused: number of commits with an error.
        seen_us: time of the latest event of the group, in microseconds since 1970.
    """

    protocol: str | None = None
    generation: int | None = None
    rebalances: int = 0
    rebalanced_us: int | None = None
    members: OrderedDict[str, LiveMember] = field(default_factory=OrderedDict)
    commits: OrderedDict[tuple[str, int], tuple[int, int]] = field(default_factory=OrderedDict)
    refused: int = 0
    seen_us: int = 0


@dataclass(slots=True)
class LiveApi:
    """The counts of the calls of one API.

    Attributes:
        requests: number of captured requests.
        responses: number of captured responses to captured requests.
        seconds: sum of the latencies, in seconds.
        buckets: number of responses by latency. The key is an index in BUCKETS_S: that of the smallest bound that is at
            least as large as the latency. A latency above all bounds has the index after the last one.
    """

    requests: int = 0
    responses: int = 0
    seconds: float = 0.0
    buckets: Counter[int] = field(default_factory=Counter)


class LiveState:
    """The state of all groups and APIs.

    Attributes:
        now_us: latest time of a call, in microseconds since 1970.
        groups: groups by id, in the order of their latest events.
        apis: calls by name of the API.
        errors: number of error codes in responses, by name of the API and name of the error.
        ends: high watermark, and its time in microseconds since 1970, by topic and partition.
        connections: number of connections that have ended.
        problems: number of damaged parts of the capture.
        lost: number of packets that were lost at the interface, because they were not read in time.
    """

    def __init__(self) -> None:
        self.now_us = 0
        self.groups: OrderedDict[str, LiveGroup] = OrderedDict()
        self.apis: dict[str, LiveApi] = {}
        self.errors: Counter[tuple[str, str]] = Counter()
        self.ends: OrderedDict[tuple[str, int], tuple[int, int]] = OrderedDict()
        self.connections = self.problems = self.lost = 0
        self._names: OrderedDict[str, str] = OrderedDict()
        self._commits = 0

    def note(self, call: Call) -> None:
        """Add a call, and remove expired entries."""
        at = call.response_us if call.response_us is not None else call.request_us
        self.now_us = max(self.now_us, at or 0)
        self._note_api(call)
        for key, name in topic_names(call).items():
            _put(self._names, key, name, MAX_TOPIC_IDS)
        for mark in watermarks(call):
            _put(self.ends, (self._name(mark.topic), mark.partition), (mark.offset, mark.ts), MAX_PARTITIONS)
        for event in events_of(call):
            self._note_event(event)
        self._expire()

    def lags(self, group: LiveGroup) -> Iterator[tuple[str, int, int, int | None]]:
        """Yield topic, partition, committed offset and lag for each partition that a group has committed.

        The lag is the number of records between the committed offset and the high watermark. It is None if no high
        watermark was captured.
        """
        for (topic, partition), (offset, _) in sorted(group.commits.items()):
            end = self.ends.get((topic, partition))
            yield topic, partition, offset, None if end is None else max(end[0] - offset, 0)

    def _name(self, topic: str) -> str:
        return self._names.get(topic, topic)

    def _note_api(self, call: Call) -> None:
        name = "unknown" if call.api_key is None else NAMES.get(call.api_key, "unknown")
        api = self.apis.setdefault(name, LiveApi())
        api.requests += call.request_us is not None
        if call.request_us is not None and call.response_us is not None:
            seconds = (call.response_us - call.request_us) / 1e6
            api.responses += 1
            api.seconds += seconds
            api.buckets[bisect_left(BUCKETS_S, seconds)] += 1
        for refused in refusals(call):
            error = name, error_name(refused.code) or str(refused.code)
            if error in self.errors or len(self.errors) < MAX_ERRORS:
                self.errors[error] += 1

    def _note_event(self, event: GroupEvent) -> None:
        group = self.groups.get(event.group_id)
        if group is None:
            group = self.groups[event.group_id] = LiveGroup()
        self.groups.move_to_end(event.group_id)
        group.seen_us = max(group.seen_us, event.ts)
        group.protocol = event.protocol or group.protocol
        if event.event in _ALIVE and not event.error_code:
            self._note_member(group, event)
        elif event.event == "leave" and event.member_id is not None and not event.error_code:
            group.members.pop(event.member_id, None)
        elif event.event in _COMMITS:
            self._note_commit(group, event)

    @staticmethod
    def _note_member(group: LiveGroup, event: GroupEvent) -> None:
        if event.generation is not None and (group.generation is None or event.generation > group.generation):
            if group.generation is not None:
                group.rebalances += 1
                group.rebalanced_us = event.ts
            group.generation = event.generation
        if event.members and event.generation == group.generation:  # all members of the generation
            for gone in group.members.keys() - set(event.members):
                del group.members[gone]
        if not event.member_id:
            return
        member = group.members.get(event.member_id) or LiveMember(event.client_id, event.host, event.ts)
        member.seen_us = max(member.seen_us, event.ts)
        if event.partitions is not None and event.event in ("sync_done", "assigned"):
            member.partitions = len(event.partitions)
        _put(group.members, event.member_id, member, MAX_MEMBERS)

    def _note_commit(self, group: LiveGroup, event: GroupEvent) -> None:
        if event.topic is None or event.partition is None or event.offset is None:
            return
        if event.error_code:
            group.refused += 1
        elif event.error_code == 0 and event.event == "commit":
            place = self._name(event.topic), event.partition
            self._commits += place not in group.commits
            group.commits[place] = event.offset, event.ts
            group.commits.move_to_end(place)

    def _expire(self) -> None:
        """Remove entries without traffic for EXPIRY_US, and the oldest groups above the limits.

        Such entries are groups, high watermarks, and the members and committed offsets of the group with the latest
        event. The groups with the oldest events are removed if there are too many groups, or too many commits in all
        groups.
        """
        before = self.now_us - EXPIRY_US
        while self.groups:
            name, oldest = next(iter(self.groups.items()))
            if oldest.seen_us >= before and len(self.groups) <= MAX_GROUPS and self._commits <= MAX_PARTITIONS:
                break
            self._commits -= len(oldest.commits)
            del self.groups[name]
        while self.ends and next(iter(self.ends.values()))[1] < before:
            self.ends.popitem(last=False)
        if self.groups:
            last = next(reversed(self.groups.values()))
            while last.members and next(iter(last.members.values())).seen_us < before:
                last.members.popitem(last=False)
            while last.commits and next(iter(last.commits.values()))[1] < before:
                last.commits.popitem(last=False)
                self._commits -= 1


def _put(kept: OrderedDict[Any, Any], key: Any, value: Any, most: int) -> None:
    """Set a value and move its key to the end. If there are more than ``most`` keys then, remove the first key."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)
