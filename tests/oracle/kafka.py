"""A real Apache Kafka on loopback, to check facts about Kafka. Needs Java 17 and Maven.

    kafka.py fetch [--release 4.2.0]                                 the jars, once, from Maven Central into .oracle/
    kafka.py start [KEY=VALUE ...] [--release 4.2.0] [--port 19092]  one node, broker and controller, id 1, empty
    kafka.py stop  [--port 19092]

KEY=VALUE are broker settings, which override those of SETTINGS. ``start`` prints the address when the broker serves
groups. A broker needs about 500 MB of memory, and a release about 60 MB of disk space.
"""

from __future__ import annotations

import argparse
import base64
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from kwire import ErrorCode, decode_response, encode_request
from kwire.frames import pack
from kwire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kwire.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)

FOLDER = Path(os.environ.get("ORACLE_DIR", Path(__file__).parent.parent.parent / ".oracle"))
REPORTER = Path(__file__).parent.parent.parent / "fixtures" / "java" / "TelemetryReporter.java"
NEWEST = "4.2.0"
JARS = ["kafka_2.13", "kafka-tools", "kafka-clients"]
READY_WITHIN = 120.0  # seconds
SETTINGS = {  # settings with which the stored conversations were recorded
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.max.session.timeout.ms": "1800000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "log.message.timestamp.type": "CreateTime",
    "offset.metadata.max.bytes": "4096",
    "num.partitions": "3",
}

RACK = "broker.rack"
OF_ALL = (RACK, "replica.selector.class")  # settings of a script that are set for all brokers of a cluster

_started: dict[int, subprocess.Popen[bytes]] = {}  # brokers that this process has started, by port


def fetch(release: str) -> Path:
    """Return the folder with the jars of a release; Maven fetches them only once, also for concurrent processes."""
    jars = FOLDER / f"jars-{release}"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{release}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.exists():
            _fetch(release, jars)
    return jars


def _fetch(release: str, jars: Path) -> None:
    project = FOLDER / f"maven-{release}"
    project.mkdir(parents=True, exist_ok=True)
    wanted = "".join(
        f"<dependency><groupId>org.apache.kafka</groupId><artifactId>{jar}</artifactId>"
        f"<version>{release}</version></dependency>"
        for jar in JARS
    )
    (project / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>local</groupId>'
        f"<artifactId>oracle</artifactId><version>1</version><dependencies>{wanted}</dependencies></project>"
    )
    unfinished = project / "jars"
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={unfinished}"]
    subprocess.run(command, cwd=project, check=True, stdout=sys.stderr)
    unfinished.rename(jars)


def start(release: str = NEWEST, port: int = 19092, settings: Mapping[str, str] | None = None) -> str:
    """Start a broker, wait until it serves groups, and return its address. Raises: RuntimeError if it fails."""
    jars = fetch(release)
    run = FOLDER / f"run-{port}"
    if _runs(run):
        raise RuntimeError(f"there is a broker on port {port}: kafka.py stop --port {port}")
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    properties = run / "server.properties"
    lines = {**node_properties(port, run), **SETTINGS, **_of_broker(1, settings)}
    properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    (run / "cluster").write_text(cluster)
    _format(jars, run, cluster)
    broker = launch(jars, run, port)
    until = time.monotonic() + READY_WITHIN
    while not (serves_groups(port) and (release != NEWEST or serves_share_groups(port))):
        if broker.poll() is not None or time.monotonic() > until:
            status = broker.poll()
            stop(port)
            why = f"ended with status {status}" if status is not None else f"was not ready in {READY_WITHIN:.0f} s"
            raise RuntimeError(f"the broker on port {port} {why}: {_last_lines(run / 'log')}")
        time.sleep(0.2)
    return f"127.0.0.1:{port}"


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])


def _format(jars: Path, run: Path, cluster: str) -> None:
    """Format the log directories of a node. ``cluster``: id of the cluster."""
    format_ = ["format", f"--cluster-id={cluster}", "-c", str(run / "server.properties")]  # ids may begin with a hyphen
    with (run / "log").open("wb") as log:
        command = [*_java(jars), "kafka.tools.StorageTool", *format_]
        subprocess.run(command, check=True, stdout=log, stderr=log)


def join(node: int, release: str = NEWEST, port: int = 19092, settings: Mapping[str, str] | None = None) -> int:
    """Add a broker to the cluster of the node on ``port``; return its port. ``settings``: override SETTINGS."""
    jars, own = fetch(release), port + 10 * node
    run = FOLDER / f"run-{own}"
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    lines = node_properties(port, run) | SETTINGS | _of_broker(node, settings)
    lines |= {
        "process.roles": "broker",
        "node.id": str(node),
        "listeners": f"PLAINTEXT://127.0.0.1:{own}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{own}",
    }
    (run / "server.properties").write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    _format(jars, run, (FOLDER / f"run-{port}" / "cluster").read_text())
    launch(jars, run, own)
    until = time.monotonic() + READY_WITHIN
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", own), timeout=1):
            time.sleep(2)  # until the broker is registered and unfenced
            return own
        time.sleep(0.2)
    stop(own)
    raise RuntimeError(f"no broker on port {own}: see {run / 'log'}")


def _of_broker(node: int, settings: Mapping[str, str] | None) -> dict[str, str]:
    """Return the settings of a broker, with its own rack from the comma-separated racks, as in mockbroker."""
    own = dict(settings or {})
    if RACK in own:
        own[RACK] = own[RACK].split(",")[node - 1]
    return own


def kill_and_start(release: str = NEWEST, port: int = 19092) -> None:
    """Kill the broker on this port with SIGKILL, and start it again with its data; do not wait until it is ready."""
    stop(port)
    launch(fetch(release), FOLDER / f"run-{port}", port)


def _java(jars: Path) -> list[str]:
    return ["java", "-Xmx640m", "-cp", f"{jars}/*:{_classes(jars)}"]


def _classes(jars: Path) -> Path:
    """Return the folder with the compiled reporter of client telemetry, for ``metric.reporters=TelemetryReporter``."""
    classes = FOLDER / f"classes-{jars.name}"
    with (FOLDER / f"{classes.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not classes.exists():
            command = ["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), str(REPORTER)]
            subprocess.run(command, check=True, stdout=sys.stderr)
    return classes


def launch(jars: Path, run: Path, port: int) -> subprocess.Popen[bytes]:
    """Start the node whose settings are in a folder; do not wait until it is ready. ``port``: the port for ``stop``."""
    with (run / "log").open("ab") as log:
        command = [*_java(jars), "kafka.Kafka", str(run / "server.properties")]
        broker = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    _started[port] = broker
    (run / "pid").write_text(str(broker.pid))
    return broker


def stop(port: int = 19092, how: signal.Signals = signal.SIGKILL) -> None:
    """End the broker on this port, if there is one, and wait for its end. SIGTERM: with a controlled shutdown."""
    run = FOLDER / f"run-{port}"
    if _runs(run):
        os.kill(_pid(run), how)
    while _runs(run):
        time.sleep(0.05)
    if port in _started:
        _started.pop(port).wait()


@contextmanager
def running(
    release: str = NEWEST,
    port: int = 19092,
    settings: Mapping[str, str] | None = None,
    brokers: int = 1,
    down: Iterable[int] = (),
) -> Iterator[str]:
    """Run a cluster until the end of the block; yield the address of its first broker. ``down``: stopped brokers."""
    with ExitStack() as stack:
        stack.callback(stop, port)
        address = start(release, port, settings)
        for node in range(2, brokers + 1):
            own = join(node, release, port, {name: settings[name] for name in OF_ALL if settings and name in settings})
            stack.callback(stop, own)
            if node in down:
                stop(own, signal.SIGTERM)
        yield address


def _pid(run: Path) -> int:
    return int((run / "pid").read_text())


def _runs(run: Path) -> bool:
    """Return True if the process of the pid file exists and is the broker of this folder."""
    try:
        return str(run).encode() in Path(f"/proc/{_pid(run)}/cmdline").read_bytes()
    except FileNotFoundError:
        return False


def sasl_port(port: int) -> int:
    """Return the port of the SASL listener of a broker with users."""
    return port + 2


def with_users(port: int, users: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a broker with a SASL listener without TLS for these users."""
    if not users:
        return {}
    modules = jaas(users)
    places = {"PLAINTEXT": port, "CONTROLLER": port + 1, "SASL_PLAINTEXT": sasl_port(port)}
    listeners = {name: f"{name}://127.0.0.1:{number}" for name, number in places.items()}
    return {
        "listeners": ",".join(listeners.values()),
        "advertised.listeners": f"{listeners['PLAINTEXT']},{listeners['SASL_PLAINTEXT']}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        **{f"listener.name.sasl_plaintext.{name}": text for name, text in modules.items()},
    }


def jaas(users: Mapping[str, str]) -> dict[str, str]:
    """Return the login modules of a listener with SASL: settings without the prefix of the listener."""
    security = "org.apache.kafka.common.security"
    passwords = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    modules = {
        "plain": f"{security}.plain.PlainLoginModule required {passwords};",
        "scram-sha-256": f"{security}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{security}.scram.ScramLoginModule required;",
        "oauthbearer": f'{security}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
    }
    return {f"{name}.sasl.jaas.config": text for name, text in modules.items()}


def node_properties(port: int, run: Path) -> dict[str, str]:
    """Return settings of a node that is broker and controller. ``run``: its folder."""
    controller = f"127.0.0.1:{port + 1}"
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(run / "data"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    }


def serves_groups(port: int) -> bool:
    """Return True if the offsets topic exists and all its partitions are loaded, so that all groups are served."""
    groups = [OffsetFetchRequest.Group(group_id=f"ready-{n}", topics=[]) for n in range(300)]
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            coordinator = exchange(connection, FindCoordinatorRequest(key="ready"), 3)
            assert isinstance(coordinator, FindCoordinatorResponse)
            if coordinator.error_code:
                return False
            loaded = exchange(connection, OffsetFetchRequest(groups=groups), 8)
            assert isinstance(loaded, OffsetFetchResponse)
            return not any(group.error_code for group in loaded.groups)
    except OSError:
        return False


def finds_coordinators(port: int) -> bool:
    """Return True if the broker on this port finds the coordinator of a group: the offsets topic has leaders."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            coordinator = exchange(connection, FindCoordinatorRequest(key="ready"), 3)
            assert isinstance(coordinator, FindCoordinatorResponse)
            return not coordinator.error_code
    except OSError:
        return False


def serves_share_groups(port: int) -> bool:
    """Return True if the share coordinator exists and all partitions of its topic are loaded."""
    topic_id = uuid.UUID(int=1)
    key = f"ready:{base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip('=')}:0"
    topic_struct = ReadShareGroupStateSummaryRequest.Topic
    partitions = [topic_struct.Partition(partition=n) for n in range(300)]
    request = ReadShareGroupStateSummaryRequest(
        group_id="ready", topics=[topic_struct(topic_id=topic_id, partitions=partitions)]
    )
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            result = exchange(connection, FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6)
            assert isinstance(result, FindCoordinatorResponse)
            if any(coordinator.error_code for coordinator in result.coordinators):
                return False
            loaded = exchange(connection, request, 1)
            assert isinstance(loaded, ReadShareGroupStateSummaryResponse)
            codes = {partition.error_code for topic in loaded.results for partition in topic.partitions}
            return codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    except OSError:
        return False


def exchange(connection: socket.socket, request: object, version: int) -> object:
    """Send a request, and return the body of the response."""
    frame = encode_request(request, version, correlation_id=1, client_id="oracle")
    connection.sendall(pack(frame))
    (size,) = struct.unpack(">i", _read(connection, 4))
    return decode_response(_read(connection, size), int.from_bytes(frame[:2], "big"), version).body


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the broker closed the connection")
        data += more
    return data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["fetch", "start", "stop"])
    parser.add_argument("--release", default=NEWEST)
    parser.add_argument("--port", type=int, default=19092)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    match arguments.verb:
        case "fetch":
            print(fetch(arguments.release))
        case "start":
            print(start(arguments.release, arguments.port, dict(line.split("=", 1) for line in arguments.settings)))
        case _:
            stop(arguments.port)


if __name__ == "__main__":
    main()
