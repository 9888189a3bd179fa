"""Messages of the command ``mockbroker``."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import trio
from click.testing import CliRunner
from golden import ROOT
from messages.row import USAGE, Row, Run, run
from tools.http_answers import answering, json_response
from tools.keystores import keystore_pem
from trustme import CA

import mockbroker
from kwire.blobs import encode_record, encode_stored
from kwire.blobs.offsets_topic import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    OffsetCommitKey,
)
from kwire.records import Record, build_batch
from mockbroker import run_cluster
from mockbroker.api.proxied_cluster import ProxiedCluster, intercepted
from mockbroker.base.errors import ConflictError
from mockbroker.base.settings import Settings
from mockbroker.cli import main
from mockbroker.net.clock import BrokerTime
from mockbroker.proxy.addresses import Address
from mockbroker.replay.script import Script
from mockbroker.replay.server import Options, Otherwise, Replay

CONVERSATION = ROOT / "fixtures" / "conversations" / "4.2.0" / "sync_again.json.gz"
JAAS = "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config"
STOPPED = ROOT / "fixtures" / "log_dirs" / "4.2.0-stopped" / "data"


def serve(*arguments: str, files: Mapping[str, str | bytes | None] | None = None) -> Run:
    return run("mockbroker serve --port 0", *arguments, files=files)


def replay(port: int, *nodes: int) -> Replay:
    return Replay(Script(nodes=[*nodes]), Options(Otherwise.MOCK), "127.0.0.1", port, "127.0.0.1")


def setting(text: str) -> Run:
    return serve("--set", text)


def config(content: str | bytes) -> Run:
    return serve("--config", "server.properties", files={"server.properties": content})


def users_file(content: str | bytes) -> Run:
    return serve("--users-file", "users", files={"users": content})


def users_variable(value: str) -> Run:
    return run("mockbroker serve --port 0", environment={"MOCKBROKER_USERS": value})


def http(text: str) -> Run:
    return serve("--http", text)


def http_token(content: str | bytes | None) -> Run:
    return serve("--http", "0", "--http-token-file", "token", files={"token": content})


def http_without_starlette() -> str:
    loaded = [name for name in sys.modules if name.startswith(("mockbroker.control", "starlette"))]
    kept = vars(mockbroker).get("control")  # the attribute, which an import replaces
    try:
        with patch.dict(sys.modules):
            for name in loaded:
                del sys.modules[name]
            sys.modules["starlette"] = None  # type: ignore[assignment]
            return http("0").stderr()
    finally:
        if kept is not None:
            vars(mockbroker)["control"] = kept


def http_access(**headers: str) -> Callable[[], object]:
    """Send a request with headers to the control API; ``_`` in a name means ``-``."""

    def cause() -> None:
        from starlette.datastructures import Headers

        from mockbroker.control.access import Access

        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        Access("127.0.0.1", 9644, None, (), str).check("POST", Headers(fields), is_open=False)

    return cause


def http_unreadable_token() -> str:
    with patch.object(Path, "read_text", side_effect=OSError(5, "Input/output error")):
        return http_token("x").stderr()


def http_port_in_use() -> str:
    with socket.create_server(("127.0.0.1", 0)) as other:
        return http(str(other.getsockname()[1])).stderr()


def preset_of_proxy() -> str:
    async def cause() -> str:
        interception = intercepted(Settings.parse({}), BrokerTime(), 0.0)
        with pytest.raises(ConflictError) as caught:
            ProxiedCluster(interception, lambda: Address("127.0.0.1", 1)).faults.preset("rolling-restart")
        return str(caught.value)

    return trio.run(cause)


def proxy_port_in_use() -> str:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        return Run(("mockbroker", "proxy", "--to", "a:1", "--port", port)).stderr().replace(port, "$PORT")


def ctl(*words: str, answer: object = None, status: str = "200 OK", stdin: str = "") -> Callable[[], str]:
    """Run ``mockbroker ctl`` with a server that has one answer; return what is printed on stderr."""

    def cause() -> str:
        with answering(json_response(status, json.dumps(answer).encode())) as url:
            arguments = ["ctl", "--url", url, *words]
            result = CliRunner().invoke(main, arguments, input=stdin, catch_exceptions=False)
        return USAGE.sub("", result.stderr).strip()

    return cause


def ctl_alone(*words: str, files: Mapping[str, str | bytes | None] | None = None) -> Run:
    """Run ``mockbroker ctl`` without a server."""
    return run("mockbroker ctl --url http://127.0.0.1:1", *words, files=files)


def ctl_without_url() -> str:
    return run("mockbroker ctl groups", environment={"MOCKBROKER_URL": ""}).stderr()


def rules(name: str, content: str | bytes) -> Run:
    return serve("--faults", name, files={name: content})


def rules_without_yaml() -> str:
    with patch.dict(sys.modules, {"yaml": None}):
        return rules("r.yaml", "").stderr()


def top_without_rich() -> str:
    with patch("mockbroker.cli.top.find_spec", lambda _: None):
        return run("mockbroker top").stderr()


def demo_without_rich() -> str:
    with patch("mockbroker.cli.demo.find_spec", lambda name: None if name == "rich" else object()):
        return run("mockbroker demo").stderr()


def imported(*arguments: str, files: Mapping[str, str | bytes | None] | None = None) -> Run:
    return run("mockbroker import", *arguments, files=files)


def log_dir(*records: tuple[bytes, bytes | None], log: bytes = b"", more: bytes = b"") -> Run:
    """Import a log directory with a partition of __consumer_offsets.

    Args:
        records: Keys and values of its records.
        log: Content of its first segment, instead of records.
        more: Content of a segment from offset 1.
    """
    content = log or build_batch([Record(key=key, value=value) for key, value in records])
    folder = "x/__consumer_offsets-0"
    files: dict[str, bytes | None] = {"x": None, folder: None, f"{folder}/{0:020}.log": content}
    if more:
        files[f"{folder}/{1:020}.log"] = more
    return imported("--log-dir", "x", files=files)


def locked_log_dir() -> str:
    """Import the data directory of a cluster that runs."""
    with run_cluster(data_dir="x"):
        command = [
            sys.executable,
            "-m",
            "mockbroker",
            "import",
            "--log-dir",
            "x",
        ]  # another process, because locks belong to a process
        return subprocess.run(command, capture_output=True, text=True, check=False).stderr.strip()


def full_disk() -> str:
    with patch("mockbroker.cli.import_.write", side_effect=OSError(28, "No space left on device")):
        return imported("--log-dir", str(STOPPED), "--data-dir", "x").stderr()


def untrusted_clients() -> str:
    """Serve TLS with a separate certificate, without a truststore."""
    authority = CA()
    Path("server.pem").write_bytes(keystore_pem(authority.issue_cert("localhost")))
    options = ["--set", "ssl.keystore.location=server.pem", "--set", "ssl.client.auth=required"]
    return serve("--listener", "SSL", *options).stderr()


def jaas_option(name: str, value: str) -> Run:
    """Serve SASL with an option of the validator of OAUTHBEARER tokens."""
    setting = f'{JAAS}=OAuthBearerLoginModule required unsecuredValidator{name}="{value}";'
    return serve("--listener", "SASL_PLAINTEXT", "--user", "a:b", "--set", setting)


def other_key_format() -> str:
    """Serve TLS with a private key in the format of OpenSSL."""
    CA().issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path("server.pem")
    return serve("--listener", "SSL", "--set", "ssl.keystore.location=server.pem").stderr()


def conform(content: str | Mapping[str, Any]) -> Callable[[], str]:
    """Play a conversation; return what is printed about it."""

    def play() -> str:
        Path("x.json").write_text(content if isinstance(content, str) else json.dumps(content))
        return CliRunner().invoke(main, ["conform", "x.json"]).stdout.strip()

    return play


def conform_against(handle: Callable[[socket.socket], object]) -> Callable[[], str]:
    """Play a conversation against a server; ``handle`` is called with its first connection."""

    def play() -> str:
        with socket.create_server(("127.0.0.1", 0)) as server:

            def serve_one() -> None:
                connection, _ = server.accept()
                with connection:
                    handle(connection)

            thread = threading.Thread(target=serve_one)
            thread.start()
            address = f"127.0.0.1:{server.getsockname()[1]}"
            with patch("mockbroker.lab.conform.asker.RESPONSE_TIMEOUT", 0.2):
                text = CliRunner().invoke(main, ["conform", "--against", address, str(CONVERSATION)]).stdout.strip()
            thread.join()
        return text

    return play


def ignore(connection: socket.socket) -> None:
    """Read requests until the client closes the connection."""
    while connection.recv(1_000):
        pass


def reset(connection: socket.socket) -> None:
    """Close a connection with a reset."""
    connection.recv(1_000)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


COMMIT = encode_stored(OffsetCommitKey(group="g", topic="t", partition=3), 0)
MEMBER = {"group_id": "g", "member_id": "m"}
UNKNOWN_STATE = [
    encode_record(ConsumerGroupMemberMetadataKey(**MEMBER), ConsumerGroupMemberMetadataValue(), 0),
    encode_record(ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=1), 0),
    encode_record(
        ConsumerGroupCurrentMemberAssignmentKey(**MEMBER), ConsumerGroupCurrentMemberAssignmentValue(state=77), 0
    ),
]
STORY = {"scenario": "x", "broker": "Apache Kafka 4.2.0", "broker_config": {}}


def topic_with(properties: str) -> Run:
    """Record in a topic whose cluster is reached with these properties of a client."""
    command = ("mockbroker", "proxy", "--to", "a:1", "--record", "kafka://b:1/frames", "--record-config", "c")
    return Run(command, files={"c": properties})


ROWS = [
    # mockbroker proxy
    Row("case of torture", run("mockbroker torture --case HTTP --case nothing -- app"), "Error: --case nothing: no case has this name: --list prints all cases"),
    Row("case of another step", run("mockbroker torture --case HTTP --step Fetch -- app"), "Error: no case matches the given names and steps: --list prints all cases"),
    Row("torture of a command that does not exist", run("mockbroker torture --case HTTP -- no-such-client"), "Error: cannot start no-such-client: No such file or directory"),
    Row("torture without a client", run("mockbroker torture"), "Error: expected the command of a client, such as: mockbroker torture -- python app.py"),
    Row("address to proxy", run("mockbroker proxy --to broker"), "Error: --to broker: 'broker' is not an address: use HOST:PORT"),
    Row("port to proxy", run("mockbroker proxy --to a:9092,b:70000"), "Error: --to a:9092,b:70000: 'b:70000' is not an address: use HOST:PORT"),
    Row("proxy with a certificate for other machines", Run(("mockbroker", "proxy", "--to", "a:1", "--host", "0.0.0.0", "--tls-to-certificate", "own.pem"), files={"own.pem": ""}), "Error: --host 0.0.0.0 with --tls-to-certificate: any client that reaches the proxy would act with the proxy's credentials; use a loopback address, or --tls with --tls-client-ca"),
    Row("advertise without port of a broker", Run(("mockbroker", "proxy", "--to", "a:1", "--advertise", "1=outside")), "Error: --advertise 1=outside: 'outside' is not an address: use ID=HOST:PORT"),
    Row("advertise of a broker twice", Run(("mockbroker", "proxy", "--to", "a:1", "--advertise", "1=a:1", "--advertise", "1=a:2")), "Error: --advertise 1=a:2: broker 1 already has the address a:1: remove one"),
    Row("advertise with a port out of range", Run(("mockbroker", "proxy", "--to", "a:1", "--advertise", "outside:65540")), "Error: --advertise outside:65540: port 65540 is out of range (1-65535)"),
    Row("advertise of another form", Run(("mockbroker", "proxy", "--to", "a:1", "--advertise", "a b")), "Error: --advertise a b: expected HOST, HOST:PORT or ID=HOST:PORT"),
    Row("two advertised hosts", Run(("mockbroker", "proxy", "--to", "a:1", "--advertise", "a", "--advertise", "b")), "Error: --advertise a and --advertise b: only one HOST is possible"),
    Row("advertise of two brokers with one address", Run(("mockbroker", "proxy", "--to", "a:1", "--advertise", "1=a:1", "--advertise", "2=a:1")), "Error: --advertise: broker 1 and broker 2 have the same address a:1"),
    Row("broker port of another form", Run(("mockbroker", "proxy", "--to", "a:1", "--broker-port", "1")), "Error: --broker-port 1: expected ID=PORT with a port in the range 1-65535"),
    Row("broker port twice", Run(("mockbroker", "proxy", "--to", "a:1", "--broker-port", "1=5", "--broker-port", "1=6")), "Error: --broker-port 1=6: broker 1 already has port 5: remove one"),
    Row("broker port of the bootstrap", Run(("mockbroker", "proxy", "--to", "a:1", "--broker-port", "1=9092")), "Error: the listener of broker 1 has port 9092, as has --port: add --broker-port 1=PORT"),
    Row("client certificates without TLS", Run(("mockbroker", "proxy", "--to", "a:1", "--tls-client-ca", "ca.pem"), files={"ca.pem": ""}), "Error: --tls-client-ca has no effect without --tls: add --tls"),
    Row("certificate for clients of the proxy", Run(("mockbroker", "proxy", "--to", "a:1", "--tls", "none.pem")), "Error: --tls none.pem: cannot load none.pem: No such file or directory"),
    Row("certificate for clients that is not PEM", Run(("mockbroker", "proxy", "--to", "a:1", "--tls", "own.der"), files={"own.der": "0"}), "Error: --tls own.der: Failed to load PEM SSL keystore own.der"),
    Row("host that a certificate of the proxy cannot contain", run("mockbroker proxy --to a:1 --port 0 --tls auto --advertise kafka_1"), "Error: --tls auto: no certificate can be generated for kafka_1: Codepoint U+005F at position 6 of 'kafka_1' not allowed: use another host, or a certificate of your own"),
    Row("host that a certificate of the broker cannot contain", run("mockbroker serve --port 0 --tls auto --advertise kafka_1"), "Error: ssl.keystore.location: no certificate can be generated for 127.0.0.1, kafka_1: Codepoint U+005F at position 6 of 'kafka_1' not allowed: use another host, or a certificate of your own"),
    Row("trusted certificates that are not PEM", Run(("mockbroker", "proxy", "--to", "a:1", "--tls", "auto", "--tls-client-ca", "ca.der"), files={"ca.der": "0"}), "Error: --tls-client-ca ca.der: Failed to load PEM SSL keystore ca.der"),
    Row("proxy that logs in for other machines", Run(("mockbroker", "proxy", "--to", "a:1", "--host", "0.0.0.0", "--sasl-to", "client.properties"), files={"client.properties": "sasl.mechanism=PLAIN"}), "Error: --host 0.0.0.0 with --sasl-to: any client that reaches the proxy would act with the proxy's credentials; use a loopback address, or --tls with --tls-client-ca"),
    Row("login without a mechanism", Run(("mockbroker", "proxy", "--to", "a:1", "--sasl-to", "client.properties"), files={"client.properties": "a=b"}), "Error: --sasl-to client.properties: sasl.mechanism is missing: use one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
    Row("login with a mechanism of Kerberos", Run(("mockbroker", "proxy", "--to", "a:1", "--sasl-to", "client.properties"), files={"client.properties": "sasl.mechanism=GSSAPI"}), "Error: --sasl-to client.properties: sasl.mechanism=GSSAPI is not supported: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
    Row("login without a password", Run(("mockbroker", "proxy", "--to", "a:1", "--sasl-to", "client.properties"), files={"client.properties": "sasl.mechanism=PLAIN\nsasl.username=a"}), "Error: --sasl-to client.properties: password for PLAIN is missing: set sasl.password, or password=\"...\" in sasl.jaas.config"),
    Row("login without the file of a token", Run(("mockbroker", "proxy", "--to", "a:1", "--sasl-to", "client.properties"), files={"client.properties": "sasl.mechanism=OAUTHBEARER"}), "Error: --sasl-to client.properties: sasl.oauthbearer.token.endpoint.url is missing: use the URL of a file with a token, such as file:///run/token"),
    Row("user with a null character", Run(("mockbroker", "proxy", "--to", "a:1", "--sasl-to", "client.properties"), files={"client.properties": "sasl.mechanism=PLAIN\nsasl.username=a\0b\nsasl.password=c"}), "Error: --sasl-to client.properties: sasl.username contains a null character, which no SASL mechanism allows"),
    Row("token of a web server", Run(("mockbroker", "proxy", "--to", "a:1", "--sasl-to", "client.properties"), files={"client.properties": "sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=https://login"}), "Error: --sasl-to client.properties: sasl.oauthbearer.token.endpoint.url=https://login: use the URL of a file with a token, such as file:///run/token"),
    Row("file of a login that is not text", Run(("mockbroker", "proxy", "--to", "a:1", "--sasl-to", "client.properties"), files={"client.properties": b"\xff"}), "Error: --sasl-to client.properties: the file is not UTF-8: invalid start byte at byte 0"),
    Row("file of a login that is not properties", Run(("mockbroker", "proxy", "--to", "a:1", "--sasl-to", "client.properties"), files={"client.properties": "secret"}), "Error: --sasl-to client.properties: line 1: expected KEY=VALUE"),
    Row("CA certificates of the cluster", Run(("mockbroker", "proxy", "--to", "a:1", "--tls-to-ca", "ca.pem"), files={"ca.pem": "x"}), "Error: ca.pem: the file must contain valid CA certificates in PEM form"),
    Row("certificate of the proxy", Run(("mockbroker", "proxy", "--to", "a:1", "--tls-to-certificate", "own.pem"), files={"own.pem": "x"}), "Error: own.pem: the file must contain a valid certificate and its private key, which has no password"),
    Row("rule that a proxy cannot apply", Run(("mockbroker", "proxy", "--to", "a:1", "--port", "0", "--faults", "r.json"), files={"r.json": '{"match": {"api": "Heartbeat"}, "action": {"evict": true}}'}), "Error: --faults r.json: a proxy cannot evict members of a real cluster: use another action"),
    Row("preset that a proxy cannot apply", preset_of_proxy, "a proxy cannot apply the preset rolling-restart, which changes the cluster itself"),
    Row("form of a recording", run("mockbroker proxy --to a:1 --record out.txt"), "Error: --record out.txt: unknown format '.txt': use one of .jsonl, .ndjson, .pcapng"),
    Row("folder of a recording", run("mockbroker proxy --to a:1 --record none/out.jsonl"), "Error: --record none/out.jsonl: cannot be written: No such file or directory"),
    Row("size of a recording without a limit", run("mockbroker proxy --to a:1 --record out.jsonl --record-size inf"), "Error: Invalid value for '--record-size': inf is not a finite number."),
    Row("speed of a replay", run("mockbroker replay r.jsonl --speed fast", files={"r.jsonl": ""}), "Error: --speed: fast is not a valid speed: use a number above 0, or max"),
    Row("port of a replay", lambda: replay(65_535, 1, 2), "ValueError: port 65535 is out of range (0-65534 for 2 brokers)"),
    Row("replay with a mock of distant brokers", lambda: replay(0, 1, 501), "ValueError: the recorded broker ids 1 and 501 are too far apart for a mock cluster, which has at most 500 brokers with consecutive ids: use --otherwise error or --otherwise close"),
    Row("replay of nothing", run("mockbroker replay r.jsonl", files={"r.jsonl": ""}), "r.jsonl at byte 0: the file is empty\nError: r.jsonl: no requests with responses in the recording"),
    Row("topic of a recording", run("mockbroker proxy --to a:1 --record kafka://broker/"), "Error: --record kafka://broker/: expected kafka://HOST:PORT/TOPIC"),
    Row("address of a topic's cluster", run("mockbroker proxy --to a:1 --record kafka://a,b:1/frames"), "Error: --record kafka://a,b:1/frames: 'a' is not an address: use HOST:PORT"),
    Row("properties of no topic", Run(("mockbroker", "proxy", "--to", "a:1", "--record", "out.jsonl", "--record-config", "c"), files={"c": ""}), "Error: --record-config needs --record kafka://HOST:PORT/TOPIC"),
    Row("protocol of a topic's cluster", topic_with("security.protocol=TLS"), "Error: --record-config c: security.protocol=TLS is not supported: use PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
    Row("store of a topic's cluster", topic_with("security.protocol=SSL\nssl.truststore.type=JKS"), "Error: --record-config c: ssl.truststore.type=JKS is not supported: use PEM"),
    Row("login to a topic's cluster", topic_with("security.protocol=SASL_PLAINTEXT"), "Error: --record-config c: sasl.mechanism is missing: use one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
    Row("size of no recording", run("mockbroker proxy --to a:1 --record-size 5"), "Error: --record-size and --record-time need --record FILE"),
    Row("port of the proxy in use", proxy_port_in_use, "Error: cannot listen on 127.0.0.1:$PORT: Address already in use"),
    # mockbroker serve
    Row("port above the last", run("mockbroker serve --port 65535 --brokers 2"), "Error: --port 65535 is too high for 2 brokers: the highest is 65534"),
    Row("folder of the ready file", serve("--ready-file", "none/ready.json"), "Error: --ready-file none/ready.json: the directory none does not exist"),
    Row("ready file that cannot be written", serve("--ready-file", "/proc/ready.json"), "Error: cannot report that the cluster is ready: cannot write /proc/ready.json: No such file or directory"),
    Row("setting without a value", setting("num.partitions"), "Error: --set num.partitions: expected KEY=VALUE"),
    Row("misspelled setting", setting("group.initial.rebalance.dely.ms=0"), "Error: --set has an invalid value: unknown setting group.initial.rebalance.dely.ms; did you mean group.initial.rebalance.delay.ms?"),
    Row("unknown setting", setting("nope=1"), "Error: --set has an invalid value: unknown setting nope: Kafka's brokers have no setting of this or a similar name"),
    Row("number that is text", setting("num.partitions=many"), "Error: --set has an invalid value: num.partitions: expected a whole number, got 'many'"),
    Row("number below its range", setting("num.partitions=0"), "Error: --set has an invalid value: num.partitions: 0 is not between 1 and 100000"),
    Row("boolean that is a number", setting("auto.create.topics.enable=1"), "Error: --set has an invalid value: auto.create.topics.enable: expected true or false, got '1'"),
    Row("word that is not allowed", setting("ssl.client.auth=maybe"), "Error: --set has an invalid value: ssl.client.auth: expected one of none, requested, required, got 'maybe'"),
    Row("number of a setting without effect", setting("log.roll.hours=0"), "Error: --set has an invalid value: log.roll.hours: 0 is not between 1 and 2147483647"),
    Row("replicas without brokers", setting("default.replication.factor=2"), "Error: default.replication.factor is 2, but the cluster has only 1 broker: start with 2 brokers"),
    Row("topic name", serve("--topic", "a/b"), "Error: topic 'a/b': not a legal topic name (1-249 of the characters a-z, A-Z, 0-9, '.', '_' and '-')"),
    Row("partitions that are text", serve("--topic", "orders:six"), "Error: --topic orders:six: expected NAME or NAME:PARTITIONS"),
    Row("topic without partitions", serve("--topic", "orders:0"), "Error: topic orders: the number of partitions, 0, is out of range (1-100000)"),
    Row("topic that is given twice", serve("--topic", "orders", "--topic", "orders:2"), "Error: --topic orders: duplicate topic: name each topic once"),
    Row("user without a password", serve("--user", "alice"), "Error: --user has an invalid value: expected NAME:PASSWORD"),
    Row("user that is given twice", serve("--user", "alice:a", "--user", "alice:b"), "Error: --user has an invalid value: duplicate user alice"),
    Row("users file without a password", users_file("# users\nalice\n"), "Error: --users-file users: line 2: expected NAME:PASSWORD"),
    Row("users file with one user twice", users_file("alice:a\nalice:b\n"), "Error: --users-file users: line 2: duplicate user alice"),
    Row("users file that is not UTF-8", users_file(b"\xff"), "Error: --users-file users: not UTF-8: invalid start byte at byte 0"),
    Row("variable without a password", users_variable("alice"), "Error: MOCKBROKER_USERS has an invalid value: expected NAME:PASSWORD"),
    Row("variable with one user twice", users_variable("alice:a,alice:b"), "Error: MOCKBROKER_USERS has an invalid value: duplicate user alice"),
    Row("configuration file without a value", config("# all\nnum.partitions\n"), "Error: --config server.properties: line 2: expected KEY=VALUE, got 'num.partitions'"),
    Row("configuration file with an unknown setting", config("num.partition=1\n"), "Error: --config server.properties: unknown setting num.partition; did you mean num.partitions?"),
    Row("configuration file that is not UTF-8", config(b"\xff"), "Error: --config server.properties: not UTF-8: invalid start byte at byte 0"),
    Row("unknown security protocol", serve("--listener", "TLS"), "Error: --listener: TLS has no security protocol: add it to listener.security.protocol.map, or use one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
    Row("listener with a colon", serve("--listener", "SSL:9093"), "Error: --listener: expected NAME or NAME://:PORT, got 'SSL:9093'"),
    Row("listener at another host", serve("--listener", "SSL://10.0.0.1:0"), "Error: listeners: host 10.0.0.1 differs from 127.0.0.1, to which all listeners bind: remove it from listeners, or use --host 10.0.0.1 (in Python host=)"),
    Row("listener at a port out of range", serve("--listener", "SSL://:65540"), "Error: --listener: port 65540 is out of range (0-65535)"),
    Row("listener that is given twice", serve("--listener", "SSL", "--listener", "SSL"), "Error: --listener: duplicate listener name in SSL,SSL: give each listener its own name"),
    Row("TLS without a listener", serve("--tls", "auto", "--listener", "PLAINTEXT"), "Error: --tls: no listener uses TLS; add --listener SSL or --listener SASL_SSL"),
    Row("advertised host with a port", serve("--advertise", "a:1"), "Error: --advertise a:1: expected a host name or an IP address, without a port"),
    Row("advertised host twice", serve("--advertise", "a", "--set", "advertised.listeners=PLAINTEXT://b:1"), "Error: --advertise conflicts with advertised.listeners, which names hosts too: remove one of them"),
    Row("TLS with two certificates", serve("--tls", "auto", "--set", "ssl.keystore.location=x"), "Error: --tls auto conflicts with ssl.keystore.location, which already names certificates: remove one of them"),
    Row("unknown SASL mechanism", serve("--sasl", "GSSAPI"), "Error: --sasl has an invalid value: expected one or more of OAUTHBEARER, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 (comma-separated, each once), got 'GSSAPI'"),
    Row("rule for principals", serve("--tls", "auto", "--set", "ssl.principal.mapping.rules=RULE:x"), "Error: ssl.principal.mapping.rules: 'RULE:x' does not begin with a rule: expected DEFAULT or RULE:PATTERN/REPLACEMENT/, optionally with L or U at the end"),
    Row("pattern of a rule for principals", serve("--tls", "auto", "--set", "ssl.principal.mapping.rules=RULE:(/x/"), "Error: ssl.principal.mapping.rules: '(' is not a valid regular expression: missing ), unterminated subpattern at position 0"),
    Row("keystore that does not exist", serve("--listener", "SSL", "--set", "ssl.keystore.location=/none"), "Error: ssl.keystore.location: cannot load /none: No such file or directory"),
    Row("keystore that is empty", serve("--listener", "SSL", "--set", "ssl.keystore.location=/dev/null"), "Error: ssl.keystore.location: Failed to load PEM SSL keystore /dev/null"),
    Row("JAAS setting without a login module", serve("--set", "listener.name.x.plain.sasl.jaas.config=x"), 'Error: listener.name.x.plain.sasl.jaas.config: expected one login module, as in: CLASS required OPTION="VALUE";'),
    Row("required scope of a token", jaas_option("RequiredScope", 'a,\\"'), "Error: listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config: unsecuredValidatorRequiredScope: 'a,\"' is not a valid element of a scope"),
    Row("clock skew of tokens", jaas_option("AllowableClockSkewMs", "-1"), "Error: listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config: unsecuredValidatorAllowableClockSkewMs: expected 0 to 2147483647, got '-1'"),
    Row("key that is not in PKCS #8", other_key_format, "Error: ssl.keystore.location: Failed to load PEM SSL keystore server.pem: the private key is not in PKCS #8, which Kafka needs: convert it with openssl pkcs8 -topk8"),
    Row("keystore without a password", serve("--listener", "SSL", "--set", "ssl.keystore.location=/dev/null", "--set", "ssl.keystore.type=JKS"), "Error: ssl.keystore.location: SSL key store is specified, but key store password is not specified."),
    Row("clients without a truststore", untrusted_clients, "Error: ssl.client.auth=required needs ssl.truststore.location, a file with the certificates to trust"),
    Row("advertised address without a port", setting("advertised.listeners=PLAINTEXT"), "Error: advertised.listeners: expected NAME://HOST:PORT, got 'PLAINTEXT'"),
    Row("advertised listener that does not exist", setting("advertised.listeners=X://a:1"), "Error: advertised.listeners: unknown listener X; listeners are PLAINTEXT"),
    Row("advertised port out of range", setting("advertised.listeners=PLAINTEXT://a:65540"), "Error: advertised.listeners: port 65540 is out of range (0-65535)"),
    Row("listener that is advertised twice", setting("advertised.listeners=PLAINTEXT://a:1,PLAINTEXT://b:1"), "Error: advertised.listeners: duplicate listener name PLAINTEXT"),
    Row("protocol of a listener name", setting("listener.security.protocol.map=INSIDE"), "Error: listener.security.protocol.map: expected NAME:PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL, got 'INSIDE'"),
    Row("journal that cannot be opened", serve("--journal", "none/journal.jsonl"), "Error: --journal none/journal.jsonl: cannot open the file: No such file or directory"),
    Row("data directory below a file", serve("--data-dir", "x/data", files={"x": ""}), "Error: data directory x/data: cannot create or open the folder: Not a directory"),
    # mockbroker import
    Row("log directory that does not exist", imported("--log-dir", "none"), "Error: none: cannot list the log directory: No such file or directory"),
    Row("folder that is not a log directory", imported("--log-dir", "x", files={"x": None}), "Error: x: not a Kafka log directory (no meta.properties and no partition in it)"),
    Row("log directory without groups", imported("--log-dir", "x", files={"x": None, "x/meta.properties": ""}), "no partition of __consumer_offsets and therefore no group found\nError: x: no consumer group found"),
    Row("invalid checkpoint", imported("--log-dir", "x", files={"x": None, "x/meta.properties": "", "x/log-start-offset-checkpoint": "0\n2\norders 0 5\n"}), "no partition of __consumer_offsets and therefore no group found\nx/log-start-offset-checkpoint: not a valid checkpoint: expected '0' and '1' (version and number of entries) in the first two lines, got '0' and '2'\nError: x: no consumer group found"),
    Row("checkpoint that is not a checkpoint", imported("--log-dir", "x", files={"x": None, "x/meta.properties": "", "x/log-start-offset-checkpoint": "text"}), "no partition of __consumer_offsets and therefore no group found\nx/log-start-offset-checkpoint: not a valid checkpoint: expected '0' and '0' (version and number of entries) in the first two lines, got 'text' and ''\nError: x: no consumer group found"),
    Row("partition without a topic id", imported("--log-dir", "x", files={"x": None, "x/meta.properties": "", "x/orders-0": None, "x/orders-0/partition.metadata": "version: 0\n"}), "no partition of __consumer_offsets and therefore no group found\nx/orders-0/partition.metadata: contains no valid topic id\nError: x: no consumer group found"),
    Row("partitions with two topic ids", imported("--log-dir", "x", files={"x": None, "x/meta.properties": "", "x/orders-0": None, "x/orders-0/partition.metadata": "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n", "x/orders-1": None, "x/orders-1/partition.metadata": "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg\n"}), "no partition of __consumer_offsets and therefore no group found\nx/orders-1: topic id AAAAAAAAAAAAAAAAAAAAAg differs from that of other partitions of the topic\nError: x: no consumer group found"),
    Row("checkpoint with an invalid entry", imported("--log-dir", "x", files={"x": None, "x/meta.properties": "", "x/log-start-offset-checkpoint": "0\n1\norders 0\n"}), "no partition of __consumer_offsets and therefore no group found\nx/log-start-offset-checkpoint: not a valid checkpoint: expected an entry TOPIC PARTITION OFFSET, got 'orders 0'\nError: x: no consumer group found"),
    Row("log directory of a running broker", locked_log_dir, "Error: x: locked by a running broker; stop the broker first"),
    Row("segment that is truncated", log_dir(log=build_batch([Record(key=COMMIT)]) + b"torn"), "x/__consumer_offsets-0/00000000000000000000.log at byte 80: torn: 4 bytes of a batch header of 61; read up to offset 1\nError: x: no consumer group found"),
    Row("segments that overlap", log_dir(log=build_batch([Record(key=COMMIT)] * 3), more=build_batch([Record(key=COMMIT)], base_offset=1)), "x/__consumer_offsets-0/00000000000000000001.log at byte 0: base offset 1 overlaps the segment before it\nError: x: no consumer group found"),
    Row("batch with a record without a key", log_dir((None, b"")), "x/__consumer_offsets-0/00000000000000000000.log at byte 0: invalid batch: the record has no key, so its type is unknown; read up to offset 0\nError: x: no consumer group found"),
    Row("records of an unknown type", log_dir((b"\0\x63a", b"1")), "x/__consumer_offsets-0: 1 record of unknown type 99, the first at offset 0\nError: x: no consumer group found"),
    Row("damaged record", log_dir((COMMIT, b"\0\3\0")), "x/__consumer_offsets-0/00000000000000000000.log: the record at offset 0 is damaged: OffsetCommitValue v3 at byte 2, offset: expected 8 bytes, found 1\nError: x: no consumer group found"),
    Row("record of an unsupported format", log_dir((COMMIT, b"\0\x09")), "x/__consumer_offsets-0/00000000000000000000.log: the record at offset 0 has an unsupported format: OffsetCommitValue at byte 0: OffsetCommitValue has no version 9: its versions are 0-4\nError: x: no consumer group found"),
    Row("group that cannot be rebuilt", log_dir(*UNKNOWN_STATE), "x/__consumer_offsets-0: group 'g' cannot be rebuilt: ConsumerGroupCurrentMemberAssignmentValue at byte 0: member m has the invalid state 77: expected 0 to 2\nError: x: no consumer group found"),
    Row("group without metadata", log_dir(UNKNOWN_STATE[0]), "x/__consumer_offsets-0: group 'g': the group metadata record is missing\nError: x: no consumer group found"),
    Row("data directory on a full disk", full_disk, "Error: cannot write data directory x: No space left on device"),
    Row("data directory that is not empty", imported("--log-dir", str(STOPPED), "--data-dir", "x", files={"x": None, "x/y": ""}), "Error: data directory x: the folder is not empty; use an empty or a new one"),
    # mockbroker conform, demo, simulate
    Row("address to conform to", run("mockbroker conform --against localhost", str(CONVERSATION)), "Error: --against localhost: expected HOST:PORT, such as 127.0.0.1:9092"),
    Row("conversation that is not JSON", conform("{"), "failed   x.json: the file is not valid JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    Row("conversation that is an array", conform("[]"), "failed   x.json: the file must contain a JSON object"),
    Row("conversation without steps", conform(STORY), "failed   x.json: a field of the conversation is missing or invalid: 'steps'"),
    Row("response to no request", conform(STORY | {"steps": [{"n": 1, "event": "response", "to": 7}]}), "failed   x.json: step 1: no request has step number 7"),
    Row("missing answer to no step", conform(STORY | {"steps": [{"n": 1, "event": "no answer", "to": 7}]}), "failed   x.json: step 1: no earlier step has number 7"),
    Row("conversation with an unknown event", conform(STORY | {"steps": [{"n": 1, "event": "sleep"}]}), "failed   x.json: step 1: unknown event 'sleep' (known: broker closed the connection, client closes the connection, connection still open, no answer, no answer yet, note, raw bytes, request, response, unmatched response, wait)"),
    Row("broker that closes the connection", conform_against(lambda connection: connection.recv(1_000)), "failed   sync_again (Apache Kafka 4.2.0): no response to MetadataRequest v9: connection closed by the broker"),
    Row("broker that resets the connection", conform_against(reset), "failed   sync_again (Apache Kafka 4.2.0): no response to MetadataRequest v9: socket connection broken: [Errno 104] Connection reset by peer"),
    Row("broker that does not respond", conform_against(ignore), "failed   sync_again (Apache Kafka 4.2.0): no response to MetadataRequest v9 within 0.2 s"),
    Row("address of the control API without a port", http("here"), "Error: --http here: expected PORT or HOST:PORT"),
    Row("high port of the control API", http("localhost:65536"), "Error: --http localhost:65536: port 65536 is out of range (0-65535)"),
    Row("control API for others without a token", http("0.0.0.0:0"), "Error: --http 0.0.0.0:0: without a token the control API listens on loopback only: use --http-token-file or MOCKBROKER_HTTP_TOKEN"),
    Row("option of the control API without its address", serve("--http-host", "box"), "Error: --http-host has no effect without --http: add --http"),
    Row("empty token", http_token("\n"), "Error: --http-token-file token: expected a token of printable ASCII characters without spaces"),
    Row("token that is not text", http_token(b"\xff"), "Error: --http-token-file token: the file is not UTF-8: invalid start byte at byte 0"),
    Row("token in an unreadable file", http_unreadable_token, "Error: --http-token-file token: cannot read the file: Input/output error"),
    Row("demo with a stopped clock", serve("--demo", "--clock", "manual"), "Error: --demo: the consumers of the demo need a running clock: use --clock real"),
    Row("demo without a listener for its consumers", serve("--demo", "--sasl", "PLAIN", "--user", "alice:secret"), "Error: --demo: the consumers of the demo use neither TLS nor SASL: add --listener PLAINTEXT"),
    Row("port of the control API in use", http_port_in_use, "Error: --http: cannot listen on 127.0.0.1:$PORT: Address already in use; choose another port (0 picks a free one) or another address"),
    Row("request of a page of another origin", http_access(host="localhost:9644", origin="http://evil.example"), "Refused: the request comes from a page of another origin (Origin is 'http://evil.example', Host is 'localhost:9644'): only pages of this server may send requests"),
    Row("request of a page of another site", http_access(host="127.0.0.1:9644", sec_fetch_site="cross-site"), "Refused: the request comes from a page of another origin (Sec-Fetch-Site is 'cross-site', Host is '127.0.0.1:9644'): only pages of this server may send requests"),
    Row("control API without a package", http_without_starlette, "Error: --http: starlette is missing: pip install 'kwire[http]'"),
    Row("unknown format of a rule file", rules("r.txt", ""), "Error: --faults r.txt: the format is unknown: use a name that ends in .toml, .yaml, .yml, .json"),
    Row("rule file that is not text", rules("r.toml", b"\xff"), "Error: --faults r.toml: the file is not UTF-8: invalid start byte at byte 0"),
    Row("rule file without rules", rules("r.json", "{}"), "Error: --faults r.json: no rules: expected a list with the key fault (in TOML [[fault]]), or a rule with the keys match and action"),
    Row("rule file with another key", rules("r.toml", "fault = []\ntimes = 1"), "Error: --faults r.toml: unknown key 'times': the only top-level key of a rule file is fault"),
    Row("rule file that is not TOML", rules("r.toml", "fault"), "Error: --faults r.toml: the file is not valid TOML: $REASON"),
    Row("rule file that is not JSON", rules("r.json", "["), "Error: --faults r.json: the file is not valid JSON: Expecting value: line 1 column 2 (char 1)"),
    Row("rule file that is not YAML", rules("r.yaml", "["), "Error: --faults r.yaml: the file is not valid YAML: $REASON"),
    Row("YAML without a package", rules_without_yaml, "Error: --faults r.yaml: yaml is missing: pip install 'kwire[yaml]', or use TOML or JSON"),
    Row("invalid rule in a file", rules("r.toml", "[[fault]]\nmatch = { api = 'Fetch' }\naction = { hold = true }\n[[fault]]\nmatch = { api = 'Fetsh' }\naction = { hold = true }"), "Error: --faults r.toml: rule 2: match.api: unknown API 'Fetsh' (possible: Fetch)"),
    Row("control API that is not named", ctl_without_url, "Error: no server is given: use --url or MOCKBROKER_URL, with the URL of serve --http"),
    Row("invalid URL of the control API", run("mockbroker ctl --url localhost:80 groups"), "Error: --url localhost:80: expected a URL such as http://127.0.0.1:8080"),
    Row("control API that does not run", ctl_alone("groups"), "Error: no response from http://127.0.0.1:1: Connection refused; is mockbroker serve --http running there?"),
    Row("server without the control API", ctl("groups", answer="hello", status="404 Not Found"), "Error: http://127.0.0.1:$PORT answered with status 404, but is not the control API of mockbroker: use the URL that serve --http prints"),
    Row("rule that the server refuses", ctl("faults", "add", "--api", "Fetsh", "--hold", answer={"detail": "match.api: unknown API 'Fetsh'", "errors": [{"path": "match.api", "detail": "unknown API 'Fetsh'", "possible": ["Fetch"]}]}, status="422 Unprocessable Content"), "Error: the server refused the request:\n  match.api: unknown API 'Fetsh' (possible: Fetch)"),
    Row("rule with a warning", ctl("faults", "add", "--api", "Produce", "--hold", answer={"name": "r", "warnings": [{"path": "action", "detail": "acks=0"}]}), "warning: action: acks=0"),
    Row("duration without a unit", ctl_alone("clock", "advance", "45"), "Error: 45 is not a valid duration: expected one such as 500ms, 45s, 5m or 2h"),
    Row("neither options nor a rule", ctl_alone("faults", "add"), "Error: expected exactly one of these: RULE, --file FILE, options such as --api and --error"),
    Row("rule without a name to replace", ctl_alone("faults", "add", "--replace", "--api", "Fetch", "--hold"), "Error: --replace needs the name of the rule: use --name NAME, or the key 'name' in the rule"),
    Row("neither names nor all rules", ctl_alone("faults", "remove"), "Error: expected either the names of the rules to remove, or --all"),
    Row("file of rules for a running broker", ctl_alone("faults", "add", "--file", "r.json", files={"r.json": "7"}), "Error: --file r.json: no rules: expected a list with the key fault (in TOML [[fault]]), or a rule with the keys match and action"),
    Row("rule without its keys", ctl_alone("faults", "add", '{"error": 1}'), "Error: RULE: no rules: expected a list with the key fault (in TOML [[fault]]), or a rule with the keys match and action"),
    Row("rule that is not JSON", ctl_alone("faults", "add", "{"), "Error: RULE is not valid JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    Row("parameter without a value", ctl_alone("faults", "add", "--malform", "length", "--parameter", "by"), "Error: --parameter by: expected NAME=VALUE"),
    Row("response of a rule that is not JSON", ctl_alone("faults", "add", "--respond", "{"), "Error: Invalid value for '--respond': the value is not valid JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    Row("times of a rule", ctl_alone("faults", "add", "--times", "often"), "Error: Invalid value for '--times': often is not valid: expected a number of requests, or always"),
    Row("offset without a partition", ctl_alone("groups", "set-offsets", "g", "orders=5"), "Error: orders=5 is not a valid offset: expected TOPIC:PARTITION=OFFSET"),
    Row("topic setting without a value", ctl_alone("topics", "create", "t", "--config", "retention.ms"), "Error: --config retention.ms: expected KEY=VALUE"),
    Row("preset that does not exist", ctl("presets", "show", "none", answer={"items": []}), "Error: preset none does not exist: mockbroker ctl presets lists all"),
    Row("parameter of a preset without a value", ctl("presets", "run", "latency", "delay_ms", answer={"items": []}), "Error: delay_ms is not a valid parameter: expected NAME=VALUE"),
    Row("top without a package", top_without_rich, "Error: mockbroker top needs the package rich: pip install 'kwire[http]'"),
    Row("demo without a package", demo_without_rich, "Error: the demo requires packages that are not installed (rich): pip install 'kwire[demo]'"),
    Row("events of a rebalance protocol", run("mockbroker simulate --scheme all --events 5"), "Error: --events has no effect with the rebalance protocols: remove it, or use --scheme with one of swarm, lite, calm, rules, migration, streams, shares, data, admin, mix, bytes, upkeep"),
    Row("page of faults", run("mockbroker simulate --html page.html"), "Error: --html needs a rebalance protocol: use --scheme with one of all, zookeeper, server, draft, classic, cooperative, consumer"),
    Row("page of several stories", run("mockbroker simulate --scheme classic --seeds 2 --html page.html"), "Error: --html shows only one scenario: remove --seeds"),
    Row("page that cannot be written", run("mockbroker simulate --scheme server --html none/page.html"), "Error: --html none/page.html: cannot write the file: No such file or directory"),
]  # fmt: skip
