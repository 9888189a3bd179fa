"""The readiness of captured clients and groups for Kafka 4, which does not serve old versions (KIP-896)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from kwire.analysis.columns import Tables
from kwire.analysis.events import CLASSIC, CONSUMER

TARGETS = ("4.0", "4.1", "4.2")  # all serve the same versions of the APIs of clients
IN_BROKER = ("range", "uniform")  # assignors of KIP-848 brokers
BLOCKED, NOTE, READY = "blocked", "note", "ready"


@dataclass(frozen=True, slots=True)
class Statement:
    """One row of the report.

    Attributes:
        state: BLOCKED (fails on the target), NOTE (works, but needs attention for KIP-848) or READY.
        kind: ``client`` or ``group``.
        name: client id or group id.
        software: name and version of the client library; None if unknown.
        detail: what was seen, as text.
    """

    state: str
    kind: str
    name: str
    software: str | None
    detail: str


def statements(tables: Tables) -> Iterator[Statement]:
    """Yield a row of the report for each client and each group. ``tables``: rows by table name."""
    old: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in tables["api_usage"]:
        software = " ".join(part for part in (row["software_name"], row["software_version"]) if part)
        calls = old[row["client_id"] or "", software]
        if row["removed_in_4"]:
            calls.append(f"{row['api_name']} v{row['api_version']} ({row['count']})")
    for (client, software), calls in sorted(old.items()):
        detail = f"removed requests: {', '.join(calls)}" if calls else "all requests are served"
        yield Statement(BLOCKED if calls else READY, "client", client, software or None, detail)
    yield from _groups(tables)


def _groups(tables: Tables) -> Iterator[Statement]:
    protocols: dict[tuple[str, str | None], set[str]] = defaultdict(set)
    assignors: dict[tuple[str, str | None], set[str]] = defaultdict(set)
    for row in tables["group_events"]:
        group = row["group_id"], row["cluster"]
        if row["protocol"] is not None:
            protocols[group].add(row["protocol"])
    for row in tables["rebalances"]:
        if row["protocol"] == CLASSIC and row["protocol_name"]:
            assignors[row["group_id"], row["cluster"]].add(row["protocol_name"])
    for group, own in sorted(protocols.items(), key=lambda item: (item[0][0], item[0][1] or "")):
        name = group[0]
        if own == {CONSUMER}:
            yield Statement(READY, "group", name, None, "uses KIP-848 already")
        elif CLASSIC in own:
            custom = sorted(assignors[group] - {*IN_BROKER, "roundrobin", "sticky", "cooperative-sticky"})
            other = sorted(assignors[group] - {*IN_BROKER} - {*custom})
            if custom:
                yield Statement(NOTE, "group", name, None, f"no KIP-848 equivalent of assignor {', '.join(custom)}")
            elif other:
                detail = f"can move to KIP-848: {', '.join(other)} becomes uniform"
                yield Statement(READY, "group", name, None, detail)
            elif assignors[group]:
                yield Statement(READY, "group", name, None, "can move to KIP-848 with the same assignor")
            else:
                yield Statement(NOTE, "group", name, None, "its assignor was not captured")
