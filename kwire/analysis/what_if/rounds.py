"""The input of a replay: the generations in one life of a group, with members, subscriptions, assignments and times.

All values come from the group's tables and from ``Evidence``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from kwire.analysis.columns import MS, Row
from kwire.analysis.events import CLASSIC, CONSUMER, split_partition
from kwire.analysis.groups.outcome import REVOCATION
from kwire.analysis.what_if.evidence import Evidence
from kwire.assignors import Partition, Subscription, TopicPartition
from kwire.java import map_order
from kwire.lazy_dataclass import dataclass

Shares = dict[str, list[TopicPartition]]  # partitions by member id
Measured = Mapping[tuple[int, TopicPartition], int]  # µs without an owner, by generation and partition

MOST_PARTITIONS = 200_000  # maximum per topic: an assignment may contain the partition number 2147483647

_WITH_ASSIGNMENT = {"sync_done", "assigned"}


@dataclass(slots=True)
class Round:
    """A generation or epoch of the group, with the values that a replay needs. Times are microseconds since 1970.

    Attributes:
        row: row of ``rebalances``.
        members: member ids, in the order in which the assignor of the leader or the broker gets the members.
        present: the same member ids as a set.
        member_rows: rows of ``members`` in this generation, by member id.
        subscriptions: subscriptions by member id. A member whose subscription is unknown has no entry.
        topics: partitions of the subscribed topics, by topic.
        sized_by: source of ``topics``: ``metadata`` (Metadata responses), ``assignments`` (captured assignments) or
            ``both``; None if no partitions are known.
        shares: captured partitions by member id.
        owners_before: member id of the previous owner of each partition, as captured.
        informed: ids of members that received their assignment.
        asked: time of the first request with which a member rejoined, by member id.
        resumed: time at which a member received its assignment, by member id.
        gone: time at which a former member stopped reading, by member id.
        measured: time without an owner in microseconds, by generation and partition.
        late: member ids of static members that returned during the generation, in order of their return.
        too_large: name of a topic with more than MOST_PARTITIONS partitions that no Metadata response contains; None if
            no topic has so many.
        follow_up: True for the second rebalance of a cooperative assignor, in which revoked partitions are assigned.
    """

    row: Row
    members: list[str]
    present: set[str]
    member_rows: dict[str, Row]
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    topics: dict[str, list[Partition]] = field(default_factory=dict)
    sized_by: str | None = None
    shares: Shares = field(default_factory=dict)
    owners_before: dict[TopicPartition, str] = field(default_factory=dict)
    informed: set[str] = field(default_factory=set)
    asked: dict[str, int] = field(default_factory=dict)
    resumed: dict[str, int] = field(default_factory=dict)
    gone: Mapping[str, int] = field(default_factory=dict)
    measured: Measured = field(default_factory=dict)
    late: list[str] = field(default_factory=list)
    too_large: str | None = None
    follow_up: bool = False

    @property
    def generation(self) -> int:
        """The generation id of a classic group, or the group epoch."""
        number: int = self.row["to_generation"]
        return number

    @property
    def instances(self) -> dict[str, str]:
        """The member ids of static members, by instance id."""
        return {i: member for member in self.members if (i := self.member_rows[member]["instance_id"])}

    @property
    def identities(self) -> list[str]:
        """The instance ids of static members and the member ids of dynamic members, sorted in one list."""
        return sorted(self.member_rows[member]["instance_id"] or member for member in self.members)

    @property
    def started(self) -> int:
        moment: int = self.row["started_ts"]
        return moment

    @property
    def ended(self) -> int:
        moment: int | None = self.row["ended_ts"]
        return self.started if moment is None else moment

    def gave_up_by_itself(self, member: str, partition: TopicPartition) -> bool:
        """Return whether a classic member gave up a partition by rejoining without a subscription to the topic.

        Args:
            member: member id.
            partition: the partition.
        """
        wanted = self.subscriptions.get(member) if self.row["protocol"] == CLASSIC else None
        return wanted is not None and partition[0] not in wanted.topics

    def partitions(self) -> int:
        """Return the total partition count of all subscribed topics: the number of partitions to assign."""
        return sum(map(len, self.topics.values()))

    def same_group(self, before: Round) -> bool:
        """Return whether the generation ``before`` has the same members, subscriptions and partition counts.

        Static members are compared by instance id.
        """
        wanted = [
            {one.member_rows[m]["instance_id"] or m: set(s.topics) for m, s in one.subscriptions.items()}
            for one in (self, before)
        ]
        sizes = [{topic: len(partitions) for topic, partitions in one.topics.items()} for one in (self, before)]
        return self.identities == before.identities and wanted[0] == wanted[1] and sizes[0] == sizes[1]


def lives_of(tables: Mapping[str, Sequence[Row]]) -> Iterator[dict[str, list[Row]]]:
    """Yield the rows of each life of a group that can be replayed, by table name.

    A life of a group id ends when the group is deleted, expires or loses its state. A life with both protocols, classic
    and consumer, yields the rows of each protocol separately. Share and Streams groups are left out.

    ``tables``: rows of the groups with one group id, by table name.
    """
    lives: dict[tuple[str | None, int, str], dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for name in ("rebalances", "members", "assignments", "group_events"):
        for row in tables[name]:
            if row["protocol"] in (CLASSIC, CONSUMER):
                lives[row["cluster"], row["life"], row["protocol"]][name].append(row)
    for key in sorted(lives, key=lambda key: (key[0] or "", *key[1:])):
        yield lives[key]


def rounds_of(tables: Mapping[str, Sequence[Row]], evidence: Evidence) -> list[Round]:
    """Return the generations of one life, in order.

    A generation without members is included: the group became empty. A rebalance without a captured result is left out.

    Args:
        tables: tables from ``lives_of``.
        evidence: subscriptions and partitions of topics.
    """
    life = _Life(tables, evidence)
    rounds: list[Round] = []
    for row in tables["rebalances"]:
        if row["to_generation"] is None or row["members_after"] is None:
            continue
        one_round = life.round(row)
        if rounds and row["trigger"] == REVOCATION and row["protocol"] == CLASSIC:
            one_round.follow_up = one_round.same_group(rounds[-1])
        rounds.append(one_round)
    return rounds


class _Life:
    """A builder of the Rounds (generations) of one life of a group, see ``lives_of``.

    Args:
        tables: rows of this life, by table name.
        evidence: subscriptions and partitions of topics.
    """

    def __init__(self, tables: Mapping[str, Sequence[Row]], evidence: Evidence) -> None:
        self.events = tables["group_events"]
        self.evidence = evidence
        self.member_rows: dict[int, dict[str, Row]] = defaultdict(dict)
        for row in tables["members"]:
            self.member_rows[row["generation"]][row["member_id"]] = row
        self.assignments: dict[int, list[Row]] = defaultdict(list)
        for row in tables["assignments"]:
            self.assignments[row["generation"]].append(row)
        self.planned = {row["generation"]: row["ts"] for row in reversed(self.events) if row["event"] == "planned"}
        self.to_come = list(reversed(list(_wanted(self.events))))
        self.wanted: dict[str, list[str]] = {}
        self.most = 0  # largest number of members so far
        self.seen: dict[str, int] = {}  # partitions of each topic assigned so far
        self.gone = self._stopped_reading_at(tables["members"])
        self.measured = self._unowned_times()

    def round(self, row: Row) -> Round:
        generation, present = row["to_generation"], set(row["members_after"])
        member_rows = self.member_rows[generation]
        one_round = Round(row, sorted(present), present, member_rows, gone=self.gone, measured=self.measured)
        for share in self.assignments[generation]:
            partition = share["topic"], share["partition"]
            self.seen[partition[0]] = max(self.seen.get(partition[0], 0), partition[1] + 1)
            if share["member_id"] in present:
                one_round.shares.setdefault(share["member_id"], []).append(partition)
                if share["from_prev_owner"] is not None:
                    one_round.owners_before[partition] = share["from_prev_owner"]
        self._times(one_round)
        if row["protocol"] == CLASSIC:
            self._order_as_leader(one_round)
        else:
            self._order_as_broker(one_round)
        self._set_topic_partitions(one_round)
        late = [one for member, one in member_rows.items() if member not in present and one["instance_id"]]
        late.sort(key=lambda one: (one["joined_ts"] or 0, one["member_id"]))
        one_round.late = [one["member_id"] for one in late]
        return one_round

    def _times(self, one_round: Round) -> None:
        for member in one_round.members:
            member_row = one_round.member_rows[member]
            if member_row["resumed_ts"] is not None:
                one_round.resumed[member] = member_row["resumed_ts"]
                if member_row["join_ms"] is not None:
                    one_round.asked[member] = member_row["resumed_ts"] - round(member_row["join_ms"] * MS)
        unseen = {member for member in one_round.members if one_round.member_rows[member]["joined_ts"] is None}
        if one_round.row["protocol"] != CLASSIC:
            one_round.informed = set(one_round.members)
        elif one_round.resumed:
            one_round.informed = unseen | one_round.resumed.keys()

    def _order_as_leader(self, one_round: Round) -> None:
        """Set the subscriptions of a classic generation, and order its members as in the leader's member list.

        Members whose index in the list is unknown are last.
        """
        places: dict[str, int] = {}
        group, last = one_round.row["group_id"], max(one_round.ended, one_round.row["joined_ts"])
        for member in one_round.members:
            stated = self.evidence.subscription(group, member, one_round.generation, last)
            if stated is not None:
                places[member], one_round.subscriptions[member] = stated
        listed = len(one_round.members)
        one_round.members.sort(key=lambda member: (listed if (place := places.get(member, -1)) < 0 else place, member))

    def _order_as_broker(self, one_round: Round) -> None:
        """Set the subscriptions of an epoch from heartbeats, and order its members as the broker's assignor gets them.

        The broker's assignor gets the members in the iteration order of the Java HashMap in which the broker stores
        them.
        """
        self.most = max(self.most, len(one_round.members))
        joined = sorted(one_round.members, key=lambda member: (one_round.member_rows[member]["joined_ts"] or 0, member))
        one_round.members = map_order(joined, self.most)
        while self.to_come and self.to_come[-1][0] <= one_round.row["joined_ts"]:
            _, member, topics = self.to_come.pop()
            self.wanted[member] = topics
        for member in one_round.members:
            if (wanted := self.wanted.get(member)) is not None:
                instance = one_round.member_rows[member]["instance_id"]
                one_round.subscriptions[member] = Subscription(
                    list(self._matching_topics(wanted)), instance_id=instance
                )

    def _matching_topics(self, topics: Iterable[str]) -> Iterator[str]:
        """Yield topic names, and for each regular expression the names of matching topics.

        Only topics that were assigned to a member so far can match. An invalid regular expression yields nothing.

        ``topics``: topic names, and regular expressions as ``/regex/``.
        """
        for topic in topics:
            if not (topic.startswith("/") and topic.endswith("/")):
                yield topic
                continue
            try:
                fits = re.compile(topic[1:-1]).fullmatch
            except re.error:
                continue
            yield from (name for name in self.seen if fits(name))

    def _set_topic_partitions(self, one_round: Round) -> None:
        """Set ``topics``, ``sized_by`` and ``too_large`` of a generation: the partitions of each subscribed topic.

        The source is the last Metadata response before the assignment. Partitions that only captured assignments up to
        this generation contain are added. If these are more than MOST_PARTITIONS, the topic is stored in ``too_large``
        instead. The subscriptions of the generation must be set.
        """
        row, by = one_round.row, set()
        first = one_round.member_rows.get(row["leader"] or "")
        leader = None if first is None else (first["client_id"], first["host"])
        moment: int = self.planned.get(one_round.generation) or row["joined_ts"]
        for topic in sorted({topic for wanted in one_round.subscriptions.values() for topic in wanted.topics}):
            informed = self.evidence.partitions(row["cluster"], topic, moment, leader)
            if informed:
                by.add("metadata")
            if (more := self.seen.get(topic, 0) - len(informed)) > MOST_PARTITIONS:
                one_round.too_large = topic
            elif more > 0:
                informed = [*informed, *[Partition()] * more]
                by.add("assignments")
            if informed:
                one_round.topics[topic] = informed
        one_round.sized_by = "both" if len(by) > 1 else next(iter(by), None)

    def _stopped_reading_at(self, rows: Iterable[Row]) -> dict[str, int]:
        """Return the time at which each former member stopped reading, in microseconds since 1970.

        A member that left stopped at its leave request. A member that became silent stopped at its last request.

        ``rows``: rows of ``members``.
        """
        signs: dict[str, list[int]] = defaultdict(list)
        for event in self.events:
            if not event["inferred"]:
                signs[event["member_id"]].append(event["ts"])
        gone: dict[str, int] = {}
        for member_row in rows:
            member, left = member_row["member_id"], member_row["left_ts"]
            if left is not None and member_row["left_how"] != "suspended":
                earlier = [ts for ts in signs[member] if ts <= left] if member_row["left_how"] == "silent" else []
                gone[member] = max(earlier, default=left)
        return gone

    def _unowned_times(self) -> Measured:
        """Return the time for which each moved partition had no owner, in microseconds, by generation and partition.

        The time begins when the previous owner receives an assignment without the partition, or stops reading. It ends
        when the new owner receives an assignment with the partition.
        """
        line: list[tuple[int, int, str, Any]] = [(ts, 0, member, None) for member, ts in self.gone.items()]
        line += (
            (event["ts"], 1, event["member_id"], event)
            for event in self.events
            if event["event"] in _WITH_ASSIGNMENT and not event["error_code"] and event["partitions"] is not None
        )
        shares: dict[str, set[str]] = defaultdict(set)
        free: dict[str, int] = {}
        measured: dict[tuple[int, TopicPartition], int] = {}
        for ts, _, member, event in sorted(line, key=lambda one: one[:3]):
            share = set() if event is None else set(event["partitions"])
            for partition in shares[member] - share:
                free.setdefault(partition, ts)
            for partition in share - shares[member]:
                if (since := free.pop(partition, None)) is not None and event is not None:
                    measured.setdefault((event["generation"], split_partition(partition)), ts - since)
            shares[member] = share
        return measured


def _wanted(events: Iterable[Row]) -> Iterator[tuple[int, str, list[str]]]:
    """Yield the time, the member id and the topics of each subscription in a consumer group (KIP-848).

    The time is in microseconds since 1970. ``events``: rows of ``group_events``.
    """
    assigned_ids: dict[tuple[Any, ...], str] = {}
    own_events = [event for event in events if event["protocol"] == CONSUMER]
    for event in own_events:
        if event["event"] == "join_done":
            assigned_ids[event["conn_id"], event["number"]] = event["member_id"]
    for event in own_events:
        if event["event"] in ("join_sent", "subscribed") and event["topics"] is not None:
            member = event["member_id"] or assigned_ids.get((event["conn_id"], event["number"]))
            if member:
                yield event["ts"], member, event["topics"]
