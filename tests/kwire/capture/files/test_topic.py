"""A recording in a topic is read like a frame log."""

from __future__ import annotations

import base64
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import kwire
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from effort import usual_and_long
from golden import ROOT
from recorded_topics import PARTITIONS, lines, write

from kwire.capture import read
from kwire.capture.files import capture_file
from mockbroker import ThreadCluster, run_cluster

pytest.importorskip("confluent_kafka")

LOG = ROOT / "fixtures" / "recordings" / "kafka-python__mockbroker.jsonl"


@pytest.fixture
def cluster() -> Iterator[ThreadCluster]:
    with run_cluster(topics={"frames": PARTITIONS}) as cluster:
        yield cluster


@pytest.fixture
def address(cluster: ThreadCluster) -> str:
    write(cluster, lines(LOG))
    return f"kafka://{cluster.bootstrap_servers}/frames"


def test_groups_of_a_topic_are_those_of_the_frame_log(address: str) -> None:
    result, expected = (json.loads(kwire("groups", "--json", str(path)).stdout) for path in (address, LOG))
    assert result["groups"] == expected["groups"] != []


def test_calls_of_a_topic_are_those_of_the_frame_log(address: str) -> None:
    seen, expected = (
        sorted(
            (call.connection, call.number, call.api_key, repr(call.request), repr(call.response))
            for call in read(path).calls()
        )
        for path in (address, str(LOG))
    )
    assert len(seen) > 20
    assert seen == expected
    assert {call.file for call in read(address).calls()} == {f"{address}/{number}" for number in range(PARTITIONS)}


def test_anonymize_reads_a_topic(address: str, tmp_path) -> None:
    (tmp_path / "key").write_text("0123456789abcdef0123456789abcdef")
    written = []
    for path in (address, str(LOG)):
        out = tmp_path / f"{len(written)}.jsonl"
        assert kwire("anonymize", path, "-o", str(out), "--key-file", str(tmp_path / "key")).exit_code == 0
        written.append(sorted(json.loads(line)["hex"] for line in out.read_text().splitlines()))
    assert written[0] == written[1] != []


def test_other_records_of_the_topic_are_problems(cluster: ThreadCluster, address: str) -> None:
    (offset,) = cluster.produce("frames", [b"tea"], partition=1)
    done = kwire("capture", address)
    assert done.exit_code == 1
    assert f"{address}/1 at offset {offset}: not a record of a recording" in done.stderr
    problems = [line for line in done.stdout.splitlines() if "not a record of a recording" in line]
    assert len(problems) == 1
    assert len(done.stdout.splitlines()) - 1 == len(kwire("capture", str(LOG)).stdout.splitlines())


def test_many_other_records_end_the_partition(
    cluster: ThreadCluster, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_file, "MAX_DAMAGES", 2)
    cluster.produce("frames", [b"tea"] * 10, partition=1)
    reading = read(address)
    list(reading)
    assert [problem.reason for problem in reading.problems][3:] == [capture_file.GIVEN_UP]


def test_a_topic_that_does_not_exist_is_an_error(cluster: ThreadCluster) -> None:
    done = kwire("capture", f"kafka://{cluster.bootstrap_servers}/nope")
    assert done.exit_code == 2
    assert "/nope: Broker: Unknown topic or partition" in done.stderr


def test_a_cluster_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.capture.files.topic.TIMEOUT", 0.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        done = kwire("groups", f"kafka://127.0.0.1:{free.getsockname()[1]}/frames")
    assert done.exit_code == 2
    assert "the cluster does not answer: " in done.stderr


def test_missing_confluent_kafka_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    done = kwire("groups", "kafka://127.0.0.1:9/frames")
    assert done.exit_code == 2
    assert "confluent-kafka is missing: pip install 'kwire[topic]'" in done.stderr


@pytest.mark.parametrize("mechanism", usual_and_long(["SCRAM-SHA-512", ""], ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"]))
def test_a_topic_is_read_with_tls_and_sasl(mechanism: str, tmp_path: Path) -> None:
    sasl = {"sasl.enabled.mechanisms": mechanism} if mechanism else {"ssl.client.auth": "required"}
    listener = "SASL_SSL" if mechanism else "SSL"
    with run_cluster(
        topics={"frames": PARTITIONS},
        listeners=[listener],
        users={"alice": "alice-secret"} if mechanism else None,
        config=sasl,
    ) as cluster:
        write(cluster, lines(LOG))
        assert cluster.tls is not None
        (tmp_path / "token").write_text(f"{token('alice')}\n")
        config = tmp_path / "client.properties"
        config.write_text(
            f"security.protocol={listener}\nssl.truststore.location={cluster.tls.ca}\n"
            f"ssl.keystore.location={locked(cluster.tls.client, tmp_path)}\nssl.key.password=key-secret\n"
            f"sasl.mechanism={mechanism}\nsasl.username=alice\nsasl.password=alice-secret\n"
            f"sasl.oauthbearer.token.endpoint.url=file://{tmp_path}/token\n"
        )
        address = f"kafka://{cluster.bootstrap_servers}/frames?config={config}"
        done = kwire("groups", "--json", address)
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["groups"] == json.loads(kwire("groups", "--json", str(LOG)).stdout)["groups"]


def token(user: str) -> str:
    """An unsigned token, as the mock accepts it."""
    parts = ({"alg": "none"}, {"sub": user, "iat": 1, "exp": 4_000_000_000})
    encoded = (base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts)
    return ".".join((*encoded, ""))


def locked(path: Path, folder: Path) -> Path:
    """A copy of a file with key and certificate, in which the key has the password ``key-secret``."""
    copy, data = folder / "locked.pem", Path(path).read_bytes()
    key = load_pem_private_key(data, None)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"key-secret"))
    copy.write_bytes(encrypted + data[data.index(b"-----BEGIN CERTIFICATE-----") :])
    return copy


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "c.properties: No such file or directory"),
        ("security.protocol=TLS", "c.properties: security.protocol=TLS is not supported"),
        ("security.protocol=SSL\nssl.truststore.location=/none.pem", "c.properties: "),
    ],
)
def test_properties_that_cannot_be_used_are_an_error(content: str | None, problem: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "c.properties").write_text(content)
    done = kwire("groups", f"kafka://127.0.0.1:9/frames?config={tmp_path}/c.properties")
    assert done.exit_code == 2
    assert problem in done.stderr
