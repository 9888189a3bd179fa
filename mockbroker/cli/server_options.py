"""The options that commands of mockbroker share: address, control API, fault rules, ready file."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from kwire.extras import missing
from mockbroker.api.cluster import Cluster
from mockbroker.base.settings import Settings
from mockbroker.cli.http_address import HttpAddress
from mockbroker.cli.rule_files import RuleFileError, by_number, read_rules
from mockbroker.net.bound_listeners import listen

EVENTS_IN_MEMORY = 1_000  # maximum number: a broker or a proxy may run for weeks
F = TypeVar("F", bound=Callable[..., Any])

host_option = click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    callback=lambda context, option, value: value.strip("[]"),  # noqa: ARG005 - click passes all three
    help="Address to listen on.",
)
faults_option = click.option(
    "--faults",
    "faults_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Fault rules that hold from the first connection on: a TOML, YAML or JSON file (docs/faults.md).",
)
ready_file_option = click.option(
    "--ready-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the addresses and the process id to this file once connections are accepted.",
)
_HTTP = (
    click.option(
        "--http",
        metavar="[HOST:]PORT",
        help="Serve the control API on this address, 127.0.0.1 without HOST. 0 picks a free port.",
    ),
    click.option(
        "--http-host",
        "http_hosts",
        multiple=True,
        metavar="NAME",
        help="Accept this name in the Host header of the control API too. Without effect with a token. Repeatable.",
    ),
    click.option(
        "--http-token-file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="File with the token that requests to the control API need. In the environment: MOCKBROKER_HTTP_TOKEN",
    ),
)


def http_options(command: F) -> F:
    """Add the options --http, --http-host and --http-token-file of the control API to a command.

    The function of the command gets the arguments ``http``, ``http_hosts`` and ``http_token_file``.
    """
    for option in reversed(_HTTP):
        command = option(command)
    return command


def fail(problem: str) -> NoReturn:
    """Print a message to stderr, and end the command with exit code 1. ``problem``: the message."""
    click.echo(f"Error: {problem}", err=True)
    sys.exit(1)


def read_faults(path: Path | None) -> list[Any]:
    """Return the fault rules in the file of --faults, unchecked; an empty list without the option.

    Raises:
        click.UsageError: The file cannot be read, or its content is not valid.
    """
    try:
        return [] if path is None else read_rules(path)
    except RuleFileError as error:
        raise click.UsageError(f"--faults {path}: {error}") from error


def refused_faults(path: Path | None, error: Exception) -> click.UsageError:
    """Return the usage error for fault rules that the cluster does not accept.

    Args:
        path: The file of --faults.
        error: The exception that the cluster has raised for the rules.
    """
    texts = by_number(getattr(error, "problems", ())) or [str(error)]
    return click.UsageError("\n".join(f"--faults {path}: {text}" for text in texts))


def check_extra(address: HttpAddress | None) -> None:
    """Check that the packages that the control API needs are installed; do nothing without an address.

    ``address``: address of the control API; None if --http was not given.

    Raises:
        click.ClickException: A package is missing.
    """
    if address is not None:
        try:
            import mockbroker.control.server  # noqa: F401 - late: needs the extra http
        except ModuleNotFoundError as error:
            raise click.ClickException(f"--http: {missing(error, 'http')}") from error


@asynccontextmanager
async def control_api(
    cluster: Cluster,
    settings: Settings,
    address: HttpAddress | None,
    kind: str = "mock",
    capabilities: tuple[str, ...] | None = None,
) -> AsyncIterator[str | None]:
    """Serve the control API during an ``async with`` block, and yield its base URL.

    Args:
        cluster: The cluster to observe and control.
        settings: The settings of the brokers.
        address: The address to listen at; None to serve no control API and yield None.
        kind: Kind of the server, ``mock`` or ``proxy``.
        capabilities: Names of the optional features that the server supports; None for all.
    """
    if address is None:
        yield None
        return
    from mockbroker.control.server import serving

    try:
        sock = listen(address.host, address.port)
    except OSError as error:
        fail(
            f"--http: cannot listen on {address.host}:{address.port}: {error.strerror or error}; "
            "choose another port (0 picks a free one) or another address"
        )
    async with serving(cluster, settings, address.host, sock, address.token, address.names) as server:
        server.control.kind = kind
        if capabilities is not None:
            server.control.capabilities = capabilities
        click.echo(f"control API {server.url}", err=True)
        yield server.url
