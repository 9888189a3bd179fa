"""Spark's own Kafka connector, reading and writing topics of the broker, in batches and in streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from effort import usual_and_long

from mockbroker import ThreadCluster, run_cluster

LIMIT = 60  # seconds for a stream to end
LETTERS = [chr(ord("a") + number) for number in range(20)]
DEPRECATED = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"


@pytest.fixture
def cluster() -> Iterator[ThreadCluster]:
    with run_cluster(topics={"orders": 3, "copy": 3}, config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        yield cluster


def read(spark: Any, cluster: ThreadCluster, **options: str) -> Any:
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    return spark.read.format("kafka").options(**servers, **options).load()


def copy(spark: Any, cluster: ThreadCluster, checkpoint: Path, **options: str) -> None:
    """Copy the records of ``orders`` that were not copied before to ``copy``."""
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    frames = spark.readStream.format("kafka").options(
        **servers, subscribe="orders", startingOffsets="earliest", **options
    )
    sink = frames.load().select("key", "value").writeStream.format("kafka").options(**servers, topic="copy")
    query = sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(LIMIT)


def values(cluster: ThreadCluster, topic: str) -> list[str]:
    return sorted((record.value or b"").decode() for record in cluster.records(topic))


def apis(cluster: ThreadCluster) -> set[str]:
    return {request.api for request in cluster.requests()}


def test_batch_write(spark, cluster):
    rows = spark.createDataFrame([(letter.encode(), letter.encode()) for letter in LETTERS], "key binary, value binary")
    rows.write.format("kafka").option("kafka.bootstrap.servers", cluster.bootstrap_servers).option(
        "topic", "orders"
    ).save()
    assert values(cluster, "orders") == LETTERS
    assert {"InitProducerId", "Produce"} <= apis(cluster)


READS = [  # options, letters read
    ({"subscribe": "orders"}, LETTERS),
    ({"subscribePattern": "ord.*", "minPartitions": "7"}, LETTERS),
    ({"assign": '{"orders":[0,2]}'}, LETTERS[0::3] + LETTERS[2::3]),
    (
        {"subscribe": "orders", "startingOffsets": '{"orders":{"0":5,"1":-2,"2":5}}'},
        LETTERS[15::3] + LETTERS[1::3] + LETTERS[17::3],
    ),
    ({"subscribe": "orders", "startingTimestamp": "10"}, LETTERS[10:]),
]


@pytest.mark.parametrize(("options", "letters"), usual_and_long(READS[-2:], READS[:-2]))
def test_batch_read(spark, cluster, options, letters):
    for number, letter in enumerate(LETTERS):
        cluster.produce("orders", [letter], partition=number % 3, timestamp=number)
    rows = read(spark, cluster, **options).selectExpr("cast(value as string)").collect()
    assert sorted(row.value for row in rows) == sorted(letters)
    assert {"DescribeCluster", "DescribeTopicPartitions", "ListOffsets", "Fetch"} >= apis(cluster) - {
        "ApiVersions",
        "Metadata",
    }


def test_keys_headers_and_times(spark, cluster):
    cluster.produce("orders", ["soup"], partition=1, key=b"k", headers=[("h", b"1")], timestamp=1_000)
    (row,) = read(spark, cluster, subscribe="orders", includeHeaders="true").collect()
    assert (row.key, row.value, row.topic, row.partition, row.offset) == (b"k", b"soup", "orders", 1, 0)
    assert [(header.key, header.value) for header in row.headers] == [("h", b"1")]
    assert row.timestamp.timestamp() == 1.0


@pytest.mark.parametrize("deprecated", usual_and_long([False], [True]))
def test_stream(spark, cluster, tmp_path, deprecated):
    """A stream continues from its checkpoint; offsets are fetched by an admin client, or by a member of a group."""
    spark.conf.set(DEPRECATED, str(deprecated).lower())
    options = {"kafka.group.id": "sparks"} if deprecated else {}
    try:
        for letters in (LETTERS[:7], LETTERS[7:]):
            cluster.produce("orders", letters)
            copy(spark, cluster, tmp_path / "checkpoint", **options)
    finally:
        spark.conf.unset(DEPRECATED)
    assert values(cluster, "copy") == LETTERS
    assert "OffsetCommit" not in apis(cluster)  # its offsets are in the checkpoint
    groups = {"FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "LeaveGroup"}
    assert apis(cluster) & groups == (groups if deprecated else set())
    if deprecated:
        shares = [event.assignment for event in cluster.events() if event.event == "assign"]
        assert shares == [{"orders": [0, 1, 2]}] * 2
        assert cluster.groups()["sparks"].state == "Empty"
