"""A real Kafka of three combined nodes on loopback, with a listener for each security protocol.

Nodes can be stopped and started again; they keep their ports and their data.
"""

from __future__ import annotations

import base64
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from oracle import kafka
from trustme import CA

from mockbroker.net.listeners import PROTOCOLS

NODES = (1, 2, 3)
CONTROLLER = "CONTROLLER"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SETTINGS = {  # a restarted node rejoins the cluster within seconds, and two of three nodes are enough for all topics
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.num.partitions": "5",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "200",
    "controlled.shutdown.enable": "true",
}


class Quorum:
    """Three combined nodes. The port of a node in this object's folders is that of its PLAINTEXT listener.

    Args:
        users: Passwords of users of SASL, by name.
        settings: Broker settings, which override those of this module and of ``kafka.SETTINGS``.
        release: Release of Kafka.

    Attributes:
        listeners: Addresses of the three brokers, separated by commas, by security protocol.
        ca: File with the certificate of the authority that signed those of the brokers.
    """

    def __init__(self, users: Mapping[str, str], settings: Mapping[str, str], release: str = kafka.NEWEST) -> None:
        self._jars = kafka.fetch(release)
        self._users = users
        self._settings = settings
        names = [*PROTOCOLS, CONTROLLER]
        self._ports = {node: dict(zip(names, ports, strict=True)) for node, ports in _free_ports(len(names)).items()}
        self.listeners = {
            name: ",".join(f"127.0.0.1:{ports[name]}" for ports in self._ports.values()) for name in PROTOCOLS
        }
        self._folder = self._run(NODES[0])
        for node in NODES:
            shutil.rmtree(self._run(node), ignore_errors=True)
            self._run(node).mkdir(parents=True)
        self.ca = self._folder / "ca.pem"
        self._certificate = self._folder / "broker.pem"
        self._issue()

    def start_all(self) -> None:
        """Format the nodes, start them, and wait until they serve groups. Raises: RuntimeError if they do not."""
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        for node in NODES:
            (self._run(node) / "server.properties").write_text(self._properties(node))
            self._format(node, cluster)
        for node in NODES:
            self.start(node)
        self.wait_ready()

    def start(self, node: int) -> None:
        """Start a node with its data; do not wait until it is ready."""
        kafka.launch(self._jars, self._run(node), self._port(node))

    def stop(self, node: int, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop a node, and wait until it has ended."""
        kafka.stop(self._port(node), how)

    def stop_all(self) -> None:
        with ExitStack() as stack:
            for node in NODES:
                stack.callback(self.stop, node, signal.SIGKILL)

    def wait_ready(self, nodes: tuple[int, ...] = NODES) -> None:
        """Wait until these nodes find coordinators. Raises: RuntimeError."""
        until = time.monotonic() + kafka.READY_WITHIN
        while not all(kafka.finds_coordinators(self._port(node)) for node in nodes):
            if time.monotonic() > until:
                raise RuntimeError(f"the cluster was not ready in {kafka.READY_WITHIN:.0f} s: see {self._folder}")
            time.sleep(0.2)

    def _port(self, node: int) -> int:
        return self._ports[node]["PLAINTEXT"]

    def _run(self, node: int) -> Path:
        return kafka.FOLDER / f"run-{self._port(node)}"

    def _issue(self) -> None:
        """Write the certificate of the brokers, with its key in a format that Java reads, and the CA certificate."""
        from mockbroker.net.tls import pkcs8

        authority = CA()
        broker = authority.issue_cert("localhost", "127.0.0.1")
        authority.cert_pem.write_to_path(str(self.ca))
        chain = b"".join(blob.bytes() for blob in broker.cert_chain_pems)
        self._certificate.write_bytes(pkcs8(broker.private_key_pem.bytes()) + chain)

    def _format(self, node: int, cluster: str) -> None:
        run = self._run(node)
        users = [
            f"--add-scram={mechanism}=[name={name},password={password}]"
            for mechanism in SCRAM
            for name, password in self._users.items()
        ]
        options = ["format", f"--cluster-id={cluster}", "-c", str(run / "server.properties"), *users]
        with (run / "log").open("wb") as log:
            command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{self._jars}/*", "kafka.tools.StorageTool", *options]
            subprocess.run(command, check=True, stdout=log, stderr=log)

    def _properties(self, node: int) -> str:
        ports = self._ports[node]
        listeners = {name: f"{name}://127.0.0.1:{port}" for name, port in ports.items()}
        voters = ",".join(f"{each}@127.0.0.1:{own[CONTROLLER]}" for each, own in self._ports.items())
        sasl = {
            f"listener.name.{name.lower()}.{key}": value
            for name in PROTOCOLS
            if name.startswith("SASL")
            for key, value in kafka.jaas(self._users).items()
        }
        lines = {
            **kafka.node_properties(ports["PLAINTEXT"], self._run(node)),
            **kafka.SETTINGS,
            **SETTINGS,
            "node.id": str(node),
            "controller.quorum.voters": voters,
            "listeners": ",".join(listeners.values()),
            "advertised.listeners": ",".join(listeners[name] for name in PROTOCOLS),
            "listener.security.protocol.map": ",".join(f"{name}:{name}" for name in PROTOCOLS)
            + f",{CONTROLLER}:PLAINTEXT",
            "sasl.enabled.mechanisms": ",".join(["PLAIN", *SCRAM, "OAUTHBEARER"]),
            **sasl,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._certificate),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            **self._settings,
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items())


def _free_ports(each: int) -> dict[int, list[int]]:
    """Return free ports for each node. Another process may take one before the node binds it."""
    with ExitStack() as stack:
        ports: list[int] = []
        for _ in range(each * len(NODES)):
            sock = stack.enter_context(socket.socket())
            sock.bind(("127.0.0.1", 0))
            ports.append(int(sock.getsockname()[1]))
    return {node: ports[index * each : (index + 1) * each] for index, node in enumerate(NODES)}


def main() -> None:
    """Start a cluster and print its addresses; stop it at the end of standard input."""
    quorum = Quorum({"alice": "alice-secret"}, {})
    try:
        quorum.start_all()
        print(quorum.listeners, quorum.ca, flush=True)
        sys.stdin.read()
    finally:
        quorum.stop_all()


if __name__ == "__main__":
    main()
