from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate

from kwire.analysis.events import CLASSIC, CONSUMER
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


def detect_near_misses(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each member that almost expired, or returned after it had expired: it sent nothing for the
    fraction ``share`` of its session timeout.

    If the session timeout was not captured, ``session_timeout_ms`` is used instead. Both are thresholds in ``limits``.
    The time in which a member waits for a response to JoinGroup or SyncGroup does not count.
    """
    for (_, member), row in sorted(group.memberships.items()):
        timeout = row["session_timeout_ms"] or limits["session_timeout_ms"]
        silence = group.evidence.silences.get(member)
        if silence is None or silence.begin is None or silence.end is None:
            continue
        if silence.length < timeout * 1000 * limits["share"]:
            continue
        is_evicted = row["left_how"] == "silent" and silence.begin[0] <= row["left_ts"] <= silence.end[0]
        yield Finding(
            severity=WARNING,
            begin=silence.begin[0],
            end=silence.end[0],
            cost=silence.length / 1000,
            client_id=row["client_id"],
            member_id=member,
            sentence=f"{group.name(member)} sent nothing to the coordinator of {quoted(group.group_id)} for "
            f"{seconds(silence.length)}{' and was evicted' if is_evicted else ''}; its session timeout is "
            f"{seconds(timeout * 1000)}.",
            evidence=[
                reference("group_events", member_id=member, event=kind, ts=ts)
                for ts, kind in (silence.begin, silence.end)
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
        beats = group.evidence.beats.get(member)
        count = sum(beats.intervals.values()) if beats else 0
        if row["protocol"] not in (CLASSIC, CONSUMER) or not beats or not count or count < limits["count"]:
            continue
        usual = beats.asked or _quartile(beats.intervals)  # up to half of them may be late
        late = [ms for ms in beats.intervals if ms >= usual * limits["ratio"] and ms - usual >= limits["late_ms"]]
        number = sum(beats.intervals[ms] for ms in late)
        if number < max(limits["late"], 1):
            continue
        events = group.of_member[member]
        yield Finding(
            severity=NOTICE,
            begin=events[0].ts,
            end=events[-1].ts,
            cost=max(late),
            client_id=row["client_id"],
            member_id=member,
            sentence=f"Heartbeats of {group.name(member)} in {quoted(group.group_id)} are irregular: {number} of "
            f"{count} were {seconds(min(late) * 1000)} or more after the previous one; usual: {seconds(usual * 1000)}.",
            evidence=[reference("group_events", member_id=member, event="heartbeat")],
        )


def _quartile(counts: Mapping[int, int]) -> int:
    """Return the lower quartile of values. ``counts``: how often each value occurs."""
    place = sum(counts.values()) // 4
    ordered = sorted(counts)
    return ordered[bisect_right(list(accumulate(counts[value] for value in ordered)), place)]


NEAR_MISS = Detector(
    "heartbeat-near-miss",
    GROUP,
    "A member sent no request to the coordinator for most of its session timeout, and then sent one again. A pause of "
    "the process or of the network evicted it, or almost did. The time in which a member waits for a JoinGroup or "
    "SyncGroup response does not count. The requests of KIP-848 groups do not contain the session timeout: the "
    "threshold `session_timeout_ms` is used instead.",
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
    "is the interval in the heartbeat responses. A heartbeat is late if it exceeds both `ratio` and `late_ms`. "
    "Intervals are rounded down to three digits in ms.",
    detect_jitter,
    (
        Threshold("count", 10, "minimum number of captured intervals between heartbeats"),
        Threshold("ratio", 1.5, "interval before a late heartbeat, divided by the usual interval"),
        Threshold("late_ms", 250, "interval before a late heartbeat, minus the usual interval, in ms"),
        Threshold("late", 3, "number of late heartbeats"),
    ),
)
