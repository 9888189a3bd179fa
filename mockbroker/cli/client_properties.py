"""The options of commands that connect to a real cluster: addresses, and properties of a Kafka client."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from mockbroker.base.settings import SettingsError, read_properties
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.login import Credentials, LoginError
from mockbroker.proxy.upstream import Upstream

LAST_PORT = 65_535
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
STORES = ("truststore", "keystore")


def addresses(option: str, text: str) -> list[Address]:
    """Return the addresses in the value of an option.

    Args:
        option: the option with its value, for the error message.
        text: addresses ``host:port``, divided by commas.

    Raises: click.UsageError if an address is not valid.
    """
    found = []
    for each in text.split(","):
        address = Address.parse(each.strip())
        if address is None or not 0 < address.port <= LAST_PORT:
            raise click.UsageError(f"{option}: {each.strip()!r} is not an address: use HOST:PORT")
        found.append(address)
    return found


def read_file(option: str, path: Path) -> Mapping[str, str]:
    """Return the properties in a file.

    Args:
        option: name of the option, for the error message.
        path: path of the file.

    Raises: click.UsageError if the file has no properties.
    """
    try:
        with path.open(encoding="utf-8") as file:
            return read_properties(file)
    except UnicodeDecodeError as error:
        raise click.UsageError(
            f"{option} {path}: the file is not UTF-8: {error.reason} at byte {error.start}"
        ) from error
    except SettingsError as error:  # the line itself may have a password
        raise click.UsageError(f"{option} {path}: {str(error).partition(', got')[0]}") from error


def read_credentials(option: str, properties: Mapping[str, str]) -> Credentials:
    """Return the credentials in the properties of a Kafka client.

    Args:
        option: the option with its value, for the error message.
        properties: the properties.

    Raises: click.UsageError if a property is missing or not supported.
    """
    try:
        return Credentials.parse(properties)
    except LoginError as error:
        raise click.UsageError(f"{option}: {error}") from error


def read_cluster(option: str, path: Path, servers: Sequence[Address]) -> Upstream:
    """Return a cluster, to which connections are made as with the properties of a Kafka client.

    Args:
        option: name of the option, for the error message.
        path: file with the properties: ``security.protocol``, ``ssl.truststore.location`` and ``ssl.keystore.location``
            (PEM files), and those of ``Credentials.parse``. Other properties are ignored.
        servers: addresses of brokers.

    Raises: click.UsageError if a property is missing or not supported.
    """
    given, properties = f"{option} {path}", read_file(option, path)
    protocol = properties.get("security.protocol", PROTOCOLS[0])
    if protocol not in PROTOCOLS:
        raise click.UsageError(f"{given}: security.protocol={protocol} is not supported: use {', '.join(PROTOCOLS)}")
    tls = None
    if protocol.endswith("SSL"):
        for store in STORES:
            if (form := properties.get(f"ssl.{store}.type", "PEM")) != "PEM":
                raise click.UsageError(f"{given}: ssl.{store}.type={form} is not supported: use PEM")
        files = (properties.get(f"ssl.{store}.location") for store in STORES)
        tls = tls_context(*(Path(file) if file else None for file in files), unverified=False)
    return Upstream(servers, tls, read_credentials(given, properties) if protocol.startswith("SASL") else None)


def tls_context(ca: Path | None, certificate: Path | None, *, unverified: bool) -> ssl.SSLContext:
    """Return the TLS context for connections to a cluster.

    Args:
        ca: CA certificates of the cluster; None for those of this machine.
        certificate: key and certificate to present to the cluster; None to present none.
        unverified: True to accept any certificate of the cluster.

    Raises: click.UsageError if a file cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except OSError as error:
        raise click.UsageError(f"{ca}: the file must contain valid CA certificates in PEM form") from error
    try:
        if certificate is not None:
            context.load_cert_chain(certificate, password=lambda: "")  # OpenSSL would ask on the terminal
    except OSError as error:
        raise click.UsageError(
            f"{certificate}: the file must contain a valid certificate and its private key, which has no password"
        ) from error
    if unverified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
