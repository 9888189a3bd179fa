"""The properties of a Kafka client: their file, and the properties for librdkafka and Java."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kwire.client_properties import ClientProperties, Credentials, PropertyError, read_lines

ALL = {
    "security.protocol": "SASL_SSL",
    "ssl.truststore.location": "/ca.pem",
    "ssl.keystore.location": "/own.pem",
    "ssl.key.password": "key-secret",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": 'a"b',
    "sasl.password": "c\\d",
    "client.id": "ignored",
}


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=1\n\n  # b=2\n! c=3\r\n d = e=f \n", {"a": "1", "d": "e=f"}),
        ("a=one \\\n    two \\\n  # three\nb=4", {"a": "one two # three", "b": "4"}),
        ("a=\\\n  1", {"a": "1"}),
        ("a=1\\", {"a": "1"}),
        (r"a=\\" + "\nb=2", {"a": "\\", "b": "2"}),
        (r"a=\t\u00e9\x\.\"", {"a": "\té" + 'x."'}),
        (
            'jaas=Module required \\\n   user_a="b" \\\n   user_c="d";\n',
            {"jaas": 'Module required user_a="b" user_c="d";'},
        ),
    ],
)
def test_lines_are_read_as_in_java(text: str, properties: Mapping[str, str]) -> None:
    assert read_lines(text.splitlines(keepends=True)) == properties


def test_line_of_a_property_that_has_no_value() -> None:
    with pytest.raises(PropertyError, match=r"^line 3: expected KEY=VALUE$"):
        read_lines(["a=1\\", "2", "b \\", "c"])


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({}, "sasl.mechanism is missing"),
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism=GSSAPI is not supported: use PLAIN, SCRAM-SHA-256"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "a"}, "password for PLAIN is missing: set sasl.password"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "b\0"}, "a null character"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "sasl.oauthbearer.token.endpoint.url is missing"),
        (
            {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "https://login"},
            "use the URL of a file with a token, such as file:///run/token",
        ),
    ],
)
def test_credentials_that_cannot_be_used_are_refused(properties: Mapping[str, str], problem: str) -> None:
    with pytest.raises(PropertyError, match=problem):
        Credentials.parse(properties)


def test_credentials_are_read_from_a_jaas_configuration() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="al \\"i" password="a;b=c";'
    found = Credentials.parse({"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas})
    assert (found.user, found.password) == ('al "i', "a;b=c")
    assert "a;b=c" not in repr(found)


def test_librdkafka_gets_its_own_names() -> None:
    assert ClientProperties.parse(ALL).of_librdkafka() == {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/own.pem",
        "ssl.key.location": "/own.pem",
        "ssl.key.password": "key-secret",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": 'a"b',
        "sasl.password": "c\\d",
    }
    assert ClientProperties.parse({}).of_librdkafka() == {"security.protocol": "PLAINTEXT"}


def test_java_gets_pem_files_and_a_jaas_configuration() -> None:
    found = ClientProperties.parse(ALL).of_java()
    jaas = found.pop("sasl.jaas.config")
    assert found == {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": "/ca.pem",
        "ssl.truststore.type": "PEM",
        "ssl.keystore.location": "/own.pem",
        "ssl.keystore.type": "PEM",
        "ssl.key.password": "key-secret",
        "sasl.mechanism": "SCRAM-SHA-512",
    }
    assert jaas.startswith("org.apache.kafka.common.security.scram.ScramLoginModule required ")
    again = Credentials.parse({"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas})
    assert again == ClientProperties.parse(ALL).credentials


def test_java_needs_further_classes_for_tokens() -> None:
    token = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "file:///run/token"}
    properties = ClientProperties.parse({"security.protocol": "SASL_SSL", **token})
    with pytest.raises(PropertyError, match="OAUTHBEARER is not supported with Spark"):
        properties.of_java()


def test_passwords_are_not_shown() -> None:
    assert "secret" not in repr(ClientProperties.parse(ALL))


def test_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SSL\n", encoding="utf-8-sig")
    assert ClientProperties.read(path).protocol == "SSL"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a=1\nsecret", "^line 2: expected KEY=VALUE$"),
        (b"\xff", "the file is not UTF-8: invalid start byte at byte 0"),
        (b"security.protocol=TLS", "security.protocol=TLS is not supported: use PLAINTEXT, SSL"),
        (b"security.protocol=SSL\nssl.keystore.type=JKS", "ssl.keystore.type=JKS is not supported: use PEM"),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error(content: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(content)
    with pytest.raises(PropertyError, match=problem):
        ClientProperties.read(path)
