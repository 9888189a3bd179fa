"""``mockbroker serve``: a cluster that runs until it is told to stop."""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import click
import trio

from mockbroker.api.cluster import Cluster, open_cluster
from mockbroker.api.open_listeners import PortInUseError
from mockbroker.api.plan import CLOCKS, MANUAL
from mockbroker.base.release import KAFKA_4_2, RELEASES
from mockbroker.base.settings import Settings, SettingsError, read_properties
from mockbroker.broker.journal import Event
from mockbroker.cli.clock_lines import obey
from mockbroker.net.addresses import is_loopback
from mockbroker.net.listeners import of_settings, users_of
from mockbroker.storage.disk import DataDirError

# Objects, then collections of the young and of the middle ones: one of the young takes 1 ms, of the middle ones 10,
# and of all more than 100 where a cluster has 50,000 partitions: that happens once in 50 million new objects.
COLLECT_AFTER = (10_000, 5, 1_000)
USERS_VARIABLE = "MOCKBROKER_USERS"
MECHANISMS = "sasl.enabled.mechanisms"
KEPT = 1_000  # events in memory: they go to the file, and a broker may serve for weeks
log = logging.getLogger("mockbroker")


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    help="Port of broker 0; broker n listens on port + n. 0 picks free ones.",
)
@click.option("--brokers", type=click.IntRange(1, 1000), default=1, show_default=True, help="How many brokers.")
@click.option("--topic", "topics", multiple=True, metavar="NAME[:PARTITIONS]", help="A topic that is there at once.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting, by Kafka's name.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of settings, KEY=VALUE a line; --set wins over it.",
)
@click.option(
    "--listener",
    "listeners",
    multiple=True,
    metavar="NAME[://:PORT]",
    help="One way in, as in Kafka's setting listeners: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. The first is at "
    "--port, those without a port of their own behind it.",
)
@click.option(
    "--tls",
    type=click.Choice(["auto"]),
    help="Make certificates, and say where they are. Without --listener, TLS is spoken at --port.",
)
@click.option("--sasl", metavar="MECHANISM,...", help="Kafka's setting sasl.enabled.mechanisms.")
@click.option(
    "--user",
    "users",
    multiple=True,
    metavar="NAME:PASSWORD",
    help="A user for SASL, visible in the process list; --users-file and MOCKBROKER_USERS are not.",
)
@click.option(
    "--users-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The same in a file, NAME:PASSWORD a line. In the environment: MOCKBROKER_USERS=NAME:PASSWORD,...",
)
@click.option(
    "--as-version",
    type=click.Choice(list(RELEASES)),
    default=KAFKA_4_2.name,
    show_default=True,
    help="Kafka to be like.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep topics and records in this folder, and have them again at the next start.",
)
@click.option(
    "--clock",
    type=click.Choice(CLOCKS),
    default="real",
    show_default=True,
    help="manual: time stands still, and goes by lines on stdin: advance SECONDS, stop, resume, now.",
)
@click.option(
    "--journal",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append what happens in the groups to this file, a JSON object a line.",
)
@click.option(
    "--ready-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write address and process id to this file once connections are accepted.",
)
def command(
    host: str,
    port: int,
    brokers: int,
    topics: tuple[str, ...],
    settings: tuple[str, ...],
    config: Path | None,
    listeners: tuple[str, ...],
    tls: str | None,
    sasl: str | None,
    users: tuple[str, ...],
    users_file: Path | None,
    as_version: str,
    data_dir: Path | None,
    clock: str,
    journal: Path | None,
    ready_file: Path | None,
) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP; a second one ends it at once.

    Prints "ready bootstrap.servers=HOST:PORT,..." when it accepts connections. Settings have Kafka's names and
    defaults; for quick tests: --set group.initial.rebalance.delay.ms=0
    """
    if port and port + brokers - 1 > 65535:
        raise click.UsageError(f"--port {port} leaves no room for {brokers} brokers")
    given = _read_config(config) | _parse_settings(settings)
    passwords = _environment_users() | _read_users(users_file) | _parse_users(users)
    given |= _security(given, listeners, tls is not None, sasl, bool(passwords))
    if ready_file is not None and not ready_file.absolute().parent.is_dir():
        raise click.UsageError(f"--ready-file {ready_file}: there is no such directory")
    known = _parse_topics(topics, Settings.parse(given).num_partitions)
    _warn_of_strangers(host, given)
    with ExitStack() as stack:
        file = stack.enter_context(_open_journal(journal)) if journal else None

        async def run() -> None:
            async with open_cluster(
                host=host,
                port=port,
                brokers=brokers,
                topics=known,
                config=given,
                as_version=as_version,
                users=passwords,
                data_dir=data_dir,
                clock=clock,
            ) as cluster:
                cluster.journal.most = KEPT
                if file is not None:
                    _keep_journal(cluster, file)
                _collect_rarely()
                with trio.open_signal_receiver(*_ending()) as signals:
                    try:
                        _announce(cluster, ready_file)
                    except OSError as error:
                        _fail(f"cannot tell that it is ready: {error}")
                    async with trio.open_nursery() as nursery:
                        if clock == MANUAL:
                            nursery.start_soon(obey, cluster.clock)
                        await anext(signals)
                        nursery.cancel_scope.cancel()
                for number in _ending():
                    signal.signal(number, signal.SIG_DFL)  # whoever does not want to wait for the end need not

        try:
            trio.run(run)
        except SettingsError as error:
            raise click.UsageError(str(error)) from error
        except (PortInUseError, DataDirError) as error:
            _fail(str(error))


def _warn_of_strangers(host: str, given: Mapping[str, str]) -> None:
    """Other machines can connect, and nothing asks them for a password or a certificate."""
    settings = Settings.parse(given)
    is_open = [each.name for each in of_settings(settings) if not each.sasl]
    if is_loopback(host) or not is_open or settings.ssl_client_auth == "required":
        return
    log.warning(
        "listening on %s without authentication (%s): any client that reaches it may read, write and delete; "
        "use --users-file, or --host 127.0.0.1",
        host or "all addresses",
        ", ".join(is_open),
    )


def _ending() -> list[signal.Signals]:
    """Signals that end it. Who has it run without a terminal, as nohup, has SIGHUP ignored, and so it stays."""
    wanted = [signal.SIGTERM, signal.SIGINT]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        wanted.append(signal.SIGHUP)
    return wanted


def _collect_rarely() -> None:
    """What a broker keeps, as records and the latest requests, has no cycles, and looking for them takes time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


def _fail(problem: str) -> None:
    click.echo(f"mockbroker: error: {problem}", err=True)
    sys.exit(1)


def _read_config(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        with path.open(encoding="utf-8") as file:
            found = read_properties(file)
        Settings.parse(found)
    except (OSError, UnicodeDecodeError, SettingsError) as error:
        _fail(f"{path}: {error}")
        raise AssertionError from error
    return found


def _parse_settings(given: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--set {text}: expected KEY=VALUE")
        found[name.strip()] = value
    try:
        Settings.parse(found)
    except SettingsError as error:
        raise click.UsageError(f"--set: {error}") from error
    return found


def _parse_users(given: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, colon, password = text.partition(":")
        if not (name and colon and password):
            raise click.UsageError("--user: expected NAME:PASSWORD")
        found[name] = password
    return found


def _read_users(path: Path | None) -> dict[str, str]:
    """Passwords by user, of a file with a user a line; ``#`` begins a comment."""
    found: dict[str, str] = {}
    try:
        lines = path.read_text("utf-8").splitlines() if path else []
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--users-file {path}: {error}") from error
    for number, line in enumerate(lines, 1):
        name, _, password = line.strip().partition(":")
        if not line.strip() or line.startswith("#"):
            continue
        if not (name and password) or name in found:  # what stands there may be a password
            what = f"{name} has a password already" if name in found else "expected NAME:PASSWORD"
            raise click.UsageError(f"--users-file {path}: line {number}: {what}")
        found[name] = password
    return found


def _environment_users() -> dict[str, str]:
    """Passwords by user, of the environment."""
    try:
        return users_of(os.environ.get(USERS_VARIABLE, ""))
    except SettingsError as error:
        raise click.UsageError(f"{USERS_VARIABLE}: {str(error).removeprefix('users: ')}") from error


def _security(
    given: Mapping[str, str], listeners: Iterable[str], tls: bool, sasl: str | None, users: bool
) -> dict[str, str]:
    """What the flags for listeners say, as settings."""
    found = {} if sasl is None else {MECHANISMS: _mechanisms(sasl)}
    named = ",".join(listeners) or given.get("listeners", "")
    if not named:
        users = users or sasl is not None or "mockbroker.users" in given
        named = {(False, False): "", (True, False): "SSL", (False, True): "SASL_PLAINTEXT", (True, True): "SASL_SSL"}[
            tls, users
        ]
    if named:
        found["listeners"] = named
    try:
        spoken = of_settings(Settings.parse({**given, **found}))
    except SettingsError as error:
        text = str(error)
        raise click.UsageError(text.replace("listeners:", "--listener:", 1) if listeners else text) from error
    if tls and given.get("ssl.keystore.location"):
        raise click.UsageError("--tls auto: ssl.keystore.location has certificates already")
    if tls and not any(listener.tls for listener in spoken):
        raise click.UsageError("--tls: none of the listeners has it; add --listener SSL or --listener SASL_SSL")
    return found


def _mechanisms(text: str) -> str:
    try:
        return Settings.parse({MECHANISMS: text}).sasl_enabled_mechanisms
    except SettingsError as error:
        raise click.UsageError(f"--sasl: {str(error).removeprefix(f'{MECHANISMS}: ')}") from error


def _parse_topics(given: Iterable[str], default: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in given:
        name, colon, partitions = text.partition(":")
        if colon and not partitions.isdecimal():
            raise click.UsageError(f"--topic {text}: expected NAME or NAME:PARTITIONS")
        if name in found:
            raise click.UsageError(f"--topic {name}: given twice")
        found[name] = int(partitions) if colon else default
    return found


def _open_journal(path: Path) -> TextIO:
    try:
        return path.open("a", encoding="utf-8", buffering=1)
    except OSError as error:
        raise click.UsageError(f"--journal {path}: {error.strerror}") from error


def _keep_journal(cluster: Cluster, file: TextIO) -> None:
    """Write each event as it happens; ``time`` is that of the broker, the rest as in ``Event.to_json``."""
    journal, began = cluster.journal, cluster.clock.wall() - cluster.clock.now()

    def write(event: Event) -> None:
        stamp = datetime.fromtimestamp(began + event.time_ms / 1000, UTC).isoformat(timespec="milliseconds")
        try:
            file.write(json.dumps({"time": stamp} | event.to_json()) + "\n")
        except OSError as error:
            log.error("the journal ends here: %s", error)
            journal.listeners.remove(write)
            with suppress(OSError):  # the rest of what it holds cannot be written either
                file.close()

    listener: Callable[[Event], None] = write
    journal.listeners.append(listener)


def _announce(cluster: Cluster, ready_file: Path | None) -> None:
    more: dict[str, object] = {}
    if len(cluster.listeners) > 1:
        more["listeners"] = cluster.listeners
        for name, servers in cluster.listeners.items():
            click.echo(f"listener {name} {servers}", err=True)
    if (ca := cluster.tls.ca) and (client := cluster.tls.client):
        more["tls"] = {"ca": str(ca), "client": str(client)}
        click.echo(f"CA certificate {ca}, key and certificate for clients {client}", err=True)
    click.echo(f"ready bootstrap.servers={cluster.bootstrap_servers}")
    if ready_file is not None:
        content = {"bootstrap_servers": cluster.bootstrap_servers, "http": None, "pid": os.getpid()} | more
        beside = ready_file.with_name(f".{ready_file.name}.{os.getpid()}")
        beside.write_text(json.dumps(content) + "\n", encoding="utf-8")
        beside.replace(ready_file)
