from __future__ import annotations

from typing import Any

import pytest
from tools.handmade_calls import GROUP, CallLog, two_members

from kwire.analysis.readiness import BLOCKED, NOTE, READY, Statement, labels, needed_upgrade, statements
from kwire.analysis.usage import FIRST_IN_4
from kwire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kwire.messages.produce import ProduceRequest
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest


def statements_of(log: CallLog, kind: str) -> list[Statement]:
    return [one for one in statements(log.tables()) if one.kind == kind]


def test_client_with_removed_versions_is_blocked() -> None:
    log = two_members()
    for version in (FIRST_IN_4[8] - 1, FIRST_IN_4[8]):
        log.call("old", 900, OffsetCommitRequest(group_id=GROUP), OffsetCommitResponse(), version)
    assert statements_of(log, "client") == [
        Statement(READY, "client", "a", "tea 1.0", "all requests are served"),
        Statement(READY, "client", "b", "tea 1.0", "all requests are served"),
        Statement(
            BLOCKED,
            "client",
            "old",
            "tea 1.0",
            "removed requests: OffsetCommit v1 (1)",
            removed=("OffsetCommit v1 (1)",),
        ),
    ]


@pytest.mark.parametrize(
    ("request_class", "versions", "magics"),
    [
        (ProduceRequest, [0, 1], (0,)),
        (ProduceRequest, [2], (1,)),
        (ProduceRequest, [2, 3], (1, 2)),
        (ProduceRequest, [12], (2,)),
        (FetchRequest, [1], (0,)),
        (FetchRequest, [2, 3], (1,)),
        (FetchRequest, [4], (2,)),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else str(value),
)
def test_message_format_of_versions(request_class: type, versions: list[int], magics: tuple[int, ...]) -> None:
    log = CallLog()
    for version in versions:
        log.call("app", 1, request_class(), None, version)
    (found,) = statements_of(log, "client")
    assert found.magics == magics
    assert (found.state == BLOCKED) == (magics[0] < 2) == ("records of magic" in found.detail)


@pytest.mark.parametrize(
    ("calls", "protocols"),
    [
        ([(AddPartitionsToTxnRequest, 3), (ProduceRequest, 11), (EndTxnRequest, 4)], ("TV1",)),
        ([(AddOffsetsToTxnRequest, 4), (TxnOffsetCommitRequest, 4)], ("TV1",)),
        ([(ProduceRequest, 12), (TxnOffsetCommitRequest, 5), (EndTxnRequest, 5)], ("TV2",)),
        ([(EndTxnRequest, 4), (EndTxnRequest, 5)], ("TV1", "TV2")),
        ([(ProduceRequest, 12), (AddPartitionsToTxnRequest, 5)], ()),
    ],
    ids=["TV1", "TV1 with offsets", "TV2", "upgraded meanwhile", "no transaction of a client"],
)
def test_transaction_protocol(calls: list[tuple[type, int]], protocols: tuple[str, ...]) -> None:
    log = CallLog()
    for request_class, version in calls:
        log.call("app", 1, request_class(), None, version)
    (found,) = statements_of(log, "client")
    assert (found.state, found.transactions) == (READY, protocols)
    expected = f"; transactions of {' and '.join(protocols)}" if protocols else ""
    assert found.detail == f"all requests are served{expected}"


def test_groups_by_assignor() -> None:
    expected: dict[str, Any] = {
        "range": (READY, "can move to KIP-848 with the same assignor"),
        "sticky": (READY, "can move to KIP-848: sticky becomes uniform"),
        "own": (NOTE, "no KIP-848 equivalent of assignor own"),
    }
    for assignor, (state, detail) in expected.items():
        log = CallLog()
        log.join("a", 0, 1, "a", protocol=assignor)
        log.sync("a", 10, 1, [0, 1], {"a": [0, 1]})
        tables = log.tables()
        for row in tables["api_usage"]:
            row["software_name"], row["software_version"] = "apache-kafka-java", "4.0.0"
        assert [one for one in statements(tables) if one.kind == "group"] == [
            Statement(state, "group", GROUP, None, detail, cluster="10.0.0.9:9092")
        ]


@pytest.mark.parametrize(
    ("name", "version", "upgrade"),
    [
        ("apache-kafka-java", "3.9.1", "apache-kafka-java 3.9.1 needs 4.0"),
        ("apache-kafka-java", "4.0.0", None),
        ("librdkafka", "2.0.2", "librdkafka 2.0.2 needs 2.12"),
        ("confluent-kafka-python", "2.3.0-rdkafka-2.3.0", "librdkafka 2.3.0 needs 2.12"),
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0", None),
        ("confluent-kafka-go", "v2.11.1-rdkafka-v2.11.1", "librdkafka v2.11.1 needs 2.12"),
        ("sarama", "1.0.0", None),
        (None, None, None),
    ],
    ids=str,
)
def test_upgrade_that_a_library_needs_for_kip_848(name: str | None, version: str | None, upgrade: str | None) -> None:
    assert needed_upgrade(name, version) == upgrade


def test_group_with_old_members_is_a_note() -> None:
    tables = two_members().tables()
    for row in tables["api_usage"]:
        version = "3.9.1" if row["client_id"] == "b" else "4.0.0"
        row["software_name"], row["software_version"] = "apache-kafka-java", version
    (group,) = (one for one in statements(tables) if one.kind == "group")
    expected = "can move to KIP-848 with the same assignor, after upgrades: apache-kafka-java 3.9.1 needs 4.0"
    assert (group.state, group.detail) == (NOTE, expected)


@pytest.mark.parametrize(
    ("software", "condition"),
    [
        (("kafka-python", "3.0.12"), ", if supported by kafka-python 3.0.12"),
        ((None, None), ", if supported by the unknown library of b"),
        (("confluent-kafka-python", "2.3.0-rdkafka-2.3.0"), ", after upgrades: librdkafka 2.3.0 needs 2.12"),
    ],
    ids=["other library", "no ApiVersions v3", "old librdkafka"],
)
def test_group_is_ready_only_if_all_libraries_support_kip_848(
    software: tuple[str | None, str | None], condition: str
) -> None:
    tables = two_members().tables()
    for row in tables["api_usage"]:
        known = software if row["client_id"] == "b" else ("apache-kafka-java", "4.2.0")
        row["software_name"], row["software_version"] = known
    (group,) = (one for one in statements(tables) if one.kind == "group")
    assert (group.state, group.detail) == (NOTE, f"can move to KIP-848 with the same assignor{condition}")


def test_groups_of_two_clusters_with_one_name() -> None:
    tables = {name: [*rows] for name, rows in two_members().tables().items()}
    for name in ("group_events", "rebalances", "members"):
        tables[name] = [{**row, "cluster": cluster} for cluster in ("tea", "milk") for row in tables[name]]
    rows = [row for row in statements(tables) if row.kind == "group"]
    assert [(row.name, row.cluster) for row in rows] == [(GROUP, "milk"), (GROUP, "tea")]
    assert labels(rows) == [f"{GROUP} (cluster milk)", f"{GROUP} (cluster tea)"]
    assert labels(rows[:1]) == [GROUP]
