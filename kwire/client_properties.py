"""The properties of a Kafka client with which commands connect to a cluster: TLS and SASL.

Files are those of Kafka's own commands (``--command-config``). Other properties are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path

from kwire.lazy_dataclass import dataclass

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM, "OAUTHBEARER")
JAAS_OPTION = re.compile(r'\b(username|password)="((?:[^"\\]|\\.)*)"')
MODULES = "org.apache.kafka.common.security"  # package of Kafka's login modules
ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)")
CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - the name of a property


class PropertyError(ValueError):
    """The error for a property that is missing, not valid or not supported.

    Attributes:
        line: the line that is not a property; "" for other errors. It may contain a password.
    """

    def __init__(self, message: str, line: str = "") -> None:
        super().__init__(message)
        self.line = line


def read_lines(lines: Iterable[str]) -> dict[str, str]:
    """Return the properties in the lines of a file, by name.

    A line is ``name=value``, empty, or a comment that begins with ``#`` or ``!``. A backslash at its end continues a
    property on the next line; other escapes are those of Java. Source: java.util.Properties.

    Raises: PropertyError if a property contains no ``=``.
    """
    properties: dict[str, str] = {}
    for number, text in _joined(lines):
        name, equals, value = text.partition("=")
        if not equals:
            raise PropertyError(f"line {number}: expected KEY=VALUE", text)
        properties[_unescaped(name.strip())] = _unescaped(value.strip())
    return properties


def _joined(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield each property with its continuation lines as one text, and the number of its first line."""
    first, text = 0, ""
    for number, line in enumerate(lines, 1):
        part = line.rstrip("\r\n").lstrip()
        if not first and (not part or part[0] in "#!"):
            continue
        first = first or number
        backslashes = len(part) - len(part.rstrip("\\"))
        if backslashes % 2:
            text += part[:-1]
            continue
        yield first, (text + part).strip()
        first, text = 0, ""
    if first:
        yield first, text.strip()


def _unescaped(text: str) -> str:
    """Return a name or a value without its escapes."""

    def character(match: re.Match[str]) -> str:
        escaped = match[1]
        return chr(int(escaped[1:], 16)) if len(escaped) > 1 else CONTROL.get(escaped, escaped)

    return ESCAPE.sub(character, text)


def read_file(path: str | Path) -> dict[str, str]:
    """Return the properties in a file, by name.

    Raises: OSError if the file cannot be read; PropertyError if it is not valid.
    """
    try:
        with Path(path).open(encoding="utf-8-sig") as file:
            return read_lines(file)
    except UnicodeDecodeError as error:
        raise PropertyError(f"the file is not UTF-8: {error.reason} at byte {error.start}") from error


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials with which a client logs in to a cluster.

    Attributes:
        mechanism: name of the SASL mechanism, one of ``MECHANISMS``.
        user: user name, for PLAIN and SCRAM.
        password: password, for PLAIN and SCRAM.
        token_file: file with the token, for OAUTHBEARER. The file is read at each login, because tokens expire.
    """

    mechanism: str
    user: str = ""
    password: str = field(default="", repr=False)
    token_file: Path | None = None

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> Credentials:
        """Return the credentials in the properties of a Kafka client.

        Args:
            properties: ``sasl.mechanism``; for PLAIN and SCRAM ``sasl.username`` and ``sasl.password``, or
                ``sasl.jaas.config`` with both; for OAUTHBEARER ``sasl.oauthbearer.token.endpoint.url``, the URL of a
                file. Other properties are ignored.

        Raises: PropertyError if a property is missing or not supported.
        """
        mechanism = properties.get("sasl.mechanism", "")
        if not mechanism:
            raise PropertyError(f"sasl.mechanism is missing: use one of {', '.join(MECHANISMS)}")
        if mechanism not in MECHANISMS:
            raise PropertyError(f"sasl.mechanism={mechanism} is not supported: use {', '.join(MECHANISMS)}")
        if mechanism == "OAUTHBEARER":
            return cls(mechanism, token_file=_token_file(properties.get(TOKEN_URL, "")))
        jaas = dict(JAAS_OPTION.findall(properties.get("sasl.jaas.config", "")))
        given = []
        for name in ("username", "password"):
            quoted = jaas.get(name)
            value = properties.get(f"sasl.{name}", "") if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
            if not value:
                raise PropertyError(
                    f'{name} for {mechanism} is missing: set sasl.{name}, or {name}="..." in sasl.jaas.config'
                )
            if "\0" in value:
                raise PropertyError(f"sasl.{name} contains a null character, which no SASL mechanism allows")
            given.append(value)
        user, password = given
        return cls(mechanism, user, password)

    @property
    def jaas(self) -> str:
        """The property ``sasl.jaas.config`` of a Java client, for PLAIN and SCRAM."""
        module = "scram.ScramLoginModule" if self.mechanism in SCRAM else "plain.PlainLoginModule"
        user, password = (re.sub(r'(["\\])', r"\\\1", text) for text in (self.user, self.password))
        return f'{MODULES}.{module} required username="{user}" password="{password}";'


@dataclass(frozen=True, slots=True)
class ClientProperties:
    """The properties of a Kafka client for the connections to a cluster.

    Attributes:
        protocol: ``security.protocol``, one of PROTOCOLS.
        ca: PEM file with the CA certificates of the cluster; None for those of this machine.
        certificate: PEM file with the key and the certificate of the client; None for no certificate.
        key_password: password of the key; "" for a key without a password.
        credentials: credentials for SASL; None without SASL.
    """

    protocol: str = PROTOCOLS[0]
    ca: Path | None = None
    certificate: Path | None = None
    key_password: str = field(default="", repr=False)
    credentials: Credentials | None = None

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> ClientProperties:
        """Return the connection properties of a Kafka client.

        Args:
            properties: ``security.protocol``, ``ssl.truststore.location``, ``ssl.keystore.location`` (PEM files),
                ``ssl.key.password``, and those of ``Credentials.parse``. Other properties are ignored.

        Raises: PropertyError if a property is missing or not supported.
        """
        protocol = properties.get("security.protocol", PROTOCOLS[0])
        if protocol not in PROTOCOLS:
            raise PropertyError(f"security.protocol={protocol} is not supported: use {', '.join(PROTOCOLS)}")
        credentials = Credentials.parse(properties) if protocol.startswith("SASL") else None
        if not protocol.endswith("SSL"):
            return cls(protocol, credentials=credentials)
        files: dict[str, Path | None] = {}
        for store in ("truststore", "keystore"):
            if (form := properties.get(f"ssl.{store}.type", "PEM")) != "PEM":
                raise PropertyError(f"ssl.{store}.type={form} is not supported: use PEM")
            location = properties.get(f"ssl.{store}.location")
            files[store] = Path(location) if location else None
        key_password = properties.get("ssl.key.password", "")
        return cls(protocol, files["truststore"], files["keystore"], key_password, credentials)

    @classmethod
    def read(cls, path: str | Path) -> ClientProperties:
        """Return the connection properties in a file.

        Raises: OSError if the file cannot be read; PropertyError if it is not valid.
        """
        return cls.parse(read_file(path))

    def of_librdkafka(self) -> dict[str, str]:
        """Return the properties of librdkafka, without the token for OAUTHBEARER."""
        certificate = str(self.certificate or "")
        found = {
            "security.protocol": self.protocol,
            "ssl.ca.location": str(self.ca or ""),
            "ssl.certificate.location": certificate,
            "ssl.key.location": certificate,
            "ssl.key.password": self.key_password,
        }
        if self.credentials is not None:
            given = self.credentials
            found |= {"sasl.mechanism": given.mechanism, "sasl.username": given.user, "sasl.password": given.password}
        return {name: value for name, value in found.items() if value}

    def of_java(self) -> dict[str, str]:
        """Return the properties of a Java client.

        Raises: PropertyError for OAUTHBEARER, which needs further classes.
        """
        found = {"security.protocol": self.protocol}
        for store, path in (("truststore", self.ca), ("keystore", self.certificate)):
            if path is not None:
                found |= {f"ssl.{store}.location": str(path), f"ssl.{store}.type": "PEM"}
        if self.key_password:
            found["ssl.key.password"] = self.key_password
        if (given := self.credentials) is not None:
            if given.mechanism not in ("PLAIN", *SCRAM):
                raise PropertyError(f"sasl.mechanism={given.mechanism} is not supported with Spark")
            found |= {"sasl.mechanism": given.mechanism, "sasl.jaas.config": given.jaas}
        return found


def _token_file(url: str) -> Path:
    if not url:
        raise PropertyError(f"{TOKEN_URL} is missing: use the URL of a file with a token, such as file:///run/token")
    from urllib.parse import unquote, urlsplit  # on demand: only OAUTHBEARER needs it

    parts = urlsplit(url)
    if parts.scheme != "file" or parts.netloc or not parts.path:
        raise PropertyError(f"{TOKEN_URL}={url}: use the URL of a file with a token, such as file:///run/token")
    return Path(unquote(parts.path))
