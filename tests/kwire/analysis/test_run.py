"""The captures of real clients on real brokers show what the clients did."""

from __future__ import annotations

import gzip
import struct
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tools.captures import CAPTURES, MORE, capture, more_captures, tables_of
from tools.handmade_calls import two_members

from kwire.analysis.columns import Row
from kwire.analysis.tables import TABLES

# Rebalances that a client triggers by itself: kafka-python leads before it knows the topic, and cooperative members
# join twice. ``UNASKED`` are left out where a time line is compared.
UNASKED = {"metadata", "revocation"}

STORIES = [  # capture, (generation, trigger, client) of each rebalance
    (
        "java-4.2.0__kafka-4.2.0__timeout",
        [(1, "joined", "m1"), (2, "joined", "m2"), (3, "expired", "m2"), (4, "left", "m1")],
    ),
    (
        "kafka-python-3.0.12__kafka-4.2.0__timeout",
        [(1, "joined", "m1"), (2, "metadata", "m1"), (3, "joined", "m2"), (4, "expired", "m2"), (5, "left", "m1")],
    ),
    (
        "confluent-kafka-2.16.1__kafka-4.2.0__three",
        [
            (1, "joined", "m1"),
            (2, "joined", "m2"),
            (3, "joined", "m3"),
            (4, "left", "m2"),
            (5, "left", "m1"),
            (6, "left", "m3"),
        ],
    ),
    (
        "java-4.2.0__kafka-4.2.0__cooperative",
        [
            (1, "joined", "m1"),
            (2, "joined", "m2"),
            (3, "revocation", "m1"),
            (4, "left", "m1"),
            (5, "left", "m2"),
        ],
    ),
    ("aiokafka-0.14.0__kafka-4.2.0__static", [(1, "joined", "m1"), (2, "joined", "m2")]),
    (
        "java-4.2.0__kafka-4.2.0__kip848",
        [(1, "joined", "m1"), (2, "joined", "m2"), (3, "left", "m1"), (4, "left", "m2")],
    ),
    (
        "confluent-kafka-2.16.1__kafka-4.2.0__kip848_static",
        [(1, "joined", "m1"), (2, "joined", "m2"), (3, "expired", "m2")],
    ),
]


def story(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    return [(row["to_generation"], row["trigger"], row["trigger_client"]) for row in rows]


@pytest.mark.parametrize(("name", "expected"), STORIES, ids=[name for name, _ in STORIES])
def test_story(name: str, expected: list[tuple[int, str, str]]) -> None:
    tables = capture(name)
    assert story(tables["rebalances"]) == expected
    assert tables["violations"] == []
    for row in tables["rebalances"]:
        members = {m["member_id"] for m in tables["members"] if m["generation"] == row["to_generation"]}
        replaced = {m["member_id"] for m in tables["members"] if m["left_how"] == "replaced"}
        back = {e["member_id"] for e in tables["group_events"] if e["event"] == "static_restart"}
        assert members - back == set(row["members_after"])
        owned = [
            (share["topic"], share["partition"])
            for share in tables["assignments"]
            if share["generation"] == row["to_generation"] and share["member_id"] not in replaced
        ]
        assert len(owned) == len(set(owned))


def test_killed_static_member_came_back_without_a_rebalance() -> None:
    tables = capture("aiokafka-0.14.0__kafka-4.2.0__static")
    assert [row["client_id"] for row in tables["group_events"] if row["event"] == "static_restart"] == ["m2"]
    assert [row["left_how"] for row in tables["members"] if row["client_id"] == "m2"].count("replaced") == 1


def test_killed_member_was_evicted_after_its_session() -> None:
    tables = capture("java-4.2.0__kafka-4.2.0__timeout")
    expired = tables["rebalances"][2]
    received = [e["ts"] for e in tables["group_events"] if e["client_id"] == "m2" and not e["inferred"]]
    assert 2900 <= (expired["started_ts"] - max(received)) / 1000 <= 3100
    assert expired["trigger_confidence"] == "inferred"
    assert expired["stw_ms_max"] == (expired["ended_ts"] - max(received)) / 1000 > 3000


SAME_NAME = [f"confluent-kafka-2.16.1__kafka-{release}__three" for release in ("3.9.1", "4.2.0")]
OF_GROUPS = (
    "group_events",
    "rebalances",
    "members",
    "assignments",
    "assignment_changes",
    "offset_commits",
    "share_records",
    "violations",
)


def union(table: str, alone: list[dict[str, Sequence[Row]]]) -> list[Row]:
    return TABLES[table].sorted(row | {"capture_id": "all"} for tables in alone for row in tables[table])


@pytest.mark.parametrize("table", OF_GROUPS)
def test_groups_of_one_name_in_two_clusters(table: str) -> None:
    """Two captures with a group of the same name, read together, have the rows of each of them."""
    alone = [capture(name) for name in SAME_NAME]
    assert {row["group_id"] for tables in alone for row in tables["group_events"]} == {"g-three-confluent-kafka-2.16.1"}
    together = tables_of(*(CAPTURES / f"{name}.pcap.gz" for name in SAME_NAME))
    assert together[table] == union(table, alone)


@pytest.mark.skipif(not more_captures(), reason="fixtures/more is not here")
@pytest.mark.parametrize("table", OF_GROUPS)
def test_everything_read_together(table: str) -> None:
    paths = [MORE / one["file"] for one in more_captures()]
    assert tables_of(*paths)[table] == union(table, [tables_of(path) for path in paths])


def test_connections_and_errors_have_their_cluster() -> None:
    together = tables_of(*(CAPTURES / f"{name}.pcap.gz" for name in SAME_NAME))
    clusters = {row["cluster"] for row in together["connections"]}
    assert {row["node_id"] for row in together["connections"]} == {1}
    assert len(clusters) == 2
    for cluster in clusters:
        (own,) = (t for name in SAME_NAME if (t := capture(name))["connections"][0]["cluster"] == cluster)
        errors = [row for row in together["errors"] if row["cluster"] == cluster]
        assert [row | {"capture_id": ""} for row in errors] == [row | {"capture_id": ""} for row in own["errors"]]
        assert errors


def test_commits_in_transactions() -> None:
    rows = capture("kafka-python-3.0.12__kafka-4.2.0__txn")["offset_commits"]
    assert {row["transactional"] for row in rows} == {True}
    assert {row["error_code"] for row in rows} == {0}


def test_lag_is_against_the_end_last_seen() -> None:
    rows = capture("confluent-kafka-2.16.1__kafka-4.2.0__three")["offset_commits"]
    assert rows
    assert all(row["lag"] == 0 and row["lag_age_ms"] > 0 for row in rows)


def test_frames_say_where_both_sides_begin() -> None:
    rows = [row for row in capture("java-4.2.0__kafka-4.2.0__timeout")["frames"] if row["latency_us"] is not None]
    assert rows
    assert all(row["response_file"] == row["file"] for row in rows)
    assert all(row["response_position"] > row["position"] for row in rows)


def test_every_row_has_the_columns_of_its_table() -> None:
    for name, rows in two_members().tables().items():
        assert all(list(row) == [column.name for column in TABLES[name].columns] for row in rows), name


def expected_of(steps: list[str]) -> list[tuple[str, str]]:
    """Return trigger and client of the rebalances that follow from a time line of the manifest."""
    results = []
    static: set[str] = set()
    for step in steps:
        _, verb, client, *rest = step.split(" ", 3)
        if not client.startswith("m"):
            continue
        if verb == "start" and "'instance'" in " ".join(rest):
            if client not in static:
                results.append(("joined", client))
            static.add(client)
        elif verb == "start":
            results.append(("joined", client))
        elif verb == "SIGTERM" and client not in static:
            results.append(("left", client))
        elif verb == "SIGKILL" and client not in static:
            results.append(("expired", client))
    return results


TIMED = [
    one
    for one in more_captures()
    if one["scenario"] in ("single", "three", "static", "timeout", "cooperative", "sticky", "kip848")
]
# In this capture the first client hung, and was evicted while the second joined: the time line lacks this.
HUNG = "kafka-python-3.0.12__kafka-4.2.0__three.pcap"


@pytest.mark.parametrize("one", TIMED, ids=[one["file"] for one in TIMED])
def test_time_line(one: dict[str, Any]) -> None:
    tables = tables_of(MORE / one["file"])
    rows = [row for row in tables["rebalances"] if row["trigger"] not in UNASKED]
    results = [(row["trigger"], row["trigger_client"]) for row in rows]
    if "kcat" in one["file"]:  # every client is called kcat
        assert [trigger for trigger, _ in results] == [trigger for trigger, _ in expected_of(one["steps"])]
    elif one["file"] == HUNG:
        assert [end["client_id"] for end in tables["members"] if end["left_how"] == "silent"] == ["m1", "m1"]
    else:
        assert results == expected_of(one["steps"])
    assert tables["violations"] == []
    numbers = [row["to_generation"] for row in tables["rebalances"]]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


@pytest.mark.parametrize("one", more_captures(), ids=[one["file"] for one in more_captures()])
def test_every_capture_gives_tables(one: dict[str, Any]) -> None:
    tables = tables_of(MORE / one["file"])
    assert sum(row["count"] for row in tables["api_usage"]) == len([r for r in tables["frames"] if r["request_ts"]])
    assert sum(row["n"] for row in tables["latency"]) == len(
        [r for r in tables["frames"] if r["latency_us"] is not None]
    )
    assert [row for row in tables["violations"] if row["kind"] == "two_owners"] == []


def test_members_of_a_share_group_acquire_and_acknowledge() -> None:
    rows = capture("java-4.2.0__kafka-4.2.0__share")["share_records"]
    totals: dict[tuple[str, str], int] = defaultdict(int)
    for row in rows:
        assert row["error_code"] == 0
        totals[row["client_id"], row["kind"]] += row["records"]
    assert totals == {
        ("releases", "acquired"): 30,
        ("releases", "released"): 10,
        ("rejects", "acquired"): 30,
        ("rejects", "rejected"): 10,
        ("first", "acquired"): 50,
        ("first", "accepted"): 50,
    }
    assert {row["deliveries"] for row in rows if row["client_id"] == "rejects"} == {2, None}
    assert {row["topic"] for row in rows} == {"orders"}


def test_members_of_a_streams_group_have_tasks() -> None:
    tables = capture("java-4.2.0__kafka-4.2.0__streams")
    assigned = [row for row in tables["group_events"] if row["event"] == "assigned" and row["partitions"]]
    first, moved = assigned[0], assigned[1]
    assert (first["partitions"], first["standby"]) == (["0-0", "0-1", "1-0", "1-1"], [])
    assert (moved["client_id"], moved["partitions"]) == ("first-StreamThread-1-consumer", ["0-0", "1-0"])
    assert ["1-0"] in [row["standby"] for row in assigned]
    tasks = {(row["member_id"], row["topic"], row["partition"]) for row in tables["assignments"]}
    assert len({member for member, *_ in tasks}) == 2
    assert {(topic, number) for _, topic, number in tasks} == {(name, n) for name in "01" for n in (0, 1)}
    assert tables["violations"] == []


def records_of(path: Path) -> tuple[bytes, list[tuple[int, bytes]]]:
    """Return the header of a pcap file, and the time and the bytes of each record."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    records, at = [], 24
    while at < len(data):
        seconds, micros, size, _ = struct.unpack_from("<IIII", data, at)
        records.append((seconds * 1_000_000 + micros, data[at : at + 16 + size]))
        at += 16 + size
    return data[:24], records


def to_broker(record: bytes) -> bool:
    """Return whether an IPv4 packet is sent to the lower port."""
    at = 16 + 14 + 20
    source, target = struct.unpack_from(">HH", record, at)
    return bool(target < source)


PARTS: dict[str, Callable[[float, bytes], bool]] = {  # by the share of the time that has passed, and the record
    "last 85 %": lambda passed, record: passed >= 0.15,  # noqa: ARG005
    "last 60 %": lambda passed, record: passed >= 0.4,  # noqa: ARG005
    "last 40 %": lambda passed, record: passed >= 0.6,  # noqa: ARG005
    "last 20 %": lambda passed, record: passed >= 0.8,  # noqa: ARG005
    "only requests": lambda passed, record: to_broker(record),  # noqa: ARG005
    "only responses": lambda passed, record: not to_broker(record),  # noqa: ARG005
}


@pytest.mark.parametrize("part", PARTS)
def test_part_of_a_capture_accuses_no_member(part: str, tmp_path: Path) -> None:
    """Missing calls are unknown: they are no violation, and no finding that is worse than a lost member."""
    for path in sorted(CAPTURES.iterdir()):
        head, records = records_of(path)
        begin, end = records[0][0], records[-1][0]
        chosen = [record for time, record in records if PARTS[part]((time - begin) / (end - begin), record)]
        (tmp_path / path.name.removesuffix(".gz")).write_bytes(head + b"".join(chosen))
        whole, some = tables_of(path), tables_of(tmp_path / path.name.removesuffix(".gz"))
        kinds = {(row["kind"], row["member_id"]) for row in whole["violations"]}
        assert [row for row in some["violations"] if (row["kind"], row["member_id"]) not in kinds] == [], path
        severe = {row["finding"] for row in some["findings"] if row["severity"] == "critical"}
        assert severe <= {row["finding"] for row in whole["findings"]}, path
