"""Record changes of the keystore and the truststore of a listener of a real Kafka: ``keystores.py [--port]``.

Each change, the response, and the file whose certificate new connections get are written to fixtures/keystores.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import kafka

sys.path.insert(0, str(Path(__file__).parent.parent))
from tools.keystores import part_of, write_keystores

from kwire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

ANSWERS = Path(__file__).parent.parent.parent / "fixtures" / "keystores.json"
SET, DELETE, BROKER, NODE = 0, 1, 4, "1"
NOTICED = 0.4  # seconds until a broker has applied a change
FOLDER = "FOLDER"  # in fixtures/keystores.json, in place of the path of the folder
TWO = "localhost 127.0.0.1"
FILES: dict[str, dict[str, str]] = {
    "first": {"names": TWO},
    "renewed": {"names": TWO},
    "reordered": {"names": "127.0.0.1 localhost"},
    "upper-case": {"subject": "CN=BROKER", "names": TWO},
    "other-name": {"subject": "CN=other", "names": TWO},
    "organization": {"subject": "CN=broker,O=Org. of\\, brokers", "names": TWO},
    "more-names": {"names": f"{TWO} mail@broker.example ::1"},
    "fewer-names": {"names": "localhost"},
    "no-names": {},
    "other-names": {"names": "LOCALHOST 127.0.0.1"},
    "key-only": {"parts": "key"},
    "certificate-only": {"names": TWO, "parts": "certificate"},
    "der": {"names": TWO, "parts": "der"},
    "locked": {"names": TWO, "parts": "locked-key certificate"},
    "sec1": {"names": TWO, "parts": "sec1-key certificate"},
    "pkcs12": {"names": TWO, "parts": "pkcs12"},
    "pkcs12-trust": {"names": TWO, "parts": "pkcs12-trust"},
    "jks": {"names": TWO, "parts": "jks"},
    "jks-trust": {"names": TWO, "parts": "jks-trust"},
    "jks-two-passwords": {"names": TWO, "parts": "jks-two-passwords"},
    "no-pem": {"text": "nonsense"},
    "empty": {"text": ""},
}
K, T = "ssl.keystore.location", "ssl.truststore.location"
KEY, CHAIN, CERTIFICATES = "ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates"
KEY_PASSWORD, PASSWORD_OF_STORE = "ssl.key.password", "ssl.keystore.password"
PASSWORD, OF_KEY = "changeit", "of-the-key"
REFUSED = "other-name organization fewer-names no-names other-names key-only der no-pem empty missing"
Step = dict[str, Any]


def change(name: str, file: str | None, *, check: bool = False, listener: str = "ssl") -> Step:
    """Return a change of one setting. ``file``: its value; None deletes the setting. ``check``: only validate."""
    step: Step = {"set": {f"listener.name.{listener}.{name}": file}}
    return step | ({"validate_only": True} if check else {})


def store(name: str, file: str | None, kind: str | None, password: str | None, key_password: str | None = None) -> Step:
    """Return a change of a keystore or truststore with its type and passwords."""
    prefix = f"listener.name.ssl.{name.removesuffix('location')}"
    settings = {f"{prefix}location": file, f"{prefix}type": kind, f"{prefix}password": password}
    return {"set": settings | ({f"listener.name.ssl.{KEY_PASSWORD}": key_password} if name == K else {})}


def inline(own: str | None, certificates: str | None, **more: str | None) -> Step:
    """Return a change of the key and certificates of a listener. ``location``: the value of ssl.keystore.location."""
    settings = {KEY: own, CHAIN: certificates, **({K: more["location"]} if more else {})}
    return {"set": {f"listener.name.ssl.{name}": value for name, value in settings.items()}}


def both(own: str | None, unprefixed: str | None, **more: bool) -> Step:
    """Return a change of ssl.client.auth of the listener and of all listeners."""
    return {"set": {"listener.name.ssl.ssl.client.auth": own, "ssl.client.auth": unprefixed}, **more}


def copy(source: str | None, target: str) -> Step:
    return {"copy": [source, target]}


def scenarios() -> Iterator[dict[str, Any]]:
    yield {
        "doc": "a keystore without a truststore",
        "config": {K: "first"},
        "steps": [
            *(change(K, file) for file in ("renewed", "first", "reordered", "upper-case", "first")),
            *(change(K, file) for file in [*REFUSED.split(), "certificate-only", ""]),
            *(change(K, file, check=True) for file in ("renewed", "other-name", "missing")),
            *(change(K, file, listener=name) for name in ("plaintext", "none", "SSL") for file in ("missing", None)),
            *(change(T, file) for file in ("certificate-only", "missing", "no-pem", None)),
            {"set": {f"listener.name.ssl.{K}": "renewed", f"listener.name.ssl.{T}": "missing"}},
            {"set": {f"listener.name.ssl.{K}": "other-name", "log.retention.ms": "1"}},
            *(change("ssl.client.auth", each) for each in ("x", "required", None)),
            change(K, "renewed"),
            copy("first", "renewed"),
            {"set": {"log.retention.ms": "1000"}},
            change(K, "renewed"),
            copy("other-name", "renewed"),
            change(K, "renewed"),
            copy(None, "renewed"),
            change(K, "renewed"),
            {"set": {"log.retention.ms": None}},
            copy("other-name", "first"),
            change(K, None),
            copy("reordered", "first"),
            change(K, None),
            change(K, "more-names"),
            change(K, "reordered"),
            change(K, None),
        ],
    }
    yield {
        "doc": "a keystore and a truststore",
        "config": {K: "first", T: "certificate-only"},
        "steps": [
            *(change(T, file) for file in ("first", "missing", "no-pem", "empty", "", "certificate-only", None)),
            {"set": {f"listener.name.ssl.{K}": "other-name", f"listener.name.ssl.{T}": "missing"}},
            {"set": {f"listener.name.ssl.{K}": "renewed", f"listener.name.ssl.{T}": "first"}},
            {"set": {f"listener.name.ssl.{K}": None, f"listener.name.ssl.{T}": None}},
        ],
    }
    yield {
        "doc": "types and passwords of keystores",
        "config": {K: "first", T: "certificate-only"},
        "steps": [
            *(
                store(K, "pkcs12", kind, password)
                for kind in ("PKCS12", "JKS", "PEM", "pkcs12", "nonsense", None)
                for password in (PASSWORD, "wrong", None)
            ),
            *(store(K, "jks", kind, password) for kind in ("JKS", "PKCS12") for password in (PASSWORD, "wrong", None)),
            store(K, "jks-two-passwords", "JKS", PASSWORD),
            store(K, "jks-two-passwords", "JKS", PASSWORD, key_password=OF_KEY),
            store(K, "pkcs12", "PKCS12", PASSWORD, key_password=OF_KEY),
            store(K, "first", "JKS", PASSWORD),
            store(K, "first", "PEM", PASSWORD),
            store(K, "first", "PEM", None, key_password=PASSWORD),
            store(K, "locked", "PEM", None),
            # Java 17 reads only keys that are encrypted with PBES1; newer releases also read PBES2, as in this file.
            store(K, "locked", "PEM", None, key_password="wrong"),
            store(K, "sec1", "PEM", None),
            *(
                store(T, "pkcs12-trust", kind, password)
                for kind in ("PKCS12", "JKS")
                for password in (PASSWORD, "wrong", None)
            ),
            *(
                store(T, "jks-trust", kind, password)
                for kind in ("JKS", "PKCS12")
                for password in (PASSWORD, "wrong", None)
            ),
            store(T, "certificate-only", "PEM", PASSWORD),
            store(T, "jks", "JKS", PASSWORD),
            store(T, "pkcs12", "PKCS12", PASSWORD),
        ],
    }
    yield {
        "doc": "certificates and keys in the settings themselves",
        "config": {KEY: "key:first", CHAIN: "certificate:first", CERTIFICATES: "certificate:certificate-only"},
        "steps": [
            inline("key:renewed", "certificate:renewed"),
            inline("key:other-name", "certificate:other-name"),
            inline("nonsense", "certificate:renewed"),
            inline("key:renewed", "nonsense"),
            inline("key:renewed", "certificate:renewed", location="renewed"),
            inline(None, None, location="renewed"),
            inline("key:more-names", "certificate:more-names"),
            {
                "set": {
                    f"listener.name.ssl.{KEY}": "key:renewed",
                    f"listener.name.ssl.{CHAIN}": "certificate:renewed",
                    f"listener.name.ssl.{PASSWORD_OF_STORE}": PASSWORD,
                }
            },
            {"set": {f"listener.name.ssl.{PASSWORD_OF_STORE}": None}},
            inline(None, None),
            *(
                {"set": {f"listener.name.ssl.{CERTIFICATES}": each}}
                for each in ("certificate:first", "nonsense", "", None)
            ),
            change(T, "certificate-only"),
        ],
    }
    yield {
        "doc": "certificates and keys in the settings, beside files",
        "config": {K: "first", T: "certificate-only"},
        "steps": [
            inline("key:renewed", "certificate:renewed", location=""),
            inline("key:renewed", "certificate:renewed"),
            inline("key:renewed", None),
            inline(None, "certificate:renewed"),
            {"set": {f"listener.name.ssl.{CERTIFICATES}": "certificate:first"}},
            {"set": {f"listener.name.ssl.{CERTIFICATES}": None}},
        ],
    }
    yield {
        "doc": "authentication of clients",
        "config": {K: "first", T: "certificate-only"},
        "steps": [
            *(change("ssl.client.auth", each) for each in ("required", "requested", "none", None)),
            *({"set": {"ssl.client.auth": each}} for each in ("x", "required", "requested", None)),
            change(K, "renewed"),
            {"set": {"ssl.client.auth": None}},
            change(K, "first"),
            {"set": {f"listener.name.ssl.{K}": "renewed", "listener.name.ssl.ssl.client.auth": "required"}},
            {"set": {"listener.name.ssl.ssl.client.auth": None}},
            change(K, "first"),
        ],
    }
    yield {
        "doc": "authentication of clients by a static setting of the listener",
        "config": {
            K: "first",
            T: "certificate-only",
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.client.auth": "none",
        },
        "steps": [
            change("ssl.client.auth", "none"),
            change("ssl.client.auth", None),
        ],
    }
    yield {
        "doc": "authentication of clients on the listener and of all in one request",
        "config": {K: "first", T: "certificate-only"},
        "steps": [
            both("none", "none"),
            both("required", "none"),
            both("requested", "required", validate_only=True),
            {"set": {"ssl.client.auth": "none", f"listener.name.ssl.{K}": "renewed"}},
            {"set": {"ssl.client.auth": "none", "listener.name.ssl.max.connections": "100"}},
            {"set": {"ssl.client.auth": "none", "listener.name.plaintext.ssl.client.auth": "none"}},
            {"set": {"ssl.client.auth": "none", "listener.name.ssl.sasl.enabled.mechanisms": "PLAIN"}},
            {"set": {"ssl.client.auth": "none", "listener.name.ssl.ssl.protocol": "TLSv1.3"}},
            {"set": {"ssl.client.auth": "none", "listener.name.other.ssl.client.auth": "none"}},
            change("ssl.client.auth", "required"),
            {"set": {"ssl.client.auth": "required"}},
            both("required", "none"),
            both("requested", "none"),
            both(None, "none"),
            both(None, None),
            change("ssl.client.auth", None),
            {"set": {"ssl.client.auth": None}},
            {"set": {"listener.name.ssl.ssl.client.auth": "requested", "log.retention.ms": "1000"}},
            {"set": {"listener.name.ssl.ssl.client.auth": None, "principal.builder.class": None}},
        ],
    }
    yield {
        "doc": "settings of all listeners beside those of one listener",
        "config": {K: "first"},
        "steps": [
            change("sasl.enabled.mechanisms", "PLAIN"),
            *(
                {"set": {name: value}}
                for name, value in (
                    ("max.connections", "1000"),
                    ("max.connections.per.ip", "1000"),
                    ("max.connection.creation.rate", "1000"),
                    ("num.network.threads", "4"),
                    ("principal.builder.class", None),
                    ("sasl.enabled.mechanisms", "PLAIN"),
                    ("sasl.jaas.config", "x y;"),
                    ("sasl.login.refresh.buffer.seconds", "200"),
                    ("sasl.mechanism.inter.broker.protocol", "PLAIN"),
                    ("sasl.kerberos.service.name", "x"),
                    ("connections.max.idle.ms", "700000"),
                    ("ssl.protocol", "TLSv1.3"),
                    ("ssl.engine.factory.class", "x"),
                    ("log.retention.ms", "1000"),
                )
            ),
            {"set": {"listener.name.ssl.num.network.threads": "5", "ssl.client.auth": "requested"}},
            change("sasl.enabled.mechanisms", None),
            {"set": {"listener.name.ssl.num.network.threads": "5", "ssl.client.auth": "requested"}},
            {"set": {"listener.name.ssl.max.connections": "500", "ssl.client.auth": None}},
            {"set": {"listener.name.ssl.ssl.principal.mapping.rules": "DEFAULT", "ssl.client.auth": "none"}},
            {"set": {"listener.name.other.ssl.client.auth": "none", "ssl.client.auth": "none"}},
        ],
    }
    yield {
        "doc": "static keystore of the listener",
        "config": {
            "listener.name.ssl.ssl.keystore.location": "jks",
            "listener.name.ssl.ssl.keystore.type": "JKS",
            "listener.name.ssl.ssl.keystore.password": PASSWORD,
            K: "other-name",
        },
        "steps": [
            store(K, "pkcs12", "PKCS12", PASSWORD),
            store(K, None, None, None),
        ],
    }
    yield {
        "doc": "no keystore",
        "config": {},
        "steps": [change(K, "missing"), change(K, "first"), change(T, "certificate-only"), change(K, None)],
    }


def play(scenario: dict[str, Any], port: int, folder: Path) -> None:
    """Add to each change its response and the file whose certificate is used after it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    certificates = write_keystores(folder, FILES)
    places = {"PLAINTEXT": port, "CONTROLLER": port + 1, "SSL": port + 2}
    listeners = {name: f"{name}://127.0.0.1:{number}" for name, number in places.items()}
    settings = {
        "listeners": ",".join(listeners.values()),
        "advertised.listeners": f"{listeners['PLAINTEXT']},{listeners['SSL']}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        **{name: property_value(folder, name, value) for name, value in scenario["config"].items()},
    }
    with kafka.running(kafka.NEWEST, port, settings), socket.create_connection(("127.0.0.1", port)) as connection:
        for step in scenario["steps"]:
            if "copy" in step:
                source, target = step["copy"]
                (folder / target).write_bytes((folder / source).read_bytes()) if source else (folder / target).unlink()
                certificates[target] = certificates[source] if source else b""
                continue
            result = alter(connection, folder, step)
            step["error_code"], text = result.error_code, result.error_message
            step["error_message"] = text and text.replace(str(folder), FOLDER)
            time.sleep(NOTICED)
            step["certificate"] = served(port + 2, certificates)
            step["anonymous"] = serves_anonymous(port + 2)
            print(step, flush=True)


def property_value(folder: Path, name: str, value: str) -> str:
    """Return the value of a setting as in a properties file."""
    return str(in_folder(folder, name, value)).replace("\n", "\\n")


def alter(connection: socket.socket, folder: Path, step: Step) -> IncrementalAlterConfigsResponse.Resource:
    kind = IncrementalAlterConfigsRequest.Resource
    configs = [
        kind.Config(name=name, config_operation=DELETE if value is None else SET, value=in_folder(folder, name, value))
        for name, value in step["set"].items()
    ]
    resource = kind(resource_type=BROKER, resource_name=NODE, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=step.get("validate_only", False))
    response = kafka.exchange(connection, request, 1)
    assert isinstance(response, IncrementalAlterConfigsResponse)
    return response.responses[0]


def in_folder(folder: Path, name: str, value: str | None) -> str | None:
    if value and name.endswith("location"):
        return str(folder / value)
    part, _, file = (value or "").partition(":")
    return part_of((folder / file).read_text(), part) if file else value


def serves_anonymous(port: int) -> bool:
    """Return whether a client without certificate is served."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # with TLS 1.2, the handshake fails on the client, too
    try:
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain, server_hostname="localhost"),
        ):
            return True
    except (ssl.SSLError, ConnectionError):
        return False


def served(port: int, certificates: dict[str, bytes]) -> str | None:
    """Return the certificate that a new connection gets: the subject and alternative names decide which file."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as stream,
        ):
            found = stream.getpeercert(binary_form=True)
    except (ssl.SSLError, ConnectionError):
        return None
    return next((name for name, each in certificates.items() if each == found), "an older one")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=19092)
    port = parser.parse_args().port
    recorded = list(scenarios())
    with TemporaryDirectory() as folder:
        for scenario in recorded:
            play(scenario, port, Path(folder) / "files")
    kept = {"broker": f"Apache Kafka {kafka.NEWEST}", "files": FILES, "scenarios": recorded}
    ANSWERS.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
