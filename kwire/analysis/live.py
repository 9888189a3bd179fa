"""The state of groups and APIs while traffic is captured: members, lag, rebalances, latency, errors.

All times are packet times; ``pass_time`` continues them while no packet arrives. Memory is bounded: groups and offsets
without traffic for EXPIRY_US are removed, and so are members whose session has expired. Each kind of entry also has a
maximum number. Above this number, the entries that were updated least recently are removed; new kinds of errors are
ignored.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import field
from heapq import heappop, heappush
from typing import Any

from kwire.analysis.events import GroupEvent, error_name
from kwire.analysis.extract import events_of
from kwire.analysis.live_groups import EXPIRY_US, LiveGroup, LiveMember
from kwire.analysis.topics import topic_names, watermarks
from kwire.analysis.usage import refusals
from kwire.capture.calls.model import Call
from kwire.lazy_dataclass import dataclass
from kwire.messages import NAMES

MAX_GROUPS = 10_000
MAX_PARTITIONS = 200_000  # end offsets, and commits and owners of all groups
MAX_TOPIC_IDS = 100_000
MAX_ERRORS = 2_000  # pairs of an API and an error
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_COMMITS = {"commit", "commit_error", "txn_commit", "txn_commit_error"}


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
        now_us: latest time of a call, in microseconds since 1970. A call that is more than EXPIRY_US earlier sets it
            back, because the clock was set back or the next file begins.
        clock_us: ``now_us``, or the later time of the latest ``pass_time``.
        groups: groups by id, in the order of their latest events.
        apis: calls by name of the API.
        errors: number of error codes in responses, by name of the API and name of the error.
        ends: high watermark, and its time in microseconds since 1970, by topic and partition.
        connections: number of connections that have ended.
        problems: number of damaged parts of the capture.
        lost: number of packets that were lost at the interface, because they were not read in time.
    """

    def __init__(self) -> None:
        self.now_us = self.clock_us = 0
        self.groups: OrderedDict[str, LiveGroup] = OrderedDict()
        self.apis: dict[str, LiveApi] = {}
        self.errors: Counter[tuple[str, str]] = Counter()
        self.ends: OrderedDict[tuple[str, int], tuple[int, int]] = OrderedDict()
        self.connections = self.problems = self.lost = 0
        self._names: OrderedDict[str, str] = OrderedDict()
        self._is_renamed = False  # a topic has got its name since use_names
        self._places = 0  # partitions of all groups
        self._checks: list[tuple[int, int, str, str, LiveMember]] = []  # heap: when to check a member's session
        self._added = 0  # members, which orders checks at one time

    def note(self, call: Call) -> None:
        """Add a call, and remove expired entries."""
        at = call.response_us if call.response_us is not None else call.request_us
        if at is not None and (at > self.now_us or at < self.now_us - EXPIRY_US):
            self.now_us = at
        self.clock_us = self.now_us
        self._note_api(call)
        for key, name in topic_names(call).items():
            self._is_renamed |= key not in self._names
            _put(self._names, key, name, MAX_TOPIC_IDS)
        for mark in watermarks(call):
            _put(self.ends, (self._name(mark.topic), mark.partition), (mark.offset, mark.ts), MAX_PARTITIONS)
        events = events_of(call)
        for event in events:
            self._note_event(event, events)
        self._expire_members()
        self._expire()

    def pass_time(self, us: int) -> None:
        """Remove members whose session is over because no call is captured.

        ``us``: time since the latest call was captured, in microseconds.
        """
        if self.now_us:
            self.clock_us = self.now_us + us
            self._expire_members()

    def use_names(self) -> None:
        """Replace the id of each topic whose name is known by now.

        In a capture that begins while clients are connected, the names come later than the first Fetch requests.
        """
        if not self._is_renamed:
            return
        self._is_renamed = False
        self.ends = self._named(self.ends)
        for group in self.groups.values():
            group.commits = self._named(group.commits)
        self._places = sum(group.places for group in self.groups.values())

    def _named(
        self, offsets: OrderedDict[tuple[str, int], tuple[int, int]]
    ) -> OrderedDict[tuple[str, int], tuple[int, int]]:
        """Return offsets and their times by topic name and partition, in the same order.

        ``offsets``: offsets and their times by topic name or id, and partition. The latest is last.
        """
        made: OrderedDict[tuple[str, int], tuple[int, int]] = OrderedDict()
        for (topic, partition), latest in offsets.items():
            _put(made, (self._name(topic), partition), latest, MAX_PARTITIONS)
        return made

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
            seconds = max(call.response_us - call.request_us, 0) / 1e6
            api.responses += 1
            api.seconds += seconds
            api.buckets[bisect_left(BUCKETS_S, seconds)] += 1
        for refused in refusals(call):
            error = name, error_name(refused.code) or str(refused.code)
            if error in self.errors or len(self.errors) < MAX_ERRORS:
                self.errors[error] += 1

    def _note_event(self, event: GroupEvent, call: Sequence[GroupEvent]) -> None:
        group = self.groups.get(event.group_id)
        if group is None:
            group = self.groups[event.group_id] = LiveGroup()
        self.groups.move_to_end(event.group_id)
        before = group.places
        added = group.note(event, call)
        if added is not None:
            self._check_later(event.group_id, event.member_id or "", added, group.deadline(added))
        if event.event in _COMMITS:
            self._note_commit(group, event)
        self._places += group.places - before

    def _check_later(self, group_id: str, member_id: str, member: LiveMember, at: int) -> None:
        self._added += 1
        heappush(self._checks, (at, self._added, group_id, member_id, member))

    def _expire_members(self) -> None:
        """Remove members whose session is over."""
        now = self.clock_us
        while self._checks and self._checks[0][0] < now:
            _, _, group_id, member_id, member = heappop(self._checks)
            group = self.groups.get(group_id)
            if group is None or group.members.get(member_id) is not member:
                continue  # it was removed before
            over = group.deadline(member)
            if over >= now:
                self._check_later(group_id, member_id, member, min(over, now + member.session_us))
                continue
            before = group.places
            group.remove(member_id)
            self._places += group.places - before

    def _note_commit(self, group: LiveGroup, event: GroupEvent) -> None:
        if event.topic is None or event.partition is None or event.offset is None:
            return
        if event.error_code:
            group.refused += 1
        elif event.error_code == 0 and event.event == "commit":
            place = self._name(event.topic), event.partition
            group.commits[place] = event.offset, event.ts
            group.commits.move_to_end(place)

    def _expire(self) -> None:
        """Remove entries without traffic for EXPIRY_US, and the oldest groups above the limits.

        Such entries are groups, high watermarks, and the committed offsets of the group with the latest event. The
        groups with the oldest events are removed if there are too many groups, or too many partitions in all groups.
        """
        before = self.now_us - EXPIRY_US
        while self.groups:
            name, oldest = next(iter(self.groups.items()))
            if oldest.seen_us >= before and len(self.groups) <= MAX_GROUPS and self._places <= MAX_PARTITIONS:
                break
            self._places -= oldest.places
            del self.groups[name]
        while self.ends and next(iter(self.ends.values()))[1] < before:
            self.ends.popitem(last=False)
        if self.groups:
            last = next(reversed(self.groups.values()))
            while last.commits and next(iter(last.commits.values()))[1] < before:
                last.commits.popitem(last=False)
                self._places -= 1


def _put(kept: OrderedDict[Any, Any], key: Any, value: Any, most: int) -> None:
    """Set a value and move its key to the end. If there are more than ``most`` keys then, remove the first key."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)
