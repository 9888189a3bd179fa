"""Real clients that connect through ``mockbroker proxy`` to three brokers of mockbroker or of a real Kafka."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from interop.adapters import ADAPTERS
from interop.gathering import Gathering, gathering_on
from interop.ground import MOCK
from interop.proxied import CONFIG, USERS, Behind, MockBehind, ProxiedGround, RealBehind
from interop.secure import TOPIC, VALUE, Way, come_in
from interop.sharers import GROUP, sharer
from interop.stage import CONSUMER, LIMIT, MARKS, Member
from interop.transformers import OUTPUT, done, transformer
from oracle import kafka
from tools.proxy_process import proxies_in_a_row, running_proxy

from mockbroker import run_cluster
from mockbroker.net.listeners import PROTOCOLS

pytestmark = MARKS

START = 120.0  # seconds in which a broker of a real cluster starts and registers, on a busy machine
CHEAP = "confluent-kafka"  # does not need another process
OF_EACH_LANGUAGE = ("java", "franz-go", "kafkajs", "confluent-kafka")


def families(names: tuple[str, ...]) -> pytest.MarkDecorator:
    """Return a mark with the families: CHEAP, and the others in make test-long only."""
    return pytest.mark.parametrize(
        "family", [pytest.param(name, marks=[] if name == CHEAP else [pytest.mark.long]) for name in names]
    )


@pytest.fixture(scope="module", params=[MOCK, pytest.param(kafka.NEWEST, marks=pytest.mark.long)])
def behind(request: pytest.FixtureRequest) -> Iterator[Behind]:
    """Start the three brokers to which the proxy forwards."""
    if request.param == MOCK:
        with run_cluster(brokers=3, config=CONFIG, listeners=PROTOCOLS, users=USERS) as cluster:
            yield MockBehind(cluster)
        return
    real = RealBehind()
    yield real
    real.end()


@pytest.fixture(scope="module")
def proxied(behind: Behind) -> Iterator[ProxiedGround]:
    """Start one proxy in front of the brokers."""
    with proxies_in_a_row(behind.listeners["PLAINTEXT"], 1) as address, ProxiedGround(address) as ground:
        yield ground


@pytest.fixture
def gathering(proxied: ProxiedGround) -> Iterator[Gathering]:
    with gathering_on(proxied) as gathering:
        yield gathering


def check_group(gathering: Gathering, *families: str, **how: str) -> None:
    """Check that members of these clients share the partitions, read each record once, and give up their shares."""
    members = gathering.come(*families, **how)
    gathering.check_reading()
    gathering.go(members[0])
    gathering.check_reading()
    gathering.check_none_lost_or_twice()


@pytest.mark.parametrize(
    "families",
    [(CHEAP, CHEAP), pytest.param(("java", "franz-go", "kafkajs", "kafka-python"), marks=pytest.mark.long)],
    ids="-".join,
)
def test_classic_groups_through_a_proxy(gathering: Gathering, families: tuple[str, ...]) -> None:
    check_group(gathering, *families, assignor="roundrobin")


@pytest.mark.long
@pytest.mark.parametrize("families", [("java", "franz-go", "confluent-kafka")], ids="-".join)
def test_classic_groups_through_two_proxies(behind: Behind, families: tuple[str, ...]) -> None:
    with (
        proxies_in_a_row(behind.listeners["PLAINTEXT"], 2, "--http", "0") as address,
        ProxiedGround(address) as ground,
        gathering_on(ground) as gathering,
    ):
        check_group(gathering, *families, assignor="range")


@pytest.mark.long
def test_consumer_groups_through_a_proxy(gathering: Gathering) -> None:
    check_group(gathering, *CONSUMER, protocol="consumer")


@families(("java", "franz-go", "confluent-kafka"))
def test_share_groups_through_a_proxy(proxied: ProxiedGround, gathering: Gathering, family: str) -> None:
    proxied.read_from_the_beginning(GROUP)
    values = ["accept-1", "release-1", "reject-1", "accept-2"]
    gathering.produce(values)
    member = sharer(gathering, family, "packer")
    gathering.wait("the records, one of them twice", lambda: len(member.taken) >= len(values) + 1)
    assert Counter(member.taken) == Counter([*((value, 1) for value in values), ("release-1", 2)])
    member.leave()


@families(OF_EACH_LANGUAGE)
def test_transactions_through_a_proxy(proxied: ProxiedGround, gathering: Gathering, family: str) -> None:
    """Clients consume, transform and produce: two transactions are committed, one is aborted and repeated."""
    if OUTPUT not in proxied.topics():
        proxied.create_topic(OUTPUT, gathering.partitions)
    client = ADAPTERS[CHEAP](proxied.bootstrap_servers)
    ends = [end_of(client, partition) for partition in range(gathering.partitions)]
    member = transformer(gathering, family, "billing")
    batches = [[f"{gathering.topic} {batch} {number}" for number in range(gathering.partitions)] for batch in "ab"]
    for batch, steps in zip(batches, (["commit"], ["abort", "commit"]), strict=True):
        gathering.produce(batch)
        for step in steps:
            member.take(len(batch))
            member.end(step)
    member.leave()
    for partition, start in enumerate(ends):
        found = client.read(OUTPUT, partition, start, len(batches), committed=True)
        assert [value for _, value in found] == done([batch[partition] for batch in batches])


@families(OF_EACH_LANGUAGE)
def test_sasl_and_tls_through_a_proxy(behind: Behind, proxied: ProxiedGround, tmp_path: Path, family: str) -> None:
    """SASL is forwarded; both sides of the proxy use TLS."""
    if TOPIC not in proxied.topics():
        proxied.create_topic(TOPIC)
    options = ("--tls", "auto", "--tls-to-ca", str(behind.ca), "--ready-file", str(tmp_path / "ready"))
    with running_proxy(behind.listeners["SASL_SSL"], *options) as (_, address):
        ca = ca_of(tmp_path / "ready")
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"):
            assert come_in(family, Way(servers=address, mechanism=mechanism, ca=ca)) == VALUE


@families(OF_EACH_LANGUAGE)
def test_a_proxy_logs_in_for_its_clients(behind: Behind, proxied: ProxiedGround, tmp_path: Path, family: str) -> None:
    if TOPIC not in proxied.topics():
        proxied.create_topic(TOPIC)
    login = tmp_path / "client.properties"
    login.write_text("sasl.mechanism=SCRAM-SHA-512\nsasl.username=alice\nsasl.password=alice-secret\n")
    options = ("--sasl-to", str(login), "--tls-to-ca", str(behind.ca))
    with running_proxy(behind.listeners["SASL_SSL"], *options) as (_, address):
        assert come_in(family, Way(servers=address)) == VALUE


@pytest.mark.long
def test_groups_behind_a_proxy_survive_restarts_of_brokers(
    behind: Behind, proxied: ProxiedGround, gathering: Gathering
) -> None:
    """Each broker, also the coordinator, is restarted once and keeps its port at the proxy. No record is lost."""
    before = proxied.ports()
    members = gathering.come(*OF_EACH_LANGUAGE, assignor="roundrobin")
    for node in range(3):
        behind.stop(node)
        values = [f"without {node}: {number}" for number in range(2 * gathering.partitions)]
        gathering.produce(values)
        gathering.wait("every record", lambda values=values: set(values) <= read_by(members), 2 * LIMIT)
        behind.start(node)
        wait_until_whole(proxied, before)
    gathering.wait_fair()


def end_of(client: Any, partition: int) -> int:
    """Return the end offset of a partition, as soon as its leader knows the new topic."""
    until = time.monotonic() + LIMIT
    while True:
        try:
            end: int = client.ends(OUTPUT, partition)[1]
        except KafkaException:
            assert time.monotonic() < until
            time.sleep(0.2)
        else:
            return end


def read_by(members: Iterable[Member]) -> set[str]:
    return {value for member in members for value in member.values}


def wait_until_whole(proxied: ProxiedGround, ports: dict[int, int]) -> None:
    """Wait until Metadata names each broker again, at its port."""
    until = time.monotonic() + START
    while (found := proxied.ports()) != ports:
        assert time.monotonic() < until, found
        time.sleep(0.2)


def ca_of(ready_file: Path) -> Path:
    """Return the path of the CA certificate of a proxy with ``--tls auto``."""
    return Path(json.loads(ready_file.read_text())["tls"]["ca"])
