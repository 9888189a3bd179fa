from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter

from kwire.analysis.events import GroupEvent
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
from kwire.counted import counted
from kwire.errorcodes import ErrorCode


def detect_moved(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield one finding about all moves of the group's coordinator, and all requests that failed with NOT_COORDINATOR.

    The moves and these requests together must be at least ``count``, a threshold in ``limits``. Without a move, a
    request does not count if the coordinator was the same before and after it: then the coordinator was not ready, as
    after the start of a cluster.
    """
    moves = group.of_kind.get("coordinator_moved", ())
    refused = _with(group, ErrorCode.NOT_COORDINATOR)
    if not moves:
        refused = [event for event in refused if not _stays(group, event.ts)]
    shown = moves or refused
    if not shown or len(moves) + len(refused) < limits["count"]:
        return
    places = sorted({event.leader for event in moves if event.leader})
    to = f" to {', '.join(places)}" if places else ""
    yield Finding(
        severity=WARNING,
        begin=min(event.ts for event in (*moves, *refused)),
        end=max(event.ts for event in (*moves, *refused)),
        cost=max(len(moves), 1),
        sentence=f"The coordinator of {quoted(group.group_id)} moved{to}; "
        f"{counted(len(refused), 'request')} went to the previous coordinator.",
        evidence=[reference("group_events", event=event.event, ts=event.ts) for event in shown],
    )


def detect_loading(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding if requests of the group failed for long because the coordinator was loading or unavailable.

    At least ``count`` requests must have failed, over a time of at least ``lasted_ms``. Both are thresholds in
    ``limits``.
    """
    refused = _with(group, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if not refused or len(refused) < limits["count"]:
        return
    begin, end = refused[0].ts, refused[-1].ts
    if end - begin < limits["lasted_ms"] * 1000:
        return
    errors = ", ".join(sorted({event.error_name or "" for event in refused}))
    yield Finding(
        severity=WARNING if end - begin >= limits["warning_ms"] * 1000 else NOTICE,
        begin=begin,
        end=end,
        cost=(end - begin) / 1000,
        sentence=f"The coordinator of {quoted(group.group_id)} did not serve {counted(len(refused), 'request')} in "
        f"{seconds(end - begin)} ({errors}).",
        evidence=[reference("group_events", event=event.event, ts=event.ts) for event in refused],
    )


def _stays(group: GroupView, ts: int) -> bool:
    """Return whether the FindCoordinator responses before and after a time, in microseconds, name the same broker."""
    found = group.of_kind.get("coordinator_found", ())
    place = bisect_left(found, ts, key=attrgetter("ts"))
    return 0 < place < len(found) and found[place - 1].coordinator == found[place].coordinator


def _with(group: GroupView, *codes: int) -> list[GroupEvent]:
    return [event for event in group.errors if event.error_code in codes]


MOVED = Detector(
    "coordinator-moved",
    GROUP,
    "The coordinator of the group moved to another broker: FindCoordinator responses name different brokers, or a "
    "broker returned NOT_COORDINATOR. If the responses before and after this error name the same broker, its "
    "coordinator was not ready, and this is no finding.",
    detect_moved,
    (Threshold("count", 1, "moves, plus requests that failed with NOT_COORDINATOR"),),
)
LOADING = Detector(
    "coordinator-loading",
    GROUP,
    "The group had no coordinator (COORDINATOR_NOT_AVAILABLE) for some time, or its coordinator was loading "
    "(COORDINATOR_LOAD_IN_PROGRESS).",
    detect_loading,
    (
        Threshold("count", 3, "failed requests"),
        Threshold("lasted_ms", 500, "time from the first to the last failed request, in ms"),
        Threshold("warning_ms", 5_000, "time from which on the finding is a warning, in ms"),
    ),
)
