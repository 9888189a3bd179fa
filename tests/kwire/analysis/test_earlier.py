"""Streams in parts: the tables of all parts together have the contents of the tables of the whole capture."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from effort import amount
from tools.captures import CAPTURES, tables_of
from tools.handmade_calls import BEGIN, CallLog

from kwire.analysis.columns import Row
from kwire.analysis.earlier import Earlier
from kwire.analysis.run import analyse
from kwire.capture import Call, Connection, read

PARTS = (2, 3, 5, 9)


def moment(call: Call) -> int:
    return call.response_us or call.request_us or 0


def in_parts(calls: list[Call], connections: list[Connection], number: int) -> Iterator[dict[str, Sequence[Row]]]:
    """Return the tables of a capture in this number of parts of the same length."""
    earlier = Earlier()
    begin, end = moment(calls[0]), max(map(moment, calls)) + 1
    for part in range(number):
        low, high = (begin + (end - begin) * n // number for n in (part, part + 1))
        own = [call for call in calls if low <= moment(call) < high]
        yield analyse(own, connections, f"part {part}", frames=False, earlier=earlier)


def told(rows: Sequence[Row], *names: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in names) for row in rows), key=repr)


@pytest.mark.parametrize("path", sorted(CAPTURES.iterdir()), ids=lambda path: path.name)
def test_parts_together_are_the_whole(path: Path) -> None:
    whole = tables_of(path)
    items = list(read(path))
    calls = sorted((item for item in items if isinstance(item, Call)), key=moment)
    connections = [item for item in items if isinstance(item, Connection)]
    for number in PARTS:
        rows: dict[str, list[Row]] = {}
        for tables in in_parts(calls, connections, number):
            for name, own in tables.items():
                rows.setdefault(name, []).extend(own)
        for name in ("offset_commits", "share_records"):
            about = "ts", "member_id", "topic", "partition", "error_code"
            assert told(rows[name], *about) == told(whole[name], *about), (name, number)
        events = "ts", "event", "member_id", "conn_id", "number", "part"
        seen = [[row for row in made["group_events"] if not row["inferred"]] for made in (rows, whole)]
        assert told(seen[0], *events) == told(seen[1], *events), number
        changes = "to_generation", "trigger", "trigger_member", "partitions_moved", "members_after"
        # Whether a group without members continues is not known at the end of a part, nor at the end of a capture.
        finished = [
            [row for row in made["rebalances"] if row["to_generation"] is not None and row["members_after"]]
            for made in (rows, whole)
        ]
        latest = {(row["group_id"], row["to_generation"]): row for row in finished[0]}
        assert told([*latest.values()], *changes) == told(finished[1], *changes), number
        members = [{(r["member_id"], r["joined_ts"]) for r in made["members"]} for made in (rows, whole)]
        first = {member: min(ts or 0 for one, ts in members[1] if one == member) for member, _ in members[1]}
        assert {member: min(ts or 0 for one, ts in members[0] if one == member) for member, _ in members[0]} == first
        assert told(rows["violations"], "kind", "member_id") == told(whole["violations"], "kind", "member_id"), number
        counts: list[Counter[Any]] = [Counter(), Counter()]
        for count, made in zip(counts, (rows, whole), strict=True):
            for row in made["errors"]:
                count[row["api_name"], row["error_name"], row["client_id"], row["group_id"]] += row["count"]
        assert counts[0] == counts[1], number


def stable_group(log: CallLog, begin: float, seconds: int) -> None:
    """Return heartbeats and commits of two members of generation 3."""
    for second in range(seconds):
        for member, partition in (("a", 0), ("b", 1)):
            log.beat(member, begin + second * 1000 + 10 * partition, 3)
            log.commit(member, begin + second * 1000 + 5 + 10 * partition, 3, partition, round(begin / 1000) + second)


def connections_of(log: CallLog) -> list[Connection]:
    ends = {"client": "10.0.0.1:1", "broker": "10.0.0.9:9092", "first_us": BEGIN, "last_us": BEGIN}
    return [Connection(id=name, **ends) for name in ("a", "b")]  # type: ignore[arg-type]


def test_a_day_of_heartbeats_does_not_grow() -> None:
    """A rebalance in the morning is known in the evening; the state between parts has the same size all day."""
    log = CallLog()
    log.join("a", 0, 3, "a", "b", took=20)
    log.join("b", 10, 3, took=10)
    log.sync("a", 30, 3, [0], {"a": [0], "b": [1]})
    log.sync("b", 31, 3, [1])
    earlier, sizes = Earlier(), []
    hours = amount(24, 96)
    for hour in range(hours):
        stable_group(log, 1000 + hour * 3_600_000, 60)
        for call in log.calls:
            call.number += 1000 * hour
        tables = analyse(log.calls, connections_of(log), str(hour), frames=False, earlier=earlier)
        assert told(tables["members"], "member_id", "generation", "joined_ts", "left_ts") == [
            ("a", 3, BEGIN + 20_000, None),
            ("b", 3, BEGIN + 20_000, None),
        ]
        assert len(tables["rebalances"]) == (hour == 0)
        assert len(tables["offset_commits"]) == 120
        log = CallLog()
        sizes.append((sum(map(len, earlier.events.values())), len(pickle.dumps(earlier))))
    assert len({count for count, _ in sizes[1:]}) == 1
    assert max(size for _, size in sizes[2:]) < 1.2 * sizes[2][1]
