"""Tables rearranged by group, with the assignment changes of each rebalance."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from kwire.analysis.columns import Row, Tables
from kwire.analysis.events import ACKNOWLEDGED, partition_name
from kwire.analysis.tables import EVERY, ON_REQUEST, WHAT_IF, WHAT_IF_ASSIGNMENTS
from kwire.analysis.transactions import ABORTED, COMMITTED, NOT_KNOWN, REFUSED
from kwire.capture.rows import FIRST, LAST

Name = tuple[str, str | None]  # a group and its cluster
Generation = tuple[str, int, int]  # protocol, life and generation

# Names of the tables with the column ``group_id``.
OF_GROUPS = (
    "group_events",
    "rebalances",
    "members",
    "assignments",
    "offset_commits",
    "share_records",
    "violations",
    "findings",
    "errors",
)

SHORT = 8  # characters of a member id that distinguish it from others of its client

# Columns that are redundant inside a group.
_KNOWN = {"capture_id", "group_id", "cluster", "protocol"}


def moment(ts: int | None) -> str | None:
    """Return a time as ISO 8601 text in UTC; None for None, and for a time outside of the years 1 to 9999.

    ``ts``: microseconds since 1970.
    """
    if ts is None or not FIRST <= ts <= LAST:
        return None
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ts)).isoformat(timespec="microseconds")


def readable(table: str, row: Row, *, without: Iterable[str] = ()) -> dict[str, Any]:
    """Return a row as JSON values by column name. Timestamps are text, as ISO 8601 in UTC.

    Args:
        table: name of the table.
        row: row of the table.
        without: names of columns to leave out.
    """
    left_out = {*without}
    return {
        column.name: moment(row[column.name]) if column.type == "timestamp" else row[column.name]
        for column in EVERY[table].columns
        if column.name not in left_out
    }


def worst_first(rows: Iterable[Row]) -> list[Row]:
    """Return rows of ``findings`` sorted by severity, the most severe first, then by cost, the largest first."""
    return sorted(rows, key=lambda row: (row["rank"], -row["cost"], row["begin_ts"], row["finding"]))


def alike(rows: Iterable[Row]) -> list[list[Row]]:
    """Divide rows of ``findings`` into lists of equal findings, the list with the worst finding first.

    Equal findings have the same severity and detector, and are about the same group, or about the same client if they
    are not about a group. A finding about neither is not equal to any other. The first row of a list is the worst.
    """
    lists: dict[Any, list[Row]] = defaultdict(list)
    for number, row in enumerate(worst_first(rows)):
        about: Any = ("group", row["group_id"]) if row["group_id"] is not None else ("client", row["client_id"])
        if about[1] is None:
            about = number
        lists[row["rank"], row["finding"], row["cluster"], about].append(row)
    return [*lists.values()]


def names(rows: Iterable[Row]) -> dict[str, str]:
    """Return display names of members, by member id.

    The display name of a member is its client id. If several members have the same client id, the end of the member id
    is appended.
    """
    clients: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        clients[row["client_id"] or ""].add(row["member_id"])
    return {
        member: client if client and len(members) == 1 else f"{client or 'member'} ..{member[-SHORT:]}"
        for client, members in clients.items()
        for member in members
    }


def groups(tables: Tables) -> Iterator[dict[str, Any]]:
    """Yield each group as a JSON object.

    The object contains group id, cluster, protocols, generations, members, rebalances with the assignments before and
    after, restarts, commits, shared records, errors, findings and violations.

    With the tables of a replay (``--what-if``), the object also has the key ``what_if``.

    ``tables``: rows by table name.
    """
    for (group_id, cluster), rows in apart(tables).items():
        replayed = {"what_if": _what_if(rows)} if WHAT_IF.name in rows else {}
        yield {"group_id": group_id, "cluster": cluster, **_group(rows), **replayed}


def apart(tables: Tables) -> dict[Name, dict[str, list[Row]]]:
    """Divide tables by group: return the rows of each group, by group and table name.

    The key of a group is its id and its cluster. Groups in different clusters are different groups, even if their ids
    are equal. If the id of a group occurs in one cluster only, the group gets all errors with this id.
    """
    by_group = {name: _by_group(tables[name]) for name in (*OF_GROUPS, *ON_REQUEST) if name in tables}
    groups = sorted(by_group["group_events"], key=lambda name: (name[0], name[1] or ""))
    clusters = Counter(group_id for group_id, _ in groups)
    by_name = {name: {table: rows.get(name, []) for table, rows in by_group.items()} for name in groups}
    errors = by_group["errors"]
    for name in groups:
        if clusters[name[0]] == 1:  # also errors from brokers whose cluster is unknown
            by_name[name]["errors"] = [row for other, rows in errors.items() if other[0] == name[0] for row in rows]
    return by_name


def _by_group(rows: Iterable[Row]) -> dict[Name, list[Row]]:
    by_name: dict[Name, list[Row]] = defaultdict(list)
    for row in rows:
        if row["group_id"] is not None:
            by_name[row["group_id"], row["cluster"]].append(row)
    return by_name


def _group(rows: Mapping[str, Sequence[Row]]) -> dict[str, Any]:
    shares: dict[Generation, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in rows["assignments"]:
        share = shares[row["protocol"], row["life"], row["generation"]][row["member_id"]]
        share.append(partition_name(row["topic"], row["partition"]))
    stops: dict[Generation, dict[str, float | None]] = defaultdict(dict)
    latest_rows: dict[tuple[int, str], Row] = {}
    generations: dict[tuple[int, str], list[int]] = defaultdict(list)
    for row in rows["members"]:
        stops[row["protocol"], row["life"], row["generation"]][row["member_id"]] = row["stw_ms"]
        latest_rows[row["life"], row["member_id"]] = row
        generations[row["life"], row["member_id"]].append(row["generation"])
    rebalances = []
    for row in rows["rebalances"]:
        before, after = (
            (row["protocol"], row["life"], row[generation]) for generation in ("from_generation", "to_generation")
        )
        rebalances.append(
            {
                **readable("rebalances", row, without={"capture_id", "group_id", "cluster"}),
                "stw_ms": _stops_of_members(stops.get(after, {}), row["members_after"]),
                "assignment_before": {member: list(share) for member, share in shares.get(before, {}).items()},
                "assignment_after": {member: list(share) for member, share in shares.get(after, {}).items()},
            }
        )
    dropped = {*_KNOWN, "generation", "leader", "stopped_ts", "resumed_ts", "join_ms", "stw_ms"}
    called = names(rows["members"])
    return {
        "protocols": sorted({row["protocol"] for row in rows["group_events"] if row["protocol"]}),
        "generations": sorted({row["to_generation"] for row in rows["rebalances"] if row["to_generation"] is not None}),
        "members": [
            {
                "name": called[member[1]],
                **readable("members", row, without=dropped),
                "generations": generations[member],
            }
            for member, row in sorted(latest_rows.items(), key=lambda item: (item[1]["joined_ts"] or 0, item[0][1]))
        ],
        "rebalances": rebalances,
        "restarts": list(restarts(rows)),
        "commits": commits(rows["offset_commits"]),
        "shared": _shared(rows["share_records"]),
        "errors": [readable("errors", row, without={"capture_id", "group_id", "cluster"}) for row in rows["errors"]],
        "findings": [
            readable("findings", row, without={"capture_id", "group_id", "cluster"})
            for row in worst_first(rows["findings"])
        ],
        "violations": [
            readable("violations", row, without={"capture_id", "group_id", "cluster"}) for row in rows["violations"]
        ],
    }


def _shared(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the numbers of records that each member of a share group acquired and acknowledged, as JSON objects.

    Records in requests that failed are counted separately, as ``refused``. ``rows``: rows of ``share_records``.
    """
    totals: dict[str, dict[str, Any]] = {}
    for row in rows:
        total = totals.setdefault(
            row["member_id"],
            {"member_id": row["member_id"], **dict.fromkeys(("acquired", *ACKNOWLEDGED), 0), "refused": 0},
        )
        total["refused" if row["error_code"] else row["kind"]] += row["records"]
    return [totals[member] for member in sorted(totals)]


# Columns that are summed over the replayed generations of a group.
_ADDED = ("moved", "moved_what_if", "stopped_ms", "stopped_ms_what_if", "avoided_ms")


def _what_if(rows: Tables) -> dict[str, Any]:
    """Return the results of the replay of a group with a different assignor, as a JSON object.

    The key ``generations`` has each generation, with the captured and the replayed values. The key ``sum`` has the sums
    over all replayed generations; it is None if no generation was replayed.

    ``rows``: rows of the group by table name.
    """
    shares: dict[Generation, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in rows[WHAT_IF_ASSIGNMENTS.name]:
        share = shares[row["protocol"], row["life"], row["generation"]][row["member_id"]]
        share.append(partition_name(row["topic"], row["partition"]))
    dropped = {"capture_id", "group_id", "cluster", "assignor"}
    generations = [
        {
            **readable(WHAT_IF.name, row, without=dropped),
            "assignment_what_if": {
                member: list(share) for member, share in shares[row["protocol"], row["life"], row["generation"]].items()
            },
        }
        for row in rows[WHAT_IF.name]
    ]
    replayed = [row for row in generations if row["note"] is None]
    total: dict[str, Any] | None = None
    if replayed:
        total = {
            "rebalances": len(replayed),
            "rebalances_what_if": sum(row["rebalances_what_if"] for row in replayed),
            **{name: round(sum(row[name] for row in replayed), 3) for name in _ADDED},  # whole µs
            "largest_imbalance": max(row["imbalance"] for row in replayed),
            "largest_imbalance_what_if": max(row["imbalance_what_if"] for row in replayed),
        }
    return {"generations": generations, "sum": total}


def restarts(rows: Tables) -> Iterator[dict[str, Any]]:
    """Yield the restarts of static members that did not trigger a rebalance, as JSON objects with keys of a rebalance.

    The value of the key ``stw_ms`` is the time in milliseconds for which the partitions of the member were not read.
    The value is None if this time is unknown. It is also None if a rebalance to the same generation already has the
    member after the rebalance: the object of that rebalance then contains the time.

    ``rows``: rows of one group by table name.
    """
    rebalanced = {
        (row["life"], row["to_generation"], row["trigger_member"])
        for row in rows["rebalances"]
        if row["trigger"] == "restart"
    }
    there = {
        (row["life"], row["to_generation"], member)
        for row in rows["rebalances"]
        for member in row["members_after"] or []
    }
    stops = {(row["life"], row["generation"], row["member_id"]): row["stw_ms"] for row in rows["members"]}
    for row in rows["group_events"]:
        about = row["life"], row["generation"], row["member_id"]
        if row["event"] == "static_restart" and about not in rebalanced:
            yield {
                "ts": moment(row["ts"]),
                "life": row["life"],
                "generation": row["generation"],
                "trigger": "restart",
                "trigger_member": row["member_id"],
                "trigger_client": row["client_id"],
                "trigger_evidence": row["reason"],
                "stw_ms": None if about in there else stops.get(about),  # else the rebalance has this duration
            }


def _stops_of_members(stops: Mapping[str, float | None], members: Iterable[str] | None) -> dict[str, float | None]:
    """Return the stop-the-world time in milliseconds of each member that was in the group after the rebalance.

    Static members that returned after the rebalance are left out.

    Args:
        stops: stop-the-world times in milliseconds by member id; None for a member without such a time.
        members: ids of the members after the rebalance; None for all members.
    """
    there = None if members is None else set(members)
    return {member: stop for member, stop in stops.items() if there is None or member in there}


def commits(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return a summary of the offset commits of each partition: counts by outcome, the last committed offset, and lags.

    Only commits with the outcome ``committed`` count for offsets and lags. Without such commits, these values are None.

    ``rows``: rows of ``offset_commits`` of one group.
    """
    by_partition: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        by_partition[row["topic"], row["partition"]].append(row)
    made = []
    for (topic, partition), commits in sorted(by_partition.items()):
        outcomes = Counter(commit["outcome"] for commit in commits)
        held = [commit for commit in commits if commit["outcome"] == COMMITTED]
        last = max(held, key=lambda commit: commit["outcome_ts"] or commit["ts"], default=None)
        made.append(
            {
                "topic": topic,
                "partition": partition,
                "count": len(commits),
                **{outcome: outcomes[outcome] for outcome in (COMMITTED, REFUSED, ABORTED, NOT_KNOWN)},
                "last_ts": None if last is None else moment(last["ts"]),
                "last_offset": None if last is None else last["offset"],
                "last_lag": None if last is None else last["lag"],
                "largest_lag": max((commit["lag"] for commit in held if commit["lag"] is not None), default=None),
            }
        )
    return made
