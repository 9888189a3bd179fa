from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from operator import sub

from kwire.analysis.events import CLASSIC, CONSUMER, GroupEvent
from kwire.analysis.findings.model import (
    GROUP,
    NOTICE,
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

_ASKED = {"join_sent", "sync_sent"}
_COMMITS = {"commit", "commit_error"}


def detect_near_misses(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each member that almost expired: it sent nothing for the fraction ``share`` of its session
    timeout.

    If the session timeout was not captured, ``session_timeout_ms`` is used instead. Both are thresholds in ``limits``.
    The time in which a member waits for a response to JoinGroup or SyncGroup does not count.
    """
    for (_, member), row in sorted(group.memberships.items()):
        timeout = row["session_timeout_ms"] or limits["session_timeout_ms"]
        least = timeout * 1000 * limits["share"]
        worst: tuple[int, GroupEvent, GroupEvent] | None = None
        signs = group.signs.get(member, ())
        times = [one.ts for one in signs]
        if max(map(sub, times[1:], times), default=0) < least:
            continue
        for earlier, later in pairwise(signs):
            silence = later.ts - earlier.ts
            if silence >= least and earlier.event not in _ASKED and silence > (worst[0] if worst else 0):
                worst = silence, earlier, later
        if worst is None:
            continue
        silence, earlier, later = worst
        yield Finding(
            severity=WARNING,
            begin=earlier.ts,
            end=later.ts,
            cost=silence / 1000,
            client_id=row["client_id"],
            member_id=member,
            sentence=f"{group.name(member)} sent nothing to the coordinator of {quoted(group.group_id)} for "
            f"{seconds(silence)}; its session timeout is {seconds(timeout * 1000)}.",
            evidence=[
                reference("group_events", member_id=member, event=one.event, ts=one.ts) for one in (earlier, later)
            ],
        )


def detect_jitter(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each member with at least ``late`` late heartbeats.

    A heartbeat is late if its interval is at least ``ratio`` times the usual interval, and at least ``late_ms`` longer
    than the usual interval. The member must have at least ``count`` intervals. The usual interval is the interval that
    the broker requests (KIP-848 groups), or else the lower quartile of the member's intervals. ``late``, ``ratio``,
    ``late_ms`` and ``count`` are thresholds in ``limits``.
    """
    for (_, member), row in sorted(group.memberships.items()):
        signs = [one for one in group.signs.get(member, ()) if one.event not in _COMMITS]
        beats = [
            (earlier, later)
            for earlier, later in pairwise(signs)
            if earlier.event == later.event == "heartbeat" and later.ts > earlier.ts
        ]
        intervals = [later.ts - earlier.ts for earlier, later in beats]
        if row["protocol"] not in (CLASSIC, CONSUMER) or not intervals or len(intervals) < limits["count"]:
            continue
        asked = beats[-1][1].interval_ms  # the broker of a KIP-848 group asks for an interval
        usual = asked * 1000 if asked else sorted(intervals)[len(intervals) // 4]  # up to half of them may be late
        late = [one for one in intervals if one >= usual * limits["ratio"] and one - usual >= limits["late_ms"] * 1000]
        if len(late) < max(limits["late"], 1):
            continue
        events = group.of_member[member]
        yield Finding(
            severity=NOTICE,
            begin=events[0].ts,
            end=events[-1].ts,
            cost=max(late) / 1000,
            client_id=row["client_id"],
            member_id=member,
            sentence=f"Heartbeats of {group.name(member)} in {quoted(group.group_id)} are irregular: {len(late)} of "
            f"{len(intervals)} were {seconds(min(late))} or more after the previous one; usual: {seconds(usual)}.",
            evidence=[reference("group_events", member_id=member, event="heartbeat")],
        )


NEAR_MISS = Detector(
    "heartbeat-near-miss",
    GROUP,
    "A member sent no request to the coordinator for most of its session timeout, and then sent one again. A pause of "
    "the process or of the network almost evicted it. The time in which a member waits for a JoinGroup or SyncGroup "
    "response does not count. The requests of KIP-848 groups do not contain the session timeout: the threshold "
    "`session_timeout_ms` is used instead.",
    detect_near_misses,
    (
        Threshold("share", 0.7, "time without a request, as a fraction of the session timeout"),
        Threshold("session_timeout_ms", 45_000, "session timeout of a member whose requests do not contain it, in ms"),
    ),
)
JITTER = Detector(
    "heartbeat-jitter",
    GROUP,
    "A member sends heartbeats at irregular intervals, for example because its process lacks CPU time, collects "
    "garbage or is blocked. The usual interval is the lower quartile of the member's intervals; in KIP-848 groups it "
    "is the interval in the heartbeat responses. A heartbeat is late if it exceeds both `ratio` and `late_ms`.",
    detect_jitter,
    (
        Threshold("count", 10, "minimum number of captured intervals between heartbeats"),
        Threshold("ratio", 1.5, "interval before a late heartbeat, divided by the usual interval"),
        Threshold("late_ms", 250, "interval before a late heartbeat, minus the usual interval, in ms"),
        Threshold("late", 3, "number of late heartbeats"),
    ),
)
