"""Rows about lost or cut packets are right, or are marked."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from captures import records, snapped
from tools.captures import CAPTURES
from tools.handmade_calls import GROUP, two_members
from tools.pcap import pcap

from kwire.analysis.clusters import Clusters, ClusterStatement
from kwire.analysis.columns import Row
from kwire.analysis.extract import events_of
from kwire.analysis.groups.history import Ends, fold
from kwire.analysis.run import analyse
from kwire.analysis.unread import MOST, Unread, Watch, in_cluster
from kwire.capture import Call, Connection, Problem, Skipped, read
from kwire.capture.calls.model import INCOMPLETE, KAFKA, RESPONSE_NOT_SEEN, TLS, UNKNOWN_VERSION, UNREADABLE

PATHS = sorted(CAPTURES.glob("*.pcap*"))
SNAPLENS = (64, 96, 128, 192, 256, 512)
IN_FRAMES = ("conn_id", "number", "file", "position", "response_file", "response_position", "reason")
Tables = dict[str, Sequence[Row]]


def tables_of(path: str | Path) -> Tables:
    items = list(read(path))
    noticed = [item for item in items if isinstance(item, (Problem, Skipped))]
    connections = [item for item in items if isinstance(item, Connection)]
    return analyse((item for item in items if isinstance(item, Call)), connections, "c", noticed)


@cache
def whole(path: Path) -> Tables:
    return tables_of(path)


def keyed(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], Row]:
    return {tuple(row[name] for name in names): row for row in rows}


def nameless(row: Row) -> Row:
    """Return a row without values from other calls: the cluster, and topics of partitions."""
    lists = {name: row[name] for name in ("partitions", "gained", "lost") if name in row}
    numbers = {name: [partition.rpartition("-")[2] for partition in found] for name, found in lists.items()}
    return row | {"cluster": None} | numbers


def check(found: Tables, truth: Tables) -> int:
    """Check that rows of groups equal those of the whole capture, or are marked. Return the number of marked rows."""
    sure = 0
    for name, key in {
        "rebalances": ("group_id", "protocol", "to_generation"),
        "members": ("group_id", "protocol", "generation", "member_id"),
        "assignment_changes": ("group_id", "protocol", "ts", "member_id"),
    }.items():
        true = keyed(truth[name], *key)
        for row in found[name]:
            if not row["incomplete"]:
                sure += 1
                assert nameless(row) == nameless(true[tuple(row[part] for part in key)])
    for name, key in {
        "violations": ("ts", "kind", "group_id", "member_id"),
        "offset_commits": ("ts", "group_id", "member_id", "partition", "offset"),
    }.items():
        true = keyed(truth[name], *key)
        for row in found[name]:
            if "not certain" not in (row.get("detail") or ""):
                assert tuple(row[part] for part in key) in true, row
    return sure


def cut_packets(path: Path) -> list[tuple[bytes, int]]:
    return [(data, size) for _, data, size in records(path) if len(data) < size]


def payload_at(data: bytes) -> int:
    """Return the offset of the payload of a packet with Ethernet, IPv4 without options, and TCP."""
    return 14 + 20 + 4 * (data[14 + 20 + 12] >> 4)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name.partition(".pcap")[0])
def test_packets_cut_by_a_snap_length(path: Path, tmp_path: Path) -> None:
    """Each call has its original values as far as it was captured, and files and connections are marked."""
    truth = whole(path)
    frames = keyed(truth["frames"], "client", "correlation_id", "api_key", "request_ts")
    sure = {}
    for snaplen in SNAPLENS:
        cut = tmp_path / "cut.pcap"
        cut.write_bytes(snapped(path, snaplen))
        result = tables_of(cut)
        sure[snaplen] = check(result, truth)
        for row in result["frames"]:
            if row["api_key"] is None:
                continue
            true = frames[row["client"], row["correlation_id"], row["api_key"], row["request_ts"]]
            assert {name: value for name, value in row.items() if value is not None and name not in IN_FRAMES} == {
                name: true[name] for name, value in row.items() if value is not None and name not in IN_FRAMES
            }
            assert row["reason"] or (row["request"], row["response"]) == (true["request"], true["response"])
        missing = [
            size - begin for data, size in cut_packets(cut) if (begin := max(len(data), payload_at(data))) < size
        ]
        (problem,) = [row for row in result["problems"] if row["packets"]]
        assert (problem["reason"], problem["packets"]) == ("snaplen", len(missing))
        assert problem["error"] is not None
        assert sum(row["gap_bytes"] for row in result["connections"]) <= sum(missing)
        assert {row["conn_id"] for row in result["connections"] if row["gap_bytes"]} == {
            row["conn_id"] for row in result["problems"] if row["reason"] == "gaps"
        }
        assert {row["status"] for row in result["connections"]} == {KAFKA}
    assert sure[64] == 0
    assert sure[512] > 0 or not truth["rebalances"]


def few_bytes(source: random.Random, packet: tuple[int, bytes, int]) -> list[tuple[int, bytes, int]]:
    time_us, data, size = packet
    return [(time_us, data[: source.randint(66, len(data) - 1)], size)]


def no_bytes(source: random.Random, packet: tuple[int, bytes, int]) -> list[tuple[int, bytes, int]]:
    return []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("missing", [few_bytes, no_bytes], ids=["cut", "lost"])
@pytest.mark.parametrize(
    "path", [path for path in PATHS if whole(path)["rebalances"]], ids=lambda path: path.name.partition(".pcap")[0]
)
def test_packets_cut_or_lost_here_and_there(
    path: Path, missing: Callable[..., list[tuple[int, bytes, int]]], seed: int, tmp_path: Path
) -> None:
    source, kept = random.Random(f"{path.name} {seed}"), []
    for packet in records(path):
        hit = len(packet[1]) > 66 and source.random() < 0.02
        kept += missing(source, packet) if hit else [packet]
    trace = tmp_path / "trace.pcap"
    trace.write_bytes(pcap(kept))
    check(tables_of(trace), whole(path))


def connection(status: str = KAFKA, lost: list[tuple[int, int]] | None = None) -> Connection:
    return Connection(
        id="c1", client="c:1", broker="b:1", first_us=0, last_us=9, status=status, lost=[] if lost is None else lost
    )


def call(key: int, reason: str | None, group: str | None = None, at: int = 5) -> Call:
    return Call(
        connection="c1",
        client="c:1",
        broker="b:1",
        number=1,
        api_key=key,
        api_version=4,
        request_us=at,
        response_us=at + 2,
        reason=reason,
        group_id=group,
    )


def watched(*calls: Call, **options: Any) -> list[tuple[int, int, str | None]]:
    watch = Watch()
    for one in calls:
        watch.note(one, events_of(one))
    return [(one.begin, one.end, one.group_id) for one in watch.finish(connection(**options))]


@pytest.mark.parametrize("reason", [INCOMPLETE, UNKNOWN_VERSION, UNREADABLE])
def test_calls_of_groups_that_were_not_read(reason: str) -> None:
    assert watched(call(11, reason, "orders"), call(1, reason), call(14, RESPONSE_NOT_SEEN)) == [(5, 7, "orders")]
    assert watched(call(11, reason)) == [(5, 7, None)]


def test_lost_frames_count_for_the_groups_of_their_connection() -> None:
    beat = two_members().calls[-1]
    assert watched(beat, lost=[(1, 3)]) == [(1, 3, GROUP)]
    assert watched(lost=[(1, 3)]) == [(1, 3, None)]
    assert watched(beat, lost=[(1, 3)], status=TLS) == []


def test_times_of_a_connection_are_bounded() -> None:
    times = watched(*(call(11, INCOMPLETE, "orders", at=n * 2_000_000) for n in range(MOST + 5)))
    assert len(times) == MOST
    assert times[-1] == ((MOST - 1) * 2_000_000, (MOST + 4) * 2_000_000 + 2, "orders")


def test_unread_data_of_another_cluster_is_not_the_groups() -> None:
    clusters = Clusters([ClusterStatement(1, "c1", "b:1", "one", ()), ClusterStatement(1, "c2", "b:2", "two", ())])
    results = [Unread(5, 7, "c1", "b:1", None), Unread(15, 17, "c3", "b:3", None)]
    assert in_cluster(results, "one", clusters).between(6, 9)
    assert not in_cluster(results, "two", clusters).between(6, 9)
    assert in_cluster(results, "two", clusters).between(8, 15)  # the cluster of the broker is unknown
    assert not in_cluster(results, "two", clusters).between(17, 20)


def test_a_generation_and_the_next_are_marked() -> None:
    log = two_members()
    events = [event for one in log.calls for event in events_of(one)]
    plain = fold("x", GROUP, events, Ends([]))["rebalances"]
    assert len(plain) > 2
    first = plain[0]
    hidden = Unread(first["joined_ts"] - 1, first["joined_ts"], "c9", "b:9", GROUP)
    marked = fold("x", GROUP, events, Ends([]), unread=[hidden])["rebalances"]
    assert [row["incomplete"] for row in marked][:3] == [True, True, plain[2]["incomplete"]]
    assert fold("x", GROUP, events, Ends([]), unread=[replace(hidden, group_id="other")])["rebalances"] == plain
