from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from kwire.analysis.events import GroupEvent
from kwire.analysis.findings.model import (
    CRITICAL,
    GROUP,
    WARNING,
    Detector,
    Finding,
    Limits,
    Threshold,
    quoted,
    reference,
    seconds,
)
from kwire.analysis.findings.views import GroupView
from kwire.errorcodes import ErrorCode

NO_TOPIC = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
POLL_TIMEOUT = "poll timeout"  # in the reason of a LeaveGroup (KIP-800)


def detect(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each member that exceeded, or almost exceeded, its ``max.poll.interval.ms``.

    A member exceeded the interval if the reason in its LeaveGroup request says so. A member almost exceeded the
    interval if it fetched nothing for at least the fraction ``share`` of the interval while it sent heartbeats.
    ``share`` is a threshold in ``limits``.
    """
    leaves: dict[str | None, GroupEvent] = {}
    for one in group.of_kind.get("leave", ()):
        if POLL_TIMEOUT in (one.reason or ""):
            leaves.setdefault(one.member_id, one)
    for (life, member), row in sorted(group.memberships.items()):
        limit = row["rebalance_timeout_ms"]
        left = leaves.get(member)
        interval = "" if limit is None else f"; its max.poll.interval.ms is {seconds(limit * 1000)}"
        if left is not None:
            yield Finding(
                severity=CRITICAL,
                begin=left.ts - (limit or 0) * 1000,
                end=left.ts,
                cost=limit or 0,
                client_id=row["client_id"],
                member_id=member,
                sentence=f"{group.name(member)} left {quoted(group.group_id)} because it did not poll in "
                f"time{interval}.",
                evidence=[reference("group_events", member_id=member, event="leave", ts=left.ts)],
            )
            continue
        if not limit or row["joined_ts"] is None:
            continue
        polls = group.evidence.polls.get((life, member))
        if polls is None:
            continue
        begin, end, is_alive = polls.begin, polls.end, polls.is_alive
        until = row["left_ts"] or group.end
        if until - polls.reached > end - begin:  # the last pause is the longest one
            begin, end = polls.reached, until
            is_alive = group.earlier.last_heartbeat(group, member, end - 1) > begin
        begin, end = _longest_assigned(group, life, member, begin, end)
        least = limit * 1000 * limits["share"]
        if not is_alive or end - begin < least:
            continue
        end = _until_topics_deleted(group, life, member, begin, end)
        if end - begin >= least:
            yield Finding(
                severity=WARNING,
                begin=begin,
                end=end,
                cost=(end - begin) / 1000,
                client_id=row["client_id"],
                member_id=member,
                sentence=f"{group.name(member)} fetched nothing for {seconds(end - begin)} while it was in "
                f"{quoted(group.group_id)}{interval}.",
                evidence=[reference("members", member_id=member, generation=row["generation"], life=life)],
            )


def _longest_assigned(group: GroupView, life: int, member: str, begin: int, end: int) -> tuple[int, int]:
    """Return the longest part of a period in which the member had a partition: a member without one fetches nothing.

    Args:
        group: the group.
        life: number of the group's life.
        member: member id.
        begin: begin of the period, in microseconds since 1970.
        end: end of the period, in microseconds since 1970.
    """
    idle = group.idle.get((life, member), frozenset())
    if not idle:
        return begin, end
    states = [(begin, False)]  # since when the member had no partition (True), or at least one (False)
    states += [
        (max(begin, row["started_ts"]), row["to_generation"] in idle)
        for row in group.rebalances
        if row["life"] == life and row["started_ts"] < end
    ]
    changes = [next(run) for _, run in groupby(states, key=itemgetter(1))]
    ends = [*(start for start, _ in changes[1:]), end]
    parts = [(start, stop) for (start, is_idle), stop in zip(changes, ends, strict=True) if not is_idle]
    return max(parts, key=lambda part: part[1] - part[0])


def _until_topics_deleted(group: GroupView, life: int, member: str, begin: int, end: int) -> int:
    """Return the time in a period at which all assigned topics of the member no longer exist; ``end`` if one exists.

    A topic no longer exists if a commit of the member has the error UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID.
    Some consumers remain in their generation after that, and fetch nothing.

    Args:
        group: the group.
        life: number of the group's life.
        member: member id.
        begin: begin of the period, in microseconds since 1970.
        end: end of the period, in microseconds since 1970.
    """
    generations = [row["to_generation"] for row in group.rebalances if row["life"] == life and row["started_ts"] < end]
    assigned = group.shares(life, generations[-1]).get(member, ()) if generations else ()
    topics = {topic for topic, _ in assigned}
    for event in group.of_member.get(member, ()):
        if topics and event.error_code in NO_TOPIC and begin <= event.ts < end:
            topics.discard(event.topic or "")
            if not topics:
                return event.ts
    return end


DETECTOR = Detector(
    "slow-poll",
    GROUP,
    "A member sends heartbeats, but no Fetch for most of its `max.poll.interval.ms` (the rebalance timeout in its "
    "JoinGroup or heartbeat): the application processes one batch of records for too long. A member that left because "
    "of its poll timeout is also a finding; the reason in its LeaveGroup shows this (KIP-800). The traffic does not "
    "contain the polls. Consumers of librdkafka fetch ahead, so only their LeaveGroup reveals a slow poll. The time in "
    "which the member has no partitions does not count, nor the time after its commits show that its topics were "
    "deleted.",
    detect,
    (Threshold("share", 0.8, "time without a Fetch, as a fraction of the rebalance timeout"),),
)
