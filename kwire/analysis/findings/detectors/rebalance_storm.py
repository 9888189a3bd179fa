from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kwire.analysis.columns import Row
from kwire.analysis.findings.model import (
    CRITICAL,
    GROUP,
    Detector,
    Finding,
    Limits,
    Threshold,
    quoted,
    reference,
    seconds,
)
from kwire.analysis.findings.views import GroupView, most_in_window
from kwire.counted import counted

FOLLOW_UPS = {"revocation"}  # the second half of a cooperative rebalance


def detect(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for the time window of ``window_ms`` with the most rebalances, if it has at least ``count`` of
    them.

    ``window_ms`` and ``count`` are thresholds in ``limits``. A rebalance does not count if its trigger is a client that
    joins for the first time, a client that leaves and does not return, or a revocation in a cooperative rebalance.
    """
    known: set[tuple[str | None, str | None]] = set()
    last_joins: dict[tuple[str | None, str | None], int] = {}
    for row in group.members:
        joining = row["client_id"], row["host"]
        last_joins[joining] = max(last_joins.get(joining, 0), row["joined_ts"] or 0)
    clients = {row["member_id"]: (row["client_id"], row["host"]) for row in group.members}
    unexpected: list[Row] = []
    for row in group.rebalances:
        client = clients.get(row["trigger_member"])
        is_growth = row["trigger"] == "joined" and client is not None and client not in known
        is_end = row["trigger"] == "left" and client is not None and last_joins[client] <= row["started_ts"]
        known |= {clients[member] for member in row["members_after"] or () if member in clients}
        if not is_growth and not is_end and row["trigger"] not in FOLLOW_UPS:
            unexpected.append(row)
    if not unexpected:
        return
    first, last = most_in_window([row["started_ts"] for row in unexpected], limits["window_ms"] * 1000)
    storm = unexpected[first : last + 1]
    if len(storm) < limits["count"]:
        return
    triggers = Counter(row["trigger"] for row in storm).most_common(3)
    begin, end = storm[0]["started_ts"], max(row["ended_ts"] or row["started_ts"] for row in storm)
    yield Finding(
        severity=CRITICAL,
        begin=begin,
        end=end,
        cost=(end - begin) / 1000,
        sentence=f"{quoted(group.group_id)} rebalanced {counted(len(storm), 'time')} in {seconds(end - begin)} "
        f"({', '.join(f'{name}: {count}' for name, count in triggers)}).",
        evidence=[
            reference("rebalances", to_generation=row["to_generation"], life=row["life"], trigger=row["trigger"])
            for row in storm
        ],
    )


DETECTOR = Detector(
    "rebalance-storm",
    GROUP,
    "The group rebalances in a loop. Three kinds of rebalances do not count: a client joins for the first time, a "
    "client leaves and does not return, and the second rebalance of a cooperative assignor.",
    detect,
    (
        Threshold("count", 5, "rebalances in the window"),
        Threshold("window_ms", 60_000, "length of the window, in ms"),
    ),
)
