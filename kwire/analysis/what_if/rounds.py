"""The generations of one life of a group as a replay needs them: who was there, what they wanted, what they got, when.

All is taken from the rows of the group's own tables, and from ``Evidence``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kwire.analysis.columns import MS, Row
from kwire.analysis.events import CLASSIC, CONSUMER, split_partition
from kwire.analysis.groups.outcome import REVOCATION
from kwire.analysis.what_if.evidence import Evidence
from kwire.assignors import Partition, Subscription, TopicPartition
from kwire.java import map_order

Shares = dict[str, list[TopicPartition]]  # by member id
Measured = Mapping[tuple[int, TopicPartition], int]  # by generation: µs without an owner

MOST_PARTITIONS = 200_000  # of a topic, as far as assignments tell: any member may claim to have number 2147483647

_TOLD = {"sync_done", "assigned"}


@dataclass(slots=True)
class Round:
    """A generation. ``row``: of ``rebalances``; ``members``: in the order in which the leader, or the broker, has them,
    and as the set ``present``; ``late``: static members that came back in it, in this order; ``people``: rows of all;
    ``too_large``: a topic of more than MOST_PARTITIONS.

    ``told``: members that know their share, empty if nobody does. ``asked`` and ``resumed``: when a member first asked
    to rejoin, and when it was told, in µs; ``gone``: since when nobody reads what a former member had; ``measured``:
    how long partitions that moved by themselves were nobody's.
    """

    row: Row
    members: list[str]
    present: set[str]
    people: dict[str, Row]
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    topics: dict[str, list[Partition]] = field(default_factory=dict)
    sized_by: str | None = None
    shares: Shares = field(default_factory=dict)
    owners_before: dict[TopicPartition, str] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    asked: dict[str, int] = field(default_factory=dict)
    resumed: dict[str, int] = field(default_factory=dict)
    gone: Mapping[str, int] = field(default_factory=dict)
    measured: Measured = field(default_factory=dict)
    late: list[str] = field(default_factory=list)
    too_large: str | None = None
    follow_up: bool = False

    @property
    def generation(self) -> int:
        """Its number."""
        found: int = self.row["to_generation"]
        return found

    @property
    def instances(self) -> dict[str, str]:
        """Member ids of static members, by instance id."""
        return {i: member for member in self.members if (i := self.people[member]["instance_id"])}

    @property
    def identities(self) -> list[str]:
        """The members, static ones by their instance."""
        return sorted(self.people[member]["instance_id"] or member for member in self.members)

    @property
    def started(self) -> int:
        found: int = self.row["started_ts"]
        return found

    @property
    def ended(self) -> int:
        found: int | None = self.row["ended_ts"]
        return self.started if found is None else found

    def gave_up_by_itself(self, member: str, partition: TopicPartition) -> bool:
        """Whether a member of a classic group asked to rejoin without subscribing to it any more."""
        wanted = self.subscriptions.get(member) if self.row["protocol"] == CLASSIC else None
        return wanted is not None and partition[0] not in wanted.topics

    def partitions(self) -> int:
        """How many there are to share out."""
        return sum(map(len, self.topics.values()))

    def same_group(self, before: Round) -> bool:
        """Whether the same members want the same as in the generation before."""
        wanted = [
            {one.people[m]["instance_id"] or m: set(s.topics) for m, s in one.subscriptions.items()}
            for one in (self, before)
        ]
        sizes = [{topic: len(partitions) for topic, partitions in one.topics.items()} for one in (self, before)]
        return self.identities == before.identities and wanted[0] == wanted[1] and sizes[0] == sizes[1]


def lives_of(tables: Mapping[str, list[Row]]) -> Iterator[dict[str, list[Row]]]:
    """The rows of each group of one name, each of its lives and protocols that can be replayed, by table."""
    found: dict[tuple[str | None, int, str], dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for name in ("rebalances", "members", "assignments", "group_events"):
        for row in tables[name]:
            if row["protocol"] in (CLASSIC, CONSUMER):
                found[row["cluster"], row["life"], row["protocol"]][name].append(row)
    for key in sorted(found, key=lambda key: (key[0] or "", *key[1:])):
        yield found[key]


def rounds_of(tables: Mapping[str, list[Row]], evidence: Evidence) -> list[Round]:
    """The generations, in order. Without members: the group became empty. ``tables``: as ``lives_of`` gives them."""
    life = _Life(tables, evidence)
    found: list[Round] = []
    for row in tables["rebalances"]:
        if row["to_generation"] is None or row["members_after"] is None:
            continue
        made = life.round(row)
        if found and row["trigger"] == REVOCATION and row["protocol"] == CLASSIC:
            made.follow_up = made.same_group(found[-1])
        found.append(made)
    return found


class _Life:
    def __init__(self, tables: Mapping[str, list[Row]], evidence: Evidence) -> None:
        self.events = tables["group_events"]
        self.evidence = evidence
        self.people: dict[int, dict[str, Row]] = defaultdict(dict)
        for row in tables["members"]:
            self.people[row["generation"]][row["member_id"]] = row
        self.assignments: dict[int, list[Row]] = defaultdict(list)
        for row in tables["assignments"]:
            self.assignments[row["generation"]].append(row)
        self.planned = {row["generation"]: row["ts"] for row in reversed(self.events) if row["event"] == "planned"}
        self.to_come = list(reversed(list(_wanted(self.events))))
        self.wanted: dict[str, list[str]] = {}
        self.most = 0  # members at one time
        self.seen: dict[str, int] = {}  # topics, and how many partitions of each were assigned so far
        self.gone = self._gone(tables["members"])
        self.measured = self._measured()

    def round(self, row: Row) -> Round:
        generation, present = row["to_generation"], set(row["members_after"])
        people = self.people[generation]
        made = Round(row, sorted(present), present, people, gone=self.gone, measured=self.measured)
        for share in self.assignments[generation]:
            partition = share["topic"], share["partition"]
            self.seen[partition[0]] = max(self.seen.get(partition[0], 0), partition[1] + 1)
            if share["member_id"] in present:
                made.shares.setdefault(share["member_id"], []).append(partition)
                if share["from_prev_owner"] is not None:
                    made.owners_before[partition] = share["from_prev_owner"]
        self._times(made)
        if row["protocol"] == CLASSIC:
            self._of_leader(made)
        else:
            self._of_broker(made)
        self._size(made)
        late = [one for member, one in people.items() if member not in present and one["instance_id"]]
        late.sort(key=lambda one: (one["joined_ts"] or 0, one["member_id"]))
        made.late = [one["member_id"] for one in late]
        return made

    def _times(self, made: Round) -> None:
        for member in made.members:
            person = made.people[member]
            if person["resumed_ts"] is not None:
                made.resumed[member] = person["resumed_ts"]
                if person["join_ms"] is not None:
                    made.asked[member] = person["resumed_ts"] - round(person["join_ms"] * MS)
        unseen = {member for member in made.members if made.people[member]["joined_ts"] is None}
        if made.row["protocol"] != CLASSIC:
            made.told = set(made.members)
        elif made.resumed:
            made.told = unseen | made.resumed.keys()

    def _of_leader(self, made: Round) -> None:
        """Members in the order of its list."""
        places: dict[str, int] = {}
        group, last = made.row["group_id"], max(made.ended, made.row["joined_ts"])
        for member in made.members:
            found = self.evidence.subscription(group, member, made.generation, last)
            if found is not None:
                places[member], made.subscriptions[member] = found
        listed = len(made.members)
        made.members.sort(key=lambda member: (listed if (place := places.get(member, -1)) < 0 else place, member))

    def _of_broker(self, made: Round) -> None:
        """Members in the order of its HashMap; what they want is in their heartbeats."""
        self.most = max(self.most, len(made.members))
        joined = sorted(made.members, key=lambda member: (made.people[member]["joined_ts"] or 0, member))
        made.members = map_order(joined, self.most)
        while self.to_come and self.to_come[-1][0] <= made.row["joined_ts"]:
            _, member, topics = self.to_come.pop()
            self.wanted[member] = topics
        for member in made.members:
            if (wanted := self.wanted.get(member)) is not None:
                instance = made.people[member]["instance_id"]
                made.subscriptions[member] = Subscription(list(self._resolved(wanted)), instance_id=instance)

    def _resolved(self, topics: Iterable[str]) -> Iterator[str]:
        """Names; those of an expression are what it fits of what was assigned so far."""
        for topic in topics:
            if not (topic.startswith("/") and topic.endswith("/")):
                yield topic
                continue
            try:
                fits = re.compile(topic[1:-1]).fullmatch
            except re.error:
                continue
            yield from (name for name in self.seen if fits(name))

    def _size(self, made: Round) -> None:
        """Partitions of the topics, as told when the shares were made, or as assigned until then."""
        row, by = made.row, set()
        first = made.people.get(row["leader"] or "")
        leader = None if first is None else (first["client_id"], first["host"])
        moment: int = self.planned.get(made.generation) or row["joined_ts"]
        for topic in sorted({topic for wanted in made.subscriptions.values() for topic in wanted.topics}):
            told = self.evidence.partitions(row["cluster"], topic, moment, leader)
            if told:
                by.add("metadata")
            if (more := self.seen.get(topic, 0) - len(told)) > MOST_PARTITIONS:
                made.too_large = topic
            elif more > 0:
                told = [*told, *[Partition()] * more]
                by.add("assignments")
            if told:
                made.topics[topic] = told
        made.sized_by = "both" if len(by) > 1 else next(iter(by), None)

    def _gone(self, people: Iterable[Row]) -> dict[str, int]:
        """When members were gone for what they had: when they left, or were last heard of if they fell silent."""
        signs: dict[str, list[int]] = defaultdict(list)
        for event in self.events:
            if not event["inferred"]:
                signs[event["member_id"]].append(event["ts"])
        found: dict[str, int] = {}
        for person in people:
            member, left = person["member_id"], person["left_ts"]
            if left is not None and person["left_how"] != "suspended":
                earlier = [ts for ts in signs[member] if ts <= left] if person["left_how"] == "silent" else []
                found[member] = max(earlier, default=left)
        return found

    def _measured(self) -> Measured:
        """How long partitions were nobody's: from where one member was told to give them up, or was gone."""
        line: list[tuple[int, int, str, Any]] = [(ts, 0, member, None) for member, ts in self.gone.items()]
        line += (
            (event["ts"], 1, event["member_id"], event)
            for event in self.events
            if event["event"] in _TOLD and not event["error_code"] and event["partitions"] is not None
        )
        shares: dict[str, set[str]] = defaultdict(set)
        free: dict[str, int] = {}
        found: dict[tuple[int, TopicPartition], int] = {}
        for ts, _, member, event in sorted(line, key=lambda one: one[:3]):
            share = set() if event is None else set(event["partitions"])
            for partition in shares[member] - share:
                free.setdefault(partition, ts)
            for partition in share - shares[member]:
                if (since := free.pop(partition, None)) is not None and event is not None:
                    found.setdefault((event["generation"], split_partition(partition)), ts - since)
            shares[member] = share
        return found


def _wanted(events: Iterable[Row]) -> Iterator[tuple[int, str, list[str]]]:
    """When which member of a KIP-848 group said what it subscribes to."""
    given: dict[tuple[Any, ...], str] = {}
    found = [event for event in events if event["protocol"] == CONSUMER]
    for event in found:
        if event["event"] == "join_done":
            given[event["conn_id"], event["number"]] = event["member_id"]
    for event in found:
        if event["event"] in ("join_sent", "subscribed") and event["topics"] is not None:
            member = event["member_id"] or given.get((event["conn_id"], event["number"]))
            if member:
                yield event["ts"], member, event["topics"]
