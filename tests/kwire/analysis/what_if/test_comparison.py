"""Replays with numbers that were calculated by hand, and replays of real captures through the original assignor."""

from __future__ import annotations

from typing import Any

import pytest
from effort import amount
from tools.captures import CAPTURES, MORE, capture, more_captures, tables_of
from tools.handmade_calls import CallLog, line, two_members
from tools.histories import broker_history, history

from kwire.analysis.columns import Row
from kwire.analysis.run import analyse
from kwire.analysis.tables import ON_REQUEST, TABLES
from kwire.assignors import CLIENT, SERVER
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.capture import Call, read

CAKE, TEA = (tuple(f"{topic}-{n}" for n in range(3)) for topic in ("cake", "tea"))
COUNTS = {"cake": 3, "tea": 3}


def mixed(*, sized: bool = True) -> CallLog:
    """Return events in which A and B share two topics of 3 partitions by range: A has 4 of 6. B leaves at 500 ms."""
    log, topics, every = CallLog(), ["cake", "tea"], [*CAKE, *TEA]
    first, second = [*CAKE[:2], *TEA[:2]], [CAKE[2], TEA[2]]
    if sized:
        log.metadata("a", -10, COUNTS)
    log.join("a", 0, 1, "a", topics=topics)
    log.sync("a", 10, 1, every, {"a": every})
    log.join("b", 100, 2, took=60, topics=topics)
    log.beat("a", 120, 1, error=27)
    log.join("a", 150, 2, "a", "b", took=10, topics=topics)
    log.sync("b", 161, 2, second, took=9)
    log.sync("a", 165, 2, first, {"a": first, "b": second}, took=3)
    log.leave("b", 500)
    log.beat("a", 700, 2, error=27)
    log.join("a", 710, 3, "a", topics=topics)
    log.sync("a", 720, 3, every, {"a": every}, took=4)
    return log


FACTS = "generation moved moved_what_if imbalance imbalance_what_if stopped_ms stopped_ms_what_if avoided_ms"
FACTS += " rebalances_what_if elsewhere"

# Generation 2: A asked to rejoin at 150 and was told at 168, B at 170. By range 4 partitions stay with A, 18 ms each, and
# 2 go to B, 20 ms each. Generation 3: B was gone at 500, A asked at 710 and was told at 724. A follow-up, and what the
# broker moves, lasts as long as generation 2, which began when B asked at 100: 70 ms.
MIXED = [
    ("range", [(2, 2, 2, 2, 2, 112, 112, 0, 1, 0), (3, 2, 2, 0, 0, 504, 504, 0, 1, 0)]),
    ("sticky", [(2, 2, 3, 2, 0, 112, 3 * 18 + 3 * 20, -2, 1, 1), (3, 2, 3, 0, 0, 504, 3 * 224 + 3 * 14, -210, 1, 0)]),
    ("cooperative-sticky", [(2, 2, 3, 2, 0, 112, 3 * 70, -98, 2, 1), (3, 2, 3, 0, 0, 504, 3 * 224, -168, 1, 0)]),
    ("uniform", [(2, 2, 3, 2, 0, 112, 3 * 70, -98, 1, 3), (3, 2, 3, 0, 0, 504, 3 * 224, -168, 1, 0)]),
]


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize(("assignor", "expected"), MIXED, ids=[name for name, _ in MIXED])
def test_mixed_topics(assignor: str, expected: list[Any], sized: bool) -> None:
    rows = mixed(sized=sized).tables(assignor)["what_if"]
    assert line(rows[0], FACTS) == (1, 0, 0, 0, 0, 0, 0, 0, 1, 0)
    assert [line(row, FACTS) for row in rows[1:]] == expected
    about = "members partitions sized_by protocol_name assignor note"
    by = "metadata" if sized else "assignments"
    assert [line(row, about) for row in rows] == [
        (1, 6, by, "range", assignor, None),
        (2, 6, by, "range", assignor, None),
        (1, 6, by, "range", assignor, None),
    ]


def shares(tables: dict[str, list[Row]], generation: int) -> dict[str, list[str]]:
    results: dict[str, list[str]] = {}
    for row in tables["what_if_assignments"]:
        if row["generation"] == generation:
            results.setdefault(row["member_id"], []).append(f"{row['topic']}-{row['partition']}")
    return results


def test_shares() -> None:
    """A keeps the first three of its six: by number, then by topic."""
    tables = mixed().tables("sticky")
    assert shares(tables, 1) == {"a": [*CAKE, *TEA]}
    assert shares(tables, 2) == {"a": ["cake-0", "cake-1", "tea-0"], "b": ["cake-2", "tea-1", "tea-2"]}
    rows = [row for row in tables["what_if_assignments"] if row["generation"] == 3]
    assert {(row["topic"], row["from_prev_owner"]) for row in rows} == {
        ("cake", "a"),
        ("cake", "b"),
        ("tea", "a"),
        ("tea", "b"),
    }
    assert {row["client_id"] for row in rows} == {"a"}


def cooperative() -> CallLog:
    """A has 2 partitions of tea, B joins; A revokes one in generation 2, B gets it in 3. B leaves at 500 ms."""
    log, more = CallLog(), {"protocol": "cooperative-sticky"}
    log.metadata("a", -10, {"tea": 2})
    log.join("a", 0, 1, "a", **more)
    log.sync("a", 10, 1, [0, 1], {"a": [0, 1]})
    log.join("b", 100, 2, took=60, **more)
    log.join("a", 150, 2, "a", "b", took=10, owned=blob_of([0, 1]), **more)
    log.sync("b", 161, 2, [], took=9)
    log.sync("a", 165, 2, [0], {"a": [0], "b": []}, took=3)
    log.join("a", 170, 3, "a", "b", took=30, owned=blob_of([0]), **more)
    log.join("b", 190, 3, took=10, **more)
    log.sync("a", 201, 3, [0], {"a": [0], "b": [1]}, took=3)
    log.sync("b", 202, 3, [1], took=4)
    log.leave("b", 500)
    log.join("a", 710, 4, "a", took=1, owned=blob_of([0]), **more)
    log.sync("a", 720, 4, [0, 1], {"a": [0, 1]}, took=4)
    return log


def blob_of(partitions: list[int]) -> list[Any]:
    return [ConsumerProtocolSubscription.TopicPartition(topic="tea", partitions=partitions)]


# Tea-1 was given up at 168, when A was told, and was B's at 206. It was free from 500, when B left, to 724. With members
# that give up everything, A asked at 150 and B was told at 170; generation 3 would not have been.
COOPERATIVE = [
    (
        "cooperative-sticky",
        [(2, 0, 0, 1, 1, 0, 0, 0, 1, 0), (3, 1, 1, 0, 0, 38, 38, 0, 1, 0), (4, 1, 1, 0, 0, 224, 224, 0, 1, 0)],
    ),
    (
        "sticky",
        [
            (2, 0, 1, 1, 0, 0, 18 + 20, -38, 1, 1),
            (3, 1, 0, 0, 0, 38, 0, 38, 0, 0),
            (4, 1, 1, 0, 0, 224, 238, -14, 1, 0),
        ],
    ),
]


@pytest.mark.parametrize(("assignor", "expected"), COOPERATIVE, ids=[name for name, _ in COOPERATIVE])
def test_cooperative(assignor: str, expected: list[Any]) -> None:
    rows = cooperative().tables(assignor)["what_if"]
    assert [line(row, FACTS) for row in rows[1:]] == expected


def test_a_follow_up_that_the_capture_ends_before() -> None:
    """It is assumed to last as long as the rebalance before it: from 100 to 170."""
    log = cooperative()
    del log.calls[7:]
    (_, row) = log.tables("cooperative-sticky")["what_if"]
    assert line(row, FACTS) == (2, 0, 1, 1, 0, 0, 70, -70, 2, 1)


def test_members_without_a_share_have_no_stop() -> None:
    log = mixed()
    log.calls = [call for call in log.calls if call.connection != "b" or call.api_key != 14]
    rows = log.tables("range")["what_if"]
    assert [line(row, "generation stopped_ms stopped_ms_what_if elsewhere") for row in rows][:2] == [
        (1, 0, 0, 0),
        (2, 4 * 18, 4 * 18, 0),
    ]


def test_no_member_received_an_assignment() -> None:
    log = mixed()
    del log.calls[6:8]
    rows = log.tables("sticky")["what_if"]
    assert [row["note"] for row in rows] == [None, "no member received an assignment", None]
    assert rows[1]["moved_what_if"] is rows[1]["stopped_ms"] is rows[1]["rebalances_what_if"] is None
    assert line(rows[2], FACTS)[:3] == (3, 0, 0)


def test_subscriptions_that_the_capture_lacks() -> None:
    """The leader's answers have it of all; without them only that of the others is not known."""
    log = mixed()
    seen = [call for call in log.calls if call.connection == "a"]
    only_leader, only_b = CallLog(), CallLog()
    only_leader.calls, only_b.calls = seen, [call for call in log.calls if call.connection == "b"]
    assert [row["note"] for row in only_leader.tables("sticky")["what_if"]] == [None, None, None]
    for call in seen:
        if call.api_key == 11 and call.response.generation_id == 2:
            for member in call.response.members:
                member.metadata = b""
    rows = only_leader.tables("sticky")["what_if"]
    assert rows[1]["note"] == "the subscriptions of 1 of 2 members were not captured"
    assert [row["note"] for row in only_b.tables("sticky")["what_if"]] == [None]


def test_sizes_that_cannot_be_known() -> None:
    log = two_members()
    log.sync("b", 162, 2, [2**31 - 1], took=7)
    assert [row["note"] for row in log.tables("range")["what_if"]] == [
        None,
        "tea would have more than 200000 partitions",
        "tea would have more than 200000 partitions",
    ]
    items = list(read([CAPTURES / "java-4.2.0__kafka-4.2.0__kip848.pcap.gz"]))
    unnamed = [item for item in items if isinstance(item, Call) and item.api_key != 3]
    tables = analyse(unnamed, (), "c", assignor="uniform")
    assert {row["note"] for row in tables["what_if"]} == {"the partition counts of its topics were not captured"}


def test_capture_from_the_middle_starts_with_owned() -> None:
    log = mixed()
    del log.calls[1:3]
    rows = log.tables("sticky")["what_if"]
    assert line(rows[0], "generation moved moved_what_if imbalance imbalance_what_if") == (2, 0, 0, 2, 0)
    had = {"a": {*CAKE[:2], *TEA[:2]}, "b": {CAKE[2], TEA[2]}}
    now = shares(log.tables("sticky"), 2)
    assert set(now["b"]) > had["b"]
    assert set(now["a"]) < had["a"]


def test_returning_static_member_keeps_its_share() -> None:
    tables = capture("aiokafka-0.14.0__kafka-4.2.0__static", "sticky")
    assert [line(row, "generation moved moved_what_if note") for row in tables["what_if"]] == [
        (1, 0, 0, None),
        (2, 1, 1, None),
    ]


def test_no_tables_of_a_comparison_without_an_assignor() -> None:
    log = mixed()
    asked, plain = log.tables("sticky"), log.tables()
    assert set(plain) == set(TABLES)
    assert set(asked) == {*TABLES, *ON_REQUEST}
    assert {name: asked[name] for name in TABLES} == plain


def test_every_row_has_the_columns_of_its_table() -> None:
    tables = mixed().tables("range")
    for name, table in ON_REQUEST.items():
        assert tables[name]
        assert all(list(row) == [column.name for column in table.columns] for row in tables[name])


# --- the original assignor returns the same assignments again ---

USED = [
    ("aiokafka-0.14.0__kafka-4.2.0__static.pcap.gz", "roundrobin"),
    ("confluent-kafka-2.16.1__kafka-3.9.1__three.pcap.gz", "range"),
    ("confluent-kafka-2.16.1__kafka-4.2.0__kip848.pcap", "range"),
    ("confluent-kafka-2.16.1__kafka-4.2.0__kip848_static.pcap.gz", "range"),
    ("confluent-kafka-2.16.1__kafka-4.2.0__three.pcap.gz", "range"),
    ("java-3.9.1__kafka-3.9.1__sticky.pcap", "sticky"),
    ("java-4.2.0__kafka-4.2.0__cooperative.pcap.gz", "cooperative-sticky"),
    ("java-4.2.0__kafka-4.2.0__kip848.pcap.gz", "uniform"),
    ("java-4.2.0__kafka-4.2.0__timeout.pcap.gz", "range"),
    ("kafka-python-3.0.12__kafka-4.2.0__timeout.pcap.gz", "range"),
]


def assert_same(tables: dict[str, list[Row]]) -> None:
    """Check that every partition of every generation is the same, not only the numbers."""
    assert tables["what_if"]
    for row in tables["what_if"]:
        assert line(row, "rebalances_what_if elsewhere avoided_ms note") == (1, 0, 0, None), row
        for name in ("moved", "imbalance", "stopped_ms"):
            assert row[name] == row[f"{name}_what_if"], row
    about = "group_id cluster life protocol generation member_id client_id topic partition from_prev_owner"
    back = {line(row, "generation member_id") for row in tables["group_events"] if row["event"] == "static_restart"}
    really = [line(row, about) for row in tables["assignments"] if line(row, "generation member_id") not in back]
    assert [line(row, about) for row in tables["what_if_assignments"]] == really


@pytest.mark.parametrize(("name", "assignor"), USED, ids=[name for name, _ in USED])
def test_the_assignor_that_was_used(name: str, assignor: str) -> None:
    assert_same(tables_of(CAPTURES / name, assignor=assignor))


@pytest.mark.parametrize("seed", range(amount(4, 12)))
@pytest.mark.parametrize("assignor", CLIENT)
def test_the_assignor_that_was_used_in_random_groups(assignor: str, seed: int) -> None:
    """Members subscribe to different topics, static members return, and subscriptions change."""
    tables = history(assignor, seed, 15).tables(assignor)
    assert_same(tables)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("assignor", SERVER)
def test_the_assignor_that_the_broker_used_in_random_groups(assignor: str, seed: int) -> None:
    assert_same(broker_history(assignor, seed, 15).tables(assignor))


@pytest.mark.parametrize("seed", range(12))
def test_the_broker_in_random_groups_that_want_the_same(seed: int) -> None:
    """Here the ids of topics decide, too."""
    assert_same(broker_history("uniform", seed, 15, alike=True).tables("uniform"))


# The assignors of the groups in all captures, without the sticky and cooperative ones of librdkafka, which differ.
USUAL = {"aiokafka": "roundrobin"}
SPECIAL = {"sticky": "sticky", "cooperative": "cooperative-sticky"}
LED = [
    (one["file"], SPECIAL.get(one["scenario"], USUAL.get(one["file"].partition("-")[0], "range")))
    for one in more_captures()
    if one["scenario"] in ("three", "static", "timeout", "sticky", "cooperative", "single", "kip848", "kip848_static")
    and not (one["scenario"] == "cooperative" and one["file"].startswith("confluent"))
]


@pytest.mark.parametrize(("file", "assignor"), LED, ids=[file for file, _ in LED])
def test_the_assignor_that_was_used_in_every_capture(file: str, assignor: str) -> None:
    assert_same(tables_of(MORE / file, assignor=assignor))
