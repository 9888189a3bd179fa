"""Old Java clients: in a group, with every compression codec, and on a broker that is too new for them."""

from __future__ import annotations

import subprocess

import pytest
from interop import programs
from interop.stage import CONFIG, LIMIT, MARKS

from mockbroker import Cluster, run_cluster

pytestmark = MARKS

PATIENCE_MS = 5_000
COMPRESSIONS = ("none", "gzip", "snappy", "lz4")
VALUES = [f"{compression}-{number}" for compression in COMPRESSIONS for number in range(2)]
ALL_OF_IT = [
    f"produced {len(VALUES)}",
    "assigned 1",
    *(f"value {value} key {offset}" for offset, value in enumerate(VALUES)),
    f"committed {len(VALUES)}",
    "assigned 1",
    f"again {len(VALUES)}",
]
TOO_OLD = ["failed to produce: NetworkException", "failed to produce: NetworkException", "produced 0"]


def said(cluster: Cluster, release: str) -> list[str]:
    """Return the lines that the client of a release prints on this cluster."""
    command = [*programs.old_java(release), cluster.bootstrap_servers, "orders", "old", str(PATIENCE_MS)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT * 2, check=False).stdout.splitlines()


USUAL = [("0.9.0.1", "2.8"), ("0.11.0.3", "all"), ("2.8.2", "3.9")]  # each client release and each broker release once


@pytest.mark.parametrize(
    ("release", "as_version"),
    [
        pytest.param(release, as_version, marks=[] if (release, as_version) in USUAL else pytest.mark.long)
        for release in ("0.9.0.1", "0.11.0.3", "2.8.2")
        for as_version in ("2.8", "3.9", "all")
    ],
)
def test_an_old_client_on_an_old_broker(release: str, as_version: str) -> None:
    with run_cluster(topics={"orders": 1}, config=CONFIG, as_version=as_version) as cluster:
        assert said(cluster, release) == ALL_OF_IT
        assert [event.event for event in cluster.journal.events].count("commit") == 1


@pytest.mark.parametrize(("release", "expected"), [("0.9.0.1", TOO_OLD), ("0.11.0.3", ALL_OF_IT)])
def test_kafka_4_2_is_too_new_for_0_9_and_not_for_0_11(release: str, expected: list[str]) -> None:
    """The old client fails as on Kafka 4.2.0, and the broker then serves a newer client."""
    with run_cluster(topics={"orders": 1}, config=CONFIG, as_version="4.2") as cluster:
        assert said(cluster, release) == expected
        if expected is TOO_OLD:
            assert said(cluster, "2.8.2") == ALL_OF_IT


def test_clients_of_all_times_in_one_group() -> None:
    """A client of 2.8 reads the records of a client of 0.9, and continues at the offset that it committed."""
    with run_cluster(topics={"orders": 1}, config=CONFIG, as_version="3.9") as cluster:
        assert said(cluster, "0.9.0.1") == ALL_OF_IT
        later = said(cluster, "2.8.2")
    offsets = [line.rpartition(" ")[2] for line in later if line.startswith("value")]
    assert offsets == [str(len(VALUES) + number) for number in range(len(VALUES))]
    assert later[-1] == f"again {2 * len(VALUES)}"
