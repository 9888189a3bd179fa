from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kwire.analysis.columns import Row
from kwire.analysis.findings.model import (
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
from kwire.analysis.findings.views import GroupView, most_in_window
from kwire.counted import counted

Client = tuple[str | None, str | None, str | None]


def detect(group: GroupView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each client that returned to the group at least ``returns`` times within ``window_ms``.

    A return is a join after the client left or was evicted. ``returns`` and ``window_ms`` are thresholds in ``limits``.
    If several members of the client were in the group at the same time, the number of returns is divided by the largest
    number of these members.
    """
    by_client: dict[Client, list[Row]] = defaultdict(list)
    spells = {(row["life"], row["member_id"], row["joined_ts"]): row for row in group.members}
    for row in spells.values():
        if row["joined_ts"] is not None:
            by_client[row["client_id"], row["host"], row["instance_id"]].append(row)
    for client, rows in sorted(by_client.items(), key=lambda item: [part or "" for part in item[0]]):
        returns = sorted(_returns(rows))
        if not returns:
            continue
        first, last = most_in_window(returns, limits["window_ms"] * 1000)
        together = _together(rows)
        if (last - first + 1) / together < limits["returns"]:
            continue
        count = last - first + 1
        begin, end = returns[first], returns[last]
        yield Finding(
            severity=WARNING,
            begin=begin,
            end=end,
            cost=count,
            client_id=client[0],
            sentence=f"`{client[2] or client[0]}` left {quoted(group.group_id)} and returned {counted(count, 'time')} "
            f"in {seconds(end - begin)}.",
            evidence=[
                reference("members", member_id=row["member_id"], generation=row["generation"], life=row["life"])
                for row in sorted(rows, key=lambda row: row["joined_ts"])
            ],
        )


def _returns(rows: list[Row]) -> Iterator[int]:
    """Yield the times at which a client joined again after one of its members had left or expired.

    The times are microseconds since 1970. Each departure counts for at most one later join.

    ``rows``: rows of ``members`` of the client, with ``joined_ts`` set.
    """
    departures = sorted(row["left_ts"] for row in rows if row["left_ts"] is not None)
    for joined in sorted(row["joined_ts"] for row in rows):
        if departures and departures[0] <= joined:
            departures.pop(0)
            yield joined


def _together(rows: list[Row]) -> int:
    """Return the largest number of members that a client had in the group at the same time, at least 1.

    ``rows``: rows of ``members`` of the client.
    """
    changes = [(row["joined_ts"], 1) for row in rows]
    changes += [(row["left_ts"], -1) for row in rows if row["left_ts"] is not None]
    most = now = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return max(most, 1)


DETECTOR = Detector(
    "flapping-member",
    GROUP,
    "A client leaves the group (or is evicted) and joins again several times. A client is identified by client id, "
    "host and, if it is static, instance id. If several members of the group have the same identity, the number of "
    "returns is divided by the largest number of these members that were in the group at the same time.",
    detect,
    (
        Threshold("returns", 3, "joins after a departure, in the window"),
        Threshold("window_ms", 300_000, "length of the window, in ms"),
    ),
)
