"""The values of the options of ``mockbroker serve`` for the control API: address, allowed host names and token."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import field
from pathlib import Path

import click

from kwire.lazy_dataclass import dataclass
from mockbroker.net.addresses import is_loopback

TOKEN_VARIABLE = "MOCKBROKER_HTTP_TOKEN"  # noqa: S105 - the name of a variable
DEFAULT_HOST = "127.0.0.1"
LAST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """The address of the control API, with the allowed host names and the token of requests.

    Attributes:
        host: Address to bind to.
        port: Port to bind to; 0 picks a free port.
        names: Names that the Host header of a request may contain in addition to ``host``.
        token: The bearer token that each request must contain; None if requests need no token.
    """

    host: str
    port: int
    names: tuple[str, ...]
    token: str | None = field(repr=False)


def http_address(http: str | None, names: Iterable[str], token_file: Path | None) -> HttpAddress | None:
    """Return the address of the control API; None if --http was not given.

    Args:
        http: Value of --http.
        names: Values of --http-host.
        token_file: Value of --http-token-file.

    Raises:
        click.UsageError: The value of an option is not valid.
    """
    names = tuple(names)
    if http is None:
        if names or token_file is not None:
            option = "--http-host" if names else "--http-token-file"
            raise click.UsageError(f"{option} has no effect without --http: add --http")
        return None
    from mockbroker.proxy.addresses import Address  # on demand: only --http needs it

    address = Address.parse(http if ":" in http else f"{DEFAULT_HOST}:{http}")
    if address is None:
        raise click.UsageError(f"--http {http}: expected PORT or HOST:PORT")
    if address.port > LAST_PORT:
        raise click.UsageError(f"--http {http}: port {address.port} is out of range (0-{LAST_PORT})")
    token = read_token(token_file, "--http-token-file")
    if token is None and not is_loopback(address.host):
        raise click.UsageError(
            f"--http {http}: without a token the control API listens on loopback only: "
            f"use --http-token-file or {TOKEN_VARIABLE}"
        )
    return HttpAddress(address.host, address.port, names, token)


def read_token(path: Path | None, option: str) -> str | None:
    """Return the token of the control API from a file or from the environment; None if there is no token.

    Args:
        path: the file; None to read the environment variable.
        option: name of the option that names the file, for error messages.

    Raises:
        click.UsageError: The file cannot be read, or the file or the variable contains no valid token.
    """
    if path is None:
        text, source = os.environ.get(TOKEN_VARIABLE), TOKEN_VARIABLE
        if text is None:
            return None
    else:
        source = f"{option} {path}"
        try:
            text = path.read_text("utf-8-sig")
        except UnicodeDecodeError as error:
            raise click.UsageError(f"{source}: the file is not UTF-8: {error.reason} at byte {error.start}") from error
        except OSError as error:
            raise click.UsageError(f"{source}: cannot read the file: {error.strerror}") from error
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise click.UsageError(f"{source}: expected a token of printable ASCII characters without spaces")
    return token
