"""The command ``mockbroker serve``: runs a cluster until it receives a signal."""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import trio

from mockbroker.api.clock import Clock
from mockbroker.api.cluster import Cluster, open_cluster
from mockbroker.api.open_listeners import PortInUseError
from mockbroker.api.plan import CLOCKS, MANUAL, MAX_NODE_ID
from mockbroker.base.errors import ConflictError, FaultRuleError
from mockbroker.base.release import KAFKA_4_2, RELEASES
from mockbroker.base.settings import Settings, SettingsError, read_properties
from mockbroker.cli.completion import setting_names
from mockbroker.cli.end_signals import end_signals
from mockbroker.cli.garbage_collection import limit_garbage_collection
from mockbroker.cli.http_address import http_address
from mockbroker.cli.ready_file import check_ready_file, write_ready_file
from mockbroker.cli.server_options import (
    EVENTS_IN_MEMORY,
    check_extra,
    control_api,
    fail,
    faults_option,
    host_option,
    http_options,
    read_faults,
    ready_file_option,
    refused_faults,
)
from mockbroker.cli.stdin import wait_end
from mockbroker.net.addresses import is_loopback
from mockbroker.net.listeners import of_settings, users_of
from mockbroker.net.open_files import raise_open_files_limit
from mockbroker.storage.disk import DataDirError

if TYPE_CHECKING:
    from mockbroker.api.names import ClockMode

HOST = r"(?=.*[A-Za-z_])[A-Za-z0-9_.-]+"
USERS_VARIABLE = "MOCKBROKER_USERS"
MECHANISMS, ADVERTISED = "sasl.enabled.mechanisms", "advertised.listeners"
log = logging.getLogger("mockbroker")


@click.command("serve")
@host_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    help="Port of broker 0; broker n listens on port + n. 0 picks free ports.",
)
@click.option(
    "--advertise",
    metavar="HOST",
    help="Host that clients connect to, if it is not --host. Ports are those of the listeners; the setting "
    "advertised.listeners can change them too.",
)
@click.option("--brokers", type=click.IntRange(1, 1000), default=1, show_default=True, help="Number of brokers.")
@click.option(
    "--first-broker-id",
    type=click.IntRange(0, MAX_NODE_ID - 1000),
    help="Id of the first broker; the others follow.  [default: the setting node.id, or 0]",
)
@click.option("--topic", "topics", multiple=True, metavar="NAME[:PARTITIONS]", help="Create a topic. Repeatable.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=setting_names,
    help="Set a broker setting, by Kafka's name. Repeatable.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Properties file of broker settings, such as server.properties of a Kafka broker. --set takes precedence.",
)
@click.option(
    "--listener",
    "listeners",
    multiple=True,
    metavar="NAME[://:PORT]",
    help="A listener, as in Kafka's setting listeners: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. The first one is at "
    "--port, further ones without a port use the ports after it. Repeatable.",
)
@click.option(
    "--tls",
    type=click.Choice(["auto"]),
    help="Create certificates and print their paths. Without --listener, --port uses TLS.",
)
@click.option(
    "--sasl", metavar="MECHANISM,...", help="Enabled SASL mechanisms (Kafka's setting sasl.enabled.mechanisms)."
)
@click.option(
    "--user",
    "users",
    multiple=True,
    metavar="NAME:PASSWORD",
    help="A SASL user; visible in the process list, unlike --users-file and MOCKBROKER_USERS. Repeatable.",
)
@click.option(
    "--users-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of SASL users, one NAME:PASSWORD per line. In the environment: MOCKBROKER_USERS=NAME:PASSWORD,...",
)
@click.option(
    "--as-version",
    type=click.Choice(list(RELEASES)),
    default=KAFKA_4_2.name,
    show_default=True,
    help="Kafka release to emulate.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=str),
    metavar="DIR",
    help="Keep topics, records, groups and transactions in this directory across restarts.",
)
@click.option(
    "--clock",
    type=click.Choice(CLOCKS),
    default="real",
    show_default=True,
    help="manual: the clock is stopped, and controlled by lines on stdin: advance SECONDS, stop, resume, now.",
)
@click.option(
    "--journal",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append group events to this file, one JSON object per line.",
)
@http_options
@faults_option
@click.option(
    "--demo",
    "with_demo",
    is_flag=True,
    help="Produce records and consume them with three members that come and go, for the live page. Adds the topic "
    "orders; implies --http 0.",
)
@ready_file_option
@click.option(
    "--stop-on-stdin-eof",
    is_flag=True,
    help="Stop when stdin ends, as when stdin is a pipe of the parent process and that process ends.",
)
def command(
    host: str,
    port: int,
    advertise: str | None,
    brokers: int,
    first_broker_id: int | None,
    topics: tuple[str, ...],
    settings: tuple[str, ...],
    config: Path | None,
    listeners: tuple[str, ...],
    tls: str | None,
    sasl: str | None,
    users: tuple[str, ...],
    users_file: Path | None,
    as_version: str,
    data_dir: str | None,
    clock: ClockMode,
    journal: Path | None,
    http: str | None,
    http_hosts: tuple[str, ...],
    http_token_file: Path | None,
    faults_file: Path | None,
    with_demo: bool,
    ready_file: Path | None,
    stop_on_stdin_eof: bool,
) -> None:
    """Run a cluster until SIGTERM, SIGINT or SIGHUP; a second signal ends it immediately.

    Prints "ready bootstrap.servers=HOST:PORT,..." when it accepts connections. Settings have Kafka's names and
    defaults. For fast tests use --set group.initial.rebalance.delay.ms=0
    """
    if port and port + brokers - 1 > 65535:
        raise click.UsageError(f"--port {port} is too high for {brokers} brokers: the highest is {65_536 - brokers}")
    broker_settings = _read_config(config) | _parse_settings(settings)
    passwords = _environment_users() | _read_users(users_file) | _parse_users(users)
    broker_settings |= _security(broker_settings, listeners, tls is not None, sasl, bool(passwords))
    broker_settings |= _advertised(advertise, broker_settings, bool(passwords))
    check_ready_file(ready_file)
    partitions = _parse_topics(topics, Settings.parse(broker_settings).num_partitions)
    _warn_unauthenticated(host, broker_settings)
    demo = None
    if with_demo:
        from mockbroker.cli.serve_demo import prepare  # on demand: it needs the consumer

        demo, http = prepare(clock, broker_settings, partitions), http or "0"
    address = http_address(http, http_hosts, http_token_file)
    check_extra(address)
    faults = read_faults(faults_file)
    with ExitStack() as stack:
        events_to = _journal_file(journal, stack)

        async def run() -> None:
            async with open_cluster(
                host=host,
                port=port,
                brokers=brokers,
                first_node=first_broker_id,
                topics=partitions,
                config=broker_settings,
                as_version=as_version,
                users=passwords,
                data_dir=data_dir,
                clock=clock,
                faults=faults,
            ) as cluster:
                cluster.journal.max_events = EVENTS_IN_MEMORY
                events_to(cluster)
                limit_garbage_collection()
                raise_open_files_limit()
                async with control_api(cluster, Settings.parse(broker_settings), address) as url:
                    run_demo = None
                    if demo is not None:
                        data = str(data_dir or "in memory (--data-dir keeps it)")
                        run_demo = partial(demo.run, cluster, as_version, data, str(url))
                    await _until_signal(cluster, clock, url, ready_file, run_demo, stop_on_stdin_eof)

        try:
            trio.run(run)
        except SettingsError as error:
            raise click.UsageError(str(error)) from error
        except (FaultRuleError, ConflictError) as error:  # of --faults
            raise refused_faults(faults_file, error) from error
        except (PortInUseError, DataDirError) as error:
            fail(str(error))


async def _until_signal(
    cluster: Cluster,
    clock: ClockMode,
    url: str | None,
    ready_file: Path | None,
    run_demo: Callable[[], Awaitable[None]] | None,
    stop_on_stdin_eof: bool,
) -> None:
    """Report that the cluster is ready, and run it until the first signal.

    Args:
        cluster: The cluster.
        clock: Value of --clock.
        url: Base URL of the control API; None if it is not served.
        ready_file: Value of --ready-file; None without the option.
        run_demo: Clients of --demo; None without the option.
        stop_on_stdin_eof: Whether the end of stdin also ends the cluster.
    """
    with trio.open_signal_receiver(*end_signals()) as signals:
        try:
            _announce(cluster, ready_file, url)
        except OSError as error:
            target = ready_file if error.filename else "stdout"
            fail(f"cannot report that the cluster is ready: cannot write {target}: {error.strerror}")
        async with trio.open_nursery() as nursery:
            if run_demo is not None:
                nursery.start_soon(run_demo)
            if stop_on_stdin_eof:
                nursery.start_soon(_cancel_at_end_of_stdin, nursery.cancel_scope, cluster.clock, clock)
            elif clock == MANUAL:
                nursery.start_soon(_run_clock_commands, cluster.clock)
            await anext(signals)
            nursery.cancel_scope.cancel()
    for number in end_signals():
        signal.signal(number, signal.SIG_DFL)  # a second signal ends the process at once


async def _cancel_at_end_of_stdin(scope: trio.CancelScope, clock: Clock, mode: str) -> None:
    """Wait until stdin ends, and then cancel ``scope``.

    With a manual clock, run each line of stdin as a clock command before the end.

    Args:
        scope: Cancel scope of the cluster; its cancellation stops the brokers.
        clock: The broker's clock.
        mode: Value of --clock.
    """
    await (_run_clock_commands(clock) if mode == MANUAL else wait_end())
    scope.cancel()


async def _run_clock_commands(clock: Clock) -> None:
    """Run each line of stdin as a clock command, until stdin ends."""
    from mockbroker.cli.clock_lines import run_commands  # on demand: the clock is seldom manual

    await run_commands(clock)


def _warn_unauthenticated(host: str, broker_settings: Mapping[str, str]) -> None:
    """Log a warning if clients on other machines can connect without authentication.

    Args:
        host: Value of --host, the address that the listeners are bound to.
        broker_settings: The broker settings of the cluster.
    """
    settings = Settings.parse(broker_settings)
    is_open = [each.name for each in of_settings(settings) if not each.sasl]
    if is_loopback(host) or not is_open or settings.ssl_client_auth == "required":
        return
    log.warning(
        "listening on %s without authentication (%s): any client that reaches it may read, write and delete; "
        "use --users-file, or --host 127.0.0.1",
        host or "all addresses",
        ", ".join(is_open),
    )


def _read_config(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        with path.open(encoding="utf-8-sig") as file:
            properties = read_properties(file)
        Settings.parse(properties)
    except (OSError, UnicodeDecodeError, SettingsError) as error:
        fail(f"--config {path}: {_file_problem(error)}")
    return properties


def _file_problem(error: Exception) -> str:
    """Return why a text file cannot be used, for an error message. ``error``: the exception from reading the file."""
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8: {error.reason} at byte {error.start}"
    return f"cannot read the file: {error.strerror}" if isinstance(error, OSError) else str(error)


def _parse_settings(arguments: Iterable[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for text in arguments:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--set {text}: expected KEY=VALUE")
        values[name.strip()] = value
    try:
        Settings.parse(values)
    except SettingsError as error:
        raise click.UsageError(f"--set has an invalid value: {error}") from error
    return values


def _parse_users(arguments: Iterable[str]) -> dict[str, str]:
    passwords: dict[str, str] = {}
    for text in arguments:
        name, colon, password = text.partition(":")
        if not (name and colon and password):
            raise click.UsageError("--user has an invalid value: expected NAME:PASSWORD")
        if name in passwords:
            raise click.UsageError(f"--user has an invalid value: duplicate user {name}")
        passwords[name] = password
    return passwords


def _read_users(path: Path | None) -> dict[str, str]:
    """Return the passwords by user name from a file with one NAME:PASSWORD per line.

    Empty lines, and lines that begin with ``#``, are ignored.

    ``path``: value of --users-file; None if it was not given, for no users.

    Raises:
        click.UsageError: The file cannot be read, or a line is malformed or repeats a user.
    """
    passwords: dict[str, str] = {}
    try:
        lines = path.read_text("utf-8-sig").splitlines() if path else []
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--users-file {path}: {_file_problem(error)}") from error
    for number, line in enumerate(lines, 1):
        name, _, password = line.strip().partition(":")
        if not line.strip() or line.startswith("#"):
            continue
        if not (name and password) or name in passwords:
            # the message does not quote the line, which may contain a password
            problem = f"duplicate user {name}" if name in passwords else "expected NAME:PASSWORD"
            raise click.UsageError(f"--users-file {path}: line {number}: {problem}")
        passwords[name] = password
    return passwords


def _environment_users() -> dict[str, str]:
    """Return the passwords by user name from the environment variable MOCKBROKER_USERS; empty if it is not set.

    Raises:
        click.UsageError: The value of the variable is malformed or contains a user twice.
    """
    try:
        return users_of(os.environ.get(USERS_VARIABLE, ""))
    except SettingsError as error:
        raise click.UsageError(
            f"{USERS_VARIABLE} has an invalid value: {str(error).removeprefix('mockbroker.users: ')}"
        ) from error


def _security(
    given: Mapping[str, str], listeners: Iterable[str], tls: bool, sasl: str | None, users: bool
) -> dict[str, str]:
    """Return the broker settings that result from the options --listener, --tls and --sasl.

    Args:
        given: the broker settings from the other options.
        listeners: values of --listener.
        tls: whether --tls was given.
        sasl: value of --sasl; None if it was not given.
        users: whether SASL users are configured.

    Raises:
        click.UsageError: A listener or a mechanism is not valid, or --tls conflicts with other settings.
    """
    settings = {} if sasl is None else {MECHANISMS: _mechanisms(sasl)}
    value = ",".join(listeners) or given.get("listeners", "")
    if not value:
        users = users or sasl is not None or "mockbroker.users" in given
        value = {(False, False): "", (True, False): "SSL", (False, True): "SASL_PLAINTEXT", (True, True): "SASL_SSL"}[
            tls, users
        ]
    if value:
        settings["listeners"] = value
    try:
        parsed = of_settings(Settings.parse({**given, **settings}))
    except SettingsError as error:
        text = str(error)
        raise click.UsageError(text.replace("listeners:", "--listener:", 1) if listeners else text) from error
    if tls and given.get("ssl.keystore.location"):
        raise click.UsageError(
            "--tls auto conflicts with ssl.keystore.location, which already names certificates: remove one of them"
        )
    if tls and not any(listener.tls for listener in parsed):
        raise click.UsageError("--tls: no listener uses TLS; add --listener SSL or --listener SASL_SSL")
    if (sasl is not None or users) and not any(listener.sasl for listener in parsed):
        log.warning("SASL users and mechanisms have no effect: no listener uses SASL; add --listener SASL_PLAINTEXT")
    return settings


def _advertised(host: str | None, given: Mapping[str, str], users: bool) -> dict[str, str]:
    """Return the broker settings that result from the option --advertise; empty without the option.

    Args:
        host: value of --advertise; None if it was not given.
        given: the broker settings from the other options.
        users: whether SASL users are configured.

    Raises:
        click.UsageError: The host is not valid, or ``given`` already has advertised listeners.
    """
    if host is None:
        return {}
    if given.get(ADVERTISED):
        raise click.UsageError(f"--advertise conflicts with {ADVERTISED}, which names hosts too: remove one of them")
    if not re.fullmatch(HOST, host) and not _is_address(host):
        raise click.UsageError(f"--advertise {host}: expected a host name or an IP address, without a port")
    listeners = of_settings(Settings.parse(given), users=users)
    return {ADVERTISED: ",".join(f"{listener.name}://{host}:0" for listener in listeners)}


def _is_address(host: str) -> bool:
    from ipaddress import ip_address  # on demand: only --advertise needs it

    try:
        return not ip_address(host).is_unspecified  # no client can connect to 0.0.0.0 or ::
    except ValueError:
        return False


def _mechanisms(text: str) -> str:
    try:
        return Settings.parse({MECHANISMS: text}).sasl_enabled_mechanisms
    except SettingsError as error:
        raise click.UsageError(f"--sasl has an invalid value: {str(error).removeprefix(f'{MECHANISMS}: ')}") from error


def _parse_topics(arguments: Iterable[str], default: int) -> dict[str, int]:
    topics: dict[str, int] = {}
    for text in arguments:
        name, colon, partitions = text.partition(":")
        if colon and not partitions.isdecimal():
            raise click.UsageError(f"--topic {text}: expected NAME or NAME:PARTITIONS")
        if name in topics:
            raise click.UsageError(f"--topic {name}: duplicate topic: name each topic once")
        topics[name] = int(partitions) if colon else default
    return topics


def _journal_file(path: Path | None, stack: ExitStack) -> Callable[[Cluster], None]:
    """Open the file of --journal, and return the function that makes a cluster write its events to the file.

    Args:
        path: path of the file; None without --journal: the returned function then does nothing.
        stack: the stack that closes the file.

    Raises:
        click.UsageError: The file cannot be opened.
    """
    if path is None:
        return lambda _: None
    from mockbroker.cli.journal_file import open_journal, write_journal  # on demand: few runs have a journal

    file = stack.enter_context(open_journal(path))
    return lambda cluster: write_journal(cluster.journal, cluster.clock.wall() - cluster.clock.now(), file)


def _announce(cluster: Cluster, ready_file: Path | None, url: str | None) -> None:
    details: dict[str, object] = {}
    if len(cluster.listeners) > 1:
        details["listeners"] = cluster.listeners
        for name, servers in cluster.listeners.items():
            click.echo(f"listener {name} {servers}", err=True)
    if (ca := cluster.tls.ca) and (client := cluster.tls.client):
        details["tls"] = {"ca": str(ca), "client": str(client)}
        click.echo(f"CA certificate {ca}, key and certificate for clients {client}", err=True)
    click.echo(f"ready bootstrap.servers={cluster.bootstrap_servers}")
    write_ready_file(ready_file, {"bootstrap_servers": cluster.bootstrap_servers, "http": url, **details})
