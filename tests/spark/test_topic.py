"""Frames of a topic, as the proxy's recorder writes them, have the tables of the same frames in a frame log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from recorded_topics import PARTITIONS, lines, write
from spark import traces

pytest.importorskip("pyspark")

from kwire.analysis import parquet
from kwire.analysis.columns import Row
from kwire.spark import topic
from kwire.spark.command import command
from kwire.spark.job import Job
from kwire.spark.output import Output
from kwire.spark.stream import Stream
from mockbroker import ThreadCluster, run_cluster

LOG = traces.ROOT / "fixtures" / "recordings" / "kafka-python__mockbroker.jsonl"
PLACES = ("file", "position", "response_file", "response_position")  # not the same in a file and in a topic
LIMIT = 300  # seconds


@pytest.fixture
def cluster() -> Iterator[ThreadCluster]:
    with run_cluster(topics={"frames": PARTITIONS}) as cluster:
        yield cluster


def without_places(tables: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
    return {
        name: [{column: value for column, value in row.items() if column not in PLACES} for row in rows]
        for name, rows in tables.items()
    }


def test_a_topic_has_the_rows_of_a_frame_log(spark, cluster, tmp_path):
    """A record of another kind in the topic is a problem."""
    write(cluster, lines(LOG))
    address = f"kafka://{cluster.bootstrap_servers}/frames"
    Job([address], Output(str(tmp_path)), "c").run(spark)
    result, expected = parquet.read(tmp_path), traces.single([LOG], "c")
    assert without_places(result) == without_places(expected)
    assert len(result["frames"]) > 20
    assert {row["file"] for row in result["frames"]} <= {f"{address}/{n}" for n in range(PARTITIONS)}
    cluster.produce("frames", [b"tea"], partition=1)
    summary = Job([address], Output(str(tmp_path)), "c").run(spark)
    (problem,) = summary.problems
    assert (problem.file, "not a record of a recording" in problem.reason) == (f"{address}/1", True)
    assert len(parquet.read(tmp_path)["frames"]) == len(expected["frames"])


def test_a_topic_behind_tls_and_sasl(spark, tmp_path):
    config = tmp_path / "client.properties"
    settings = {"sasl.enabled.mechanisms": "SCRAM-SHA-512"}
    with run_cluster(
        topics={"frames": PARTITIONS}, listeners=["SASL_SSL"], users={"alice": 'secret "'}, config=settings
    ) as secured:
        write(secured, lines(LOG))
        assert secured.tls is not None
        config.write_text(
            f"security.protocol=SASL_SSL\nssl.truststore.location={secured.tls.ca}\n"
            'sasl.mechanism=SCRAM-SHA-512\nsasl.username=alice\nsasl.password=secret "\n'
        )
        address = f"kafka://{secured.bootstrap_servers}/frames?config={config}"
        Job([address], Output(str(tmp_path / "out")), "c").run(spark)
    assert without_places(parquet.read(tmp_path / "out")) == without_places(traces.single([LOG], "c"))


def test_properties_that_spark_cannot_use_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "c").write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=file:///t\n"
    )
    arguments = ["--input", f"kafka://h:1/t?config={tmp_path}/c", "--output", str(tmp_path / "out")]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 2
    assert f"{tmp_path}/c: sasl.mechanism=OAUTHBEARER is not supported with Spark" in done.stderr


def test_a_topic_as_a_stream(spark, cluster, tmp_path):
    """The second run continues where the first one ended, in the middle of connections."""
    every = lines(LOG)
    stream = Stream([f"kafka://{cluster.bootstrap_servers}/frames"], Output(str(tmp_path / "out")), "c")
    for some in (every[: len(every) // 2], every[len(every) // 2 :]):
        write(cluster, some)
        assert stream.start(spark, once=True).awaitTermination(LIMIT)
    stream.finish(spark)
    assert without_places(parquet.read(tmp_path / "out")) == without_places(traces.single([LOG], "c"))


@pytest.mark.parametrize("time_us", [b"9" * 30, b"-9223372036854775808", b"", b"noon", None])
def test_a_record_with_an_invalid_time_is_a_problem(time_us: bytes | None) -> None:
    """The job continues, because any client may produce to the topic."""
    texts = {"connection": b"c", "client": b"a:1", "broker": b"b:2", "direction": b"request", "time_us": time_us}
    headers = [{"key": key, "value": value} for key, value in texts.items()]
    record = {"value": b"frame", "partition": 0, "offset": 3, "headers": headers}
    schema = pa.schema(
        [
            ("value", pa.binary()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ]
    )
    (row,) = topic.rows(pa.RecordBatch.from_pylist([record], schema=schema), "kafka://h:1/t").to_pylist()
    assert row["problem"] == "not a record of a recording"


def test_a_topic_is_the_only_input(tmp_path: Path) -> None:
    arguments = ["--input", "kafka://localhost:9092/frames", "--input", "x.pcap", "--output", str(tmp_path)]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert "a topic cannot be combined with other inputs: run the command once for each" in result.stderr
