"""The options of commands that connect to a real cluster: addresses, and properties of a Kafka client."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

import click

from kwire.client_properties import ClientProperties, Credentials, PropertyError, read_file
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.upstream import Upstream

LAST_PORT = 65_535
NO_PASSWORD = "its private key, which has no password"  # noqa: S105 - a text


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


def read_credentials(option: str, path: Path) -> Credentials:
    """Return the credentials in a file with the properties of a Kafka client.

    Args:
        option: name of the option, for the error message.
        path: path of the file.

    Raises: click.UsageError if a property is missing or not supported.
    """
    try:
        return Credentials.parse(read_file(path))
    except PropertyError as error:
        raise click.UsageError(f"{option} {path}: {error}") from error


def read_cluster(option: str, path: Path, servers: Sequence[Address]) -> Upstream:
    """Return a cluster, to which connections are made as with the properties of a Kafka client.

    Args:
        option: name of the option, for the error message.
        path: file with the properties that ``ClientProperties.parse`` reads.
        servers: addresses of brokers.

    Raises: click.UsageError if a property is missing or not supported.
    """
    try:
        properties = ClientProperties.read(path)
    except PropertyError as error:
        raise click.UsageError(f"{option} {path}: {error}") from error
    tls = None
    if properties.protocol.endswith("SSL"):
        tls = tls_context(properties.ca, properties.certificate, properties.key_password, unverified=False)
    return Upstream(servers, tls, properties.credentials)


def tls_context(
    ca: Path | None, certificate: Path | None, key_password: str = "", *, unverified: bool
) -> ssl.SSLContext:
    """Return the TLS context for connections to a cluster.

    Args:
        ca: CA certificates of the cluster; None for those of this machine.
        certificate: key and certificate to present to the cluster; None to present none.
        key_password: password of the key; "" for a key without a password.
        unverified: True to accept any certificate of the cluster.

    Raises: click.UsageError if a file cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except OSError as error:
        raise click.UsageError(f"{ca}: the file must contain valid CA certificates in PEM form") from error
    try:
        if certificate is not None:
            context.load_cert_chain(certificate, password=lambda: key_password)  # OpenSSL would ask on the terminal
    except OSError as error:
        key = "its private key with the password in ssl.key.password" if key_password else NO_PASSWORD
        raise click.UsageError(f"{certificate}: the file must contain a valid certificate and {key}") from error
    if unverified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
