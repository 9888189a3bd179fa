from __future__ import annotations

from collections.abc import Iterator

from kwire.analysis.columns import Row
from kwire.analysis.findings.model import (
    CRITICAL,
    GROUP,
    NOTICE,
    WARNING,
    Detector,
    Finding,
    Limits,
    Threshold,
    generation_name,
    quoted,
    reference,
    seconds,
)
from kwire.analysis.findings.views import GroupView
from kwire.counted import counted

CAUSES = {
    "left": "left",
    "joined": "joined",
    "restart": "restarted",
    "subscription": "changed its subscription",
    "revocation": "revoked partitions",
    "metadata": "received changed metadata",
    "expired": "was lost by session timeout",
    "sync timeout": "sent no SyncGroup in time",
}


def detect(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each rebalance in which a member did not read for at least ``stopped_ms``, a threshold in
    ``limits``.
    """
    for row in group.rebalances:
        stopped = row["stw_ms_max"]
        if stopped is None or stopped < limits["stopped_ms"]:
            continue
        partitions = sum(map(len, group.shares(row["life"], row["to_generation"]).values()))
        of = counted(partitions, "partition")
        moved = "" if row["partitions_moved"] is None else f"; {row['partitions_moved']} of {of} moved"
        name = generation_name(row)
        yield Finding(
            severity=CRITICAL
            if stopped >= limits["critical_ms"]
            else WARNING
            if stopped >= limits["warning_ms"]
            else NOTICE,
            begin=min(row["started_ts"], group.stopped.get((row["life"], row["to_generation"]), row["started_ts"])),
            end=row["ended_ts"] or row["started_ts"],
            cost=stopped,
            member_id=row["trigger_member"],
            client_id=row["trigger_client"],
            sentence=f"{name.capitalize()} of {quoted(group.group_id)} stopped consumption for "
            f"{seconds(stopped * 1000)} because {cause(group, row)}{moved}.",
            evidence=[reference("rebalances", to_generation=row["to_generation"], life=row["life"])],
        )


def cause(group: GroupView, row: Row) -> str:
    """Return the cause of a rebalance as text to be put after "because", such as ``the coordinator moved``.

    ``row``: row of ``rebalances``.
    """
    trigger = row["trigger"]
    if trigger == "coordinator moved":
        return "the coordinator moved"
    if trigger not in CAUSES:
        return "of a cause that the capture does not show"
    return f"{group.name(row['trigger_member'])} {CAUSES[trigger]}"


DETECTOR = Detector(
    "costly-rebalance",
    GROUP,
    "A rebalance stopped the consumption of a member for long. The detector compares the longest stop-the-world time "
    "of the members (`rebalances.stw_ms_max`) with its thresholds.",
    detect,
    (
        Threshold("stopped_ms", 2_000, "longest stop of a member, in ms"),
        Threshold("warning_ms", 5_000, "longest stop from which on the finding is a warning, in ms"),
        Threshold("critical_ms", 30_000, "longest stop from which on the finding is critical, in ms"),
    ),
)
