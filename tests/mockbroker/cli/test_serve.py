"""``mockbroker serve``, as a process: the behaviour that scripts depend on."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from plain_client import AT_ONCE, RawConnection

from kwire import ErrorCode
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from mockbroker.cli import main

COMMAND = [sys.executable, "-m", "mockbroker", "serve", "--port", "0"]


@contextmanager
def served(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[tuple[str, int]]]]:
    """Start a broker in a separate process. Yield the process and the addresses of its listeners."""
    process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert select.select([process.stdout], [], [], 20)[0], "not ready within 20 s"
        line = process.stdout.readline()
        found = re.fullmatch(r"ready bootstrap\.servers=(\S+)\n", line)
        assert found, (line, process.stderr.read() if process.stderr else "")
        yield process, [(host, int(port)) for host, _, port in (a.rpartition(":") for a in found[1].split(","))]
    finally:
        process.kill()
        process.communicate()


def connection_to(address: tuple[str, int], context: ssl.SSLContext | None = None) -> RawConnection:
    return RawConnection(f"{address[0]}:{address[1]}", context)


def ask(address: tuple[str, int], body: object, version: int) -> object:
    """Send one request over a real socket. Return the response."""
    with connection_to(address) as connection:
        return connection.ask(body, version)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ends_on_a_signal_without_waiting_for_clients(number: signal.Signals) -> None:
    with served() as (process, addresses):
        with socket.create_connection(addresses[0]) as idle:
            began = time.monotonic()
            process.send_signal(number)
            assert process.wait(timeout=30) == 0
            assert time.monotonic() - began < AT_ONCE
            assert idle.recv(1) == b""
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_options_create_brokers_and_topics() -> None:
    with served("--brokers", "3", "--topic", "orders:6", "--topic", "plain", "--set", "num.partitions=4") as (
        _,
        addresses,
    ):
        assert len(addresses) == 3
        answer = ask(addresses[2], MetadataRequest(topics=None), 12)
    assert isinstance(answer, MetadataResponse)
    assert [broker.port for broker in answer.brokers] == [port for _, port in addresses]
    assert [broker.node_id for broker in answer.brokers] == [0, 1, 2]
    partitions = {topic.name: len(topic.partitions) for topic in answer.topics}
    assert partitions == {"__consumer_offsets": 50, "orders": 6, "plain": 4}


def test_ready_file_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    with served("--ready-file", str(path)) as (process, addresses):
        while not path.exists():
            assert process.poll() is None
        content = json.loads(path.read_text())
        host, port = addresses[0]
        assert content == {"bootstrap_servers": f"{host}:{port}", "http": None, "pid": process.pid}
        assert os.listdir(tmp_path) == ["ready.json"]


KINDS = [  # arguments, security protocol of the only listener
    (["--tls", "auto"], "SSL"),
    (["--user", "alice:secret"], "SASL_PLAINTEXT"),
    (["--sasl", "OAUTHBEARER"], "SASL_PLAINTEXT"),
    (["--set", "mockbroker.users=alice:secret"], "SASL_PLAINTEXT"),
    (["--tls", "auto", "--user", "alice:secret"], "SASL_SSL"),
    (["--listener", "SSL"], "SSL"),
    (["--set", "listeners=SSL"], "SSL"),
    (["--user", "alice:secret", "--listener", "PLAINTEXT"], "PLAINTEXT"),
]


@pytest.mark.parametrize(("arguments", "kind"), KINDS, ids=[" ".join(arguments) for arguments, _ in KINDS])
def test_kind_of_the_listener(arguments: list[str], kind: str, tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    with served(*arguments, "--ready-file", str(path)) as (process, addresses):
        while not path.exists():
            assert process.poll() is None
        files = json.loads(path.read_text()).get("tls", {})
        encrypted = kind.endswith("SSL")
        assert not encrypted or Path(files["client"]).exists()
        context = ssl.create_default_context(cafile=files["ca"]) if encrypted else None
        with connection_to(addresses[0], context) as connection:
            response = connection.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
        assert isinstance(response, SaslHandshakeResponse)
        assert (response.error_code == ErrorCode.NONE) == kind.startswith("SASL")
        process.terminate()
        assert process.wait(timeout=30) == 0
    assert not any(Path(file).exists() for file in files.values())


def test_several_listeners(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    arguments = ["--brokers", "2", "--listener", "PLAINTEXT", "--listener", "INSIDE://:0"]
    with served(*arguments, "--set", "listener.security.protocol.map=INSIDE:SASL_SSL", "--ready-file", str(path)) as (
        process,
        addresses,
    ):
        while not path.exists():
            assert process.poll() is None
        listeners = json.loads(path.read_text())["listeners"]
        assert listeners["PLAINTEXT"] == ",".join(f"{host}:{port}" for host, port in addresses)
        assert len(listeners["INSIDE"].split(",")) == 2
        process.terminate()
        assert process.wait(timeout=30) == 0
        assert process.stderr is not None
        reported = process.stderr.read().splitlines()
    assert reported[:2] == [f"listener {name} {servers}" for name, servers in listeners.items()]
    assert re.fullmatch(r"CA certificate \S+ca\.pem, key and certificate for clients \S+client\.pem", reported[2])


def test_settings_file_and_flags(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("# a comment\nnum.partitions = 2\nauto.create.topics.enable=true\n")
    with served("--config", str(path), "--set", "num.partitions=5") as (_, addresses):
        wanted = MetadataRequest(topics=[MetadataRequest.Topic(name="made")], allow_auto_topic_creation=True)
        ask(addresses[0], wanted, 9)
        answer = ask(addresses[0], wanted, 9)
    assert isinstance(answer, MetadataResponse)
    assert [len(topic.partitions) for topic in answer.topics] == [5]


def test_port_in_use_is_reported_with_its_flag() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run([*COMMAND[:-1], str(port)], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 1
    assert done.stdout == ""
    assert re.fullmatch(rf"Error: cannot listen on 127\.0\.0\.1:{port}: .*--port.*\n", done.stderr)


USAGE = [  # arguments, expected text of stderr
    (["--set", "group.initial.rebalance.dely.ms=0"], "did you mean group.initial.rebalance.delay.ms?"),
    (["--set", "foo=1"], "unknown setting foo"),
    (["--set", "num.partitions"], "expected KEY=VALUE"),
    (["--set", "num.partitions=many"], "expected a whole number, got 'many'"),
    (["--set", "num.partitions=0"], "0 is not between 1 and"),
    (["--set", "auto.create.topics.enable=1"], "expected true or false"),
    (["--set", "default.replication.factor=2"], "default.replication.factor is 2, but the cluster has only 1 broker"),
    (["--topic", "a/b"], "'a/b': not a legal topic name"),
    (["--topic", "orders:six"], "expected NAME or NAME:PARTITIONS"),
    (["--topic", "orders:0"], "the number of partitions, 0, is out of range"),
    (["--topic", "a.b", "--topic", "a_b"], "topic a_b collides with topic a.b"),
    (["--topic", "orders", "--topic", "orders:2"], "--topic orders: duplicate topic"),
    (["--brokers", "0"], "0 is not in the range"),
    (["--port", "65535", "--brokers", "2"], "is too high for 2 brokers"),
    (["--listener", "TLS"], "Error: --listener: TLS has no security protocol: add it"),
    (["--listener", "SSL://10.0.0.1:0"], "differs from 127.0.0.1, to which all listeners bind"),
    (["--tls", "auto", "--listener", "PLAINTEXT"], "--tls: no listener uses TLS"),
    (["--tls", "auto", "--set", "ssl.keystore.location=x"], "ssl.keystore.location, which already names certificates"),
    (
        ["--sasl", "GSSAPI"],
        "Error: --sasl has an invalid value: expected one or more of OAUTHBEARER, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
    ),
    (
        ["--set", "nope=1"],
        "Error: --set has an invalid value: unknown setting nope: Kafka's brokers have no setting of this or a similar name",
    ),
    (
        ["--set", "log.roll.hours=0"],
        "Error: --set has an invalid value: log.roll.hours: 0 is not between 1 and 2147483647",
    ),
    (
        ["--set", "advertised.listeners=X://a:1"],
        "advertised.listeners: unknown listener X; listeners are PLAINTEXT",
    ),
    (["--user", "alice"], "--user has an invalid value: expected NAME:PASSWORD"),
    (
        ["--set", "ssl.keystore.location=/none", "--listener", "SSL"],
        "ssl.keystore.location: cannot load /none: No such file",
    ),
    (["--config", "/does/not/exist"], "does not exist"),
]


@pytest.mark.parametrize(("arguments", "says"), USAGE, ids=[" ".join(arguments) for arguments, _ in USAGE])
def test_wrong_usage_exits_2(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(main, ["serve", "--port", "0", *arguments])
    assert done.exit_code == 2
    assert says in " ".join(done.stderr.split())
    assert done.stdout == ""


BAD_FILES = [
    ("nonsense\n", "line 1: expected KEY=VALUE"),
    ("a\n", "line 1"),
    ("num.partition=1\n", "did you mean num.partitions?"),
]


@pytest.mark.parametrize(("content", "says"), BAD_FILES)
def test_a_bad_settings_file_exits_1_and_is_named(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "bad.properties"
    path.write_text(content)
    done = CliRunner().invoke(main, ["serve", "--port", "0", "--config", str(path)])
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: --config {path}: ")
    assert says in done.stderr


def test_the_journal_is_a_line_an_event(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with served("--journal", str(path), "--set", "group.initial.rebalance.delay.ms=0") as (process, addresses):
        from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse

        join = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"any bytes")],
        )
        answer = ask(addresses[0], join, 3)
        assert isinstance(answer, JoinGroupResponse)
        process.terminate()
        process.wait(timeout=30)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["join", "rebalance", "generation"]
    assert {line["group"] for line in lines} == {"g"}
    assert lines[2]["members"] == [answer.member_id] == [lines[0]["member_id"]]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line["time"]) for line in lines)


def test_help_and_version() -> None:
    runner = CliRunner()
    assert "mockbroker, version" in runner.invoke(main, ["--version"]).stdout
    assert "--ready-file" in runner.invoke(main, ["serve", "-h"]).stdout


def test_a_hostile_connection_costs_one_line() -> None:
    with served() as (process, addresses):
        with socket.create_connection(addresses[0], timeout=30) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert sock.recv(100) == b""
        assert ask(addresses[0], ApiVersionsRequest(), 0)
        process.terminate()
        _, errors = process.communicate(timeout=30)
    assert len(errors.splitlines()) == 1
    assert "looks like an HTTP request" in errors


def test_unwritable_ready_file_is_reported(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["serve", "--port", "0", "--ready-file", str(tmp_path / "nothing" / "ready")])
    assert done.exit_code == 2
    assert "does not exist" in done.stderr
    (tmp_path / "ready").mkdir()
    done = subprocess.run(
        [*COMMAND, "--ready-file", str(tmp_path / "ready" / ".." / "ready")],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr


def handshake(address: tuple[str, int], user: str, password: str) -> int:
    """Authenticate with PLAIN. Return the error code."""
    with connection_to(address) as connection:
        connection.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        token = SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode())
        return connection.ask(token, 2).error_code


def test_users_are_not_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user of --users-file overrides the same user in MOCKBROKER_USERS."""
    file = tmp_path / "users"
    file.write_text("# who may come in\n\nalice: with:colon \nbob:file\n")
    monkeypatch.setenv("MOCKBROKER_USERS", "bob:environment,carol:environment")
    with served("--users-file", str(file)) as (_, (address,)):
        good = [("alice", " with:colon"), ("bob", "file"), ("carol", "environment")]
        assert [handshake(address, *each) for each in good] == [0, 0, 0]
        assert handshake(address, "bob", "environment") == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_files_with_a_byte_order_mark(tmp_path: Path) -> None:
    """Windows editors write a byte order mark."""
    users, config, rules = tmp_path / "users", tmp_path / "server.properties", tmp_path / "faults.json"
    users.write_text("alice:secret\n", encoding="utf-8-sig")
    config.write_text("sasl.enabled.mechanisms=PLAIN\n", encoding="utf-8-sig")
    rules.write_text("[]\n", encoding="utf-8-sig")
    with served("--users-file", str(users), "--config", str(config), "--faults", str(rules)) as (_, (address,)):
        assert handshake(address, "alice", "secret") == ErrorCode.NONE


def test_user_that_is_given_twice() -> None:
    done = CliRunner().invoke(main, ["serve", "--port", "0", "--user", "alice:geheim", "--user", "alice:geheim"])
    assert done.exit_code == 2
    assert "--user has an invalid value: duplicate user alice" in done.stderr
    assert "geheim" not in done.stderr


USERS = [  # file, environment, expected error
    ("alice\n", "", "users: line 1: expected NAME:PASSWORD"),
    ("alice:geheim\nalice:geheim\n", "", "users: line 2: duplicate user alice"),
    ("", "geheim", "MOCKBROKER_USERS has an invalid value: expected NAME:PASSWORD"),
]


@pytest.mark.parametrize(("content", "variable", "says"), USERS)
def test_users_that_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, variable: str, says: str
) -> None:
    file = tmp_path / "users"
    file.write_text(content)
    monkeypatch.setenv("MOCKBROKER_USERS", variable)
    done = CliRunner().invoke(main, ["serve", "--port", "0", "--users-file", str(file)])
    assert done.exit_code == 2
    assert says in " ".join(done.stderr.split())
    assert "geheim" not in done.stderr


OPEN = [  # arguments, whether serve logs a warning
    (["--host", "0.0.0.0"], True),
    (["--host", "0.0.0.0", "--listener", "SASL_PLAINTEXT", "--user", "alice:secret"], False),
    (["--host", "0.0.0.0", "--listener", "SASL_PLAINTEXT", "--listener", "PLAINTEXT"], True),
    ([], False),
]


@pytest.mark.parametrize(("arguments", "warns"), OPEN, ids=[" ".join(arguments) for arguments, _ in OPEN])
def test_wildcard_listener_advertises_a_reachable_address(tmp_path: Path, arguments: list[str], warns: bool) -> None:
    ready = tmp_path / "ready"
    with served(*arguments, "--ready-file", str(ready)) as (process, (address, *_)):
        assert address[0] not in ("0.0.0.0", "")
        body = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        assert ask(address, body, 3).error_code == ErrorCode.NONE
        while not ready.exists():
            assert process.poll() is None
        servers = json.loads(ready.read_text())["bootstrap_servers"]
        assert servers.startswith(f"{address[0]}:{address[1]}")
        process.terminate()
        _, stderr = process.communicate(timeout=30)
    warning = "without authentication (PLAINTEXT): any client that reaches it may read, write and delete"
    assert (warning in stderr) is warns


@pytest.mark.parametrize(
    ("arguments", "warns"),
    [
        (["--listener", "PLAINTEXT", "--user", "alice:secret"], True),
        (["--listener", "PLAINTEXT", "--sasl", "PLAIN"], True),
        (["--listener", "PLAINTEXT", "--listener", "SASL_PLAINTEXT", "--user", "alice:secret"], False),
        (["--user", "alice:secret"], False),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_sasl_options_without_a_sasl_listener_are_a_warning(arguments: list[str], warns: bool) -> None:
    with served(*arguments) as (process, _):
        process.terminate()
        _, stderr = process.communicate(timeout=30)
    warning = "SASL users and mechanisms have no effect: no listener uses SASL; add --listener SASL_PLAINTEXT\n"
    assert (f"mockbroker: {warning}" in stderr) is warns


def test_the_address_to_listen_on_may_have_brackets() -> None:
    with served("--host", "[::1]") as (process, (address,)):
        assert address[0] == "[::1]"
        process.terminate()
        _, stderr = process.communicate(timeout=30)
    assert stderr == ""


def test_the_file_of_a_real_broker(tmp_path: Path) -> None:
    """This is the server.properties that Kafka ships, except for the ports."""
    path = tmp_path / "server.properties"
    path.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.bootstrap.servers=localhost:9093\n"
        "listeners=PLAINTEXT://:0,CONTROLLER://:9093\ninter.broker.listener.name=PLAINTEXT\n"
        "advertised.listeners=PLAINTEXT://localhost:0,CONTROLLER://localhost:9093\n"
        "controller.listener.names=CONTROLLER\nlistener.security.protocol.map=CONTROLLER:PLAINTEXT,SSL:SSL\n"
        "log.dirs=/tmp/kraft-combined-logs\nnum.partitions=3\nlog.retention.hours=168\nlog.segment.bytes=1073741824\n"
        "offsets.topic.replication.factor=1\ntransaction.state.log.min.isr=1\n"
    )
    with served("--config", str(path)) as (process, (address,)):
        assert address[0] == "localhost"
        request = MetadataRequest(topics=[MetadataRequest.Topic(name="new")], allow_auto_topic_creation=True)
        response = ask(("127.0.0.1", address[1]), request, 9)
        assert isinstance(response, MetadataResponse)
        process.terminate()
        _, stderr = process.communicate(timeout=30)
    assert stderr.count("\n") == 1
    assert "without effect in mockbroker: controller.quorum.bootstrap.servers, " in stderr


def test_advertised_host_and_first_broker_id() -> None:
    """Clients in several test suites expect broker ids that begin with 1."""
    mapped = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT"
    listeners = ["--listener", "PLAINTEXT", "--listener", "INTERNAL://:0", "--set", mapped]
    with served("--brokers", "2", "--advertise", "kafka.test", "--first-broker-id", "1", *listeners) as (_, places):
        assert [host for host, _ in places] == ["kafka.test", "kafka.test"]
        response = ask(("127.0.0.1", places[0][1]), MetadataRequest(topics=[]), 12)
        assert isinstance(response, MetadataResponse)
        assert [(each.node_id, (each.host, each.port)) for each in response.brokers] == list(enumerate(places, 1))
