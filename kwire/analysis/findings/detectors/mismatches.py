from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kwire.analysis.columns import Row
from kwire.analysis.events import GroupEvent
from kwire.analysis.findings.model import (
    CRITICAL,
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

_REFUSED = {ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.UNSUPPORTED_ASSIGNOR}


def detect_subscriptions(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for the longest period in which members of the group subscribed to different topics.

    The period must last at least ``lasted_ms``, a threshold in ``limits``.
    """
    generations: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in group.members:
        generations[row["life"], row["generation"]].append(row)
    ordered = sorted(generations.items(), key=lambda item: item[0])
    starts: dict[tuple[int, int], int] = {
        (row["life"], row["to_generation"]): row["ended_ts"] or row["joined_ts"] or row["started_ts"]
        for row in group.rebalances
    }
    spell: tuple[int, int, list[Row]] | None = None
    worst: tuple[int, int, list[Row]] | None = None
    for number, (about, rows) in enumerate(ordered):
        begin = starts.get(about, min(row["joined_ts"] or group.end for row in rows))
        until = starts.get(ordered[number + 1][0], group.end) if number + 1 < len(ordered) else group.end
        subscriptions = {tuple(sorted(row["subscription"])) for row in rows if row["subscription"] is not None}
        if len(subscriptions) < 2:
            spell = None
            continue
        since: int = spell[0] if spell else begin
        spell = since, until, rows
        if worst is None or spell[1] - spell[0] > worst[1] - worst[0]:
            worst = spell
    if worst is None or worst[1] - worst[0] < limits["lasted_ms"] * 1000:
        return
    begin, end, rows = worst
    shown = {group.name(row["member_id"]): ", ".join(row["subscription"] or ()) for row in rows}
    different = sorted(set(shown.values()))
    yield Finding(
        severity=WARNING,
        begin=begin,
        end=end,
        cost=(end - begin) / 1000,
        sentence=f"Members of {quoted(group.group_id)} subscribe to different topics for {seconds(end - begin)}: "
        f"{' | '.join(one or 'none' for one in different[:4])}.",
        evidence=[
            reference("members", member_id=row["member_id"], generation=row["generation"], life=row["life"])
            for row in rows
        ],
    )


def detect_assignors(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield at most one finding about the assignors in JoinGroup requests.

    The finding is about requests that failed because the member and the group have no common assignor, if there are at
    least ``count`` such requests (a threshold in ``limits``). Otherwise, the finding is about members of the last
    generation that offer different assignors.
    """
    refused = [event for event in group.of_kind.get("join_error", ()) if event.error_code in _REFUSED]
    if len(refused) >= max(limits["count"], 1):
        names = sorted({event.client_id or "" for event in refused})
        yield Finding(
            severity=CRITICAL,
            begin=refused[0].ts,
            end=refused[-1].ts,
            cost=len(refused),
            client_id=refused[0].client_id,
            member_id=refused[0].member_id,
            sentence=f"{counted(len(refused), 'join')} of {', '.join(map(quoted, names))} to {quoted(group.group_id)} "
            f"failed with {refused[0].error_name}: the other members do not have its assignor or protocol.",
            evidence=[
                reference("group_events", event="join_error", ts=event.ts, client_id=event.client_id)
                for event in refused
            ],
        )
        return
    offers: dict[str, GroupEvent] = {}
    for event in group.of_kind.get("join_sent", ()):
        if event.protocol_name and event.member_id:
            offers[event.member_id] = event
    last = group.rebalances[-1]["members_after"] if group.rebalances else None
    present = [event for member, event in sorted(offers.items()) if last is None or member in last]
    different = sorted({event.protocol_name or "" for event in present})
    if len(different) > 1:
        yield Finding(
            severity=NOTICE,
            begin=min(event.ts for event in present),
            end=max(event.ts for event in present),
            sentence=f"Members of {quoted(group.group_id)} offer different assignors: {' | '.join(different[:4])}.",
            cost=len(different),
            evidence=[
                reference("group_events", event="join_sent", member_id=event.member_id, ts=event.ts)
                for event in present
            ],
        )


SUBSCRIPTIONS = Detector(
    "subscription-mismatch",
    GROUP,
    "Members of one group subscribe to different topics for longer than a rolling upgrade takes. Kafka allows this, "
    "but it is often a mistake: two applications use the same group id.",
    detect_subscriptions,
    (Threshold("lasted_ms", 30_000, "time with different subscriptions, in ms"),),
)
ASSIGNORS = Detector(
    "assignor-mismatch",
    GROUP,
    "A member cannot join because the members have no common assignor (INCONSISTENT_GROUP_PROTOCOL), or because the "
    "broker does not have the member's assignor (UNSUPPORTED_ASSIGNOR). If no join failed, members of the last "
    "generation that offer different assignors are a notice.",
    detect_assignors,
    (Threshold("count", 1, "failed joins"),),
)
