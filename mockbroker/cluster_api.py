"""Clusters from Python: ``open_cluster`` in trio, ``run_cluster`` anywhere else."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from socket import socket
from uuid import uuid4

import trio

from mockbroker.broker import Broker
from mockbroker.cluster.model import Node, legal_topic_name
from mockbroker.journal import Event, Journal
from mockbroker.release import KAFKA_4_2, RELEASES
from mockbroker.router import Router
from mockbroker.server import Server, listen
from mockbroker.settings import Settings, SettingsError

ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - what clients are told instead

LAST_PORT = 65_535


class PortInUseError(OSError):
    """A listener could not be opened; says which port, and how to choose another."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster."""

    nodes: tuple[Node, ...]
    journal: Journal

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of every broker, with commas between."""
        return ",".join(f"{_bracketed(node.host)}:{node.port}" for node in self.nodes)

    def events(self) -> list[Event]:
        """What happened in the groups so far."""
        return list(self.journal.events)


@asynccontextmanager
async def open_cluster(
    *,
    brokers: int = 1,
    topics: Mapping[str, int] | None = None,
    config: Mapping[str, object] | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    as_version: str = KAFKA_4_2.name,
    first_node: int = 0,
) -> AsyncIterator[Cluster]:
    """A cluster that lives as long as the block.

    ``topics``: name to number of partitions; ``config``: Kafka's names; ``port``: of broker 0, broker n listens on
    port + n, and 0 picks free ones; ``as_version``: the release
    of Kafka to be like; ``first_node``: id of the first broker. Raises: SettingsError, PortInUseError.
    """
    settings = Settings.parse(config or {})
    if brokers < 1:
        raise SettingsError(f"brokers: {brokers} is less than 1")
    if settings.default_replication_factor > brokers:
        raise SettingsError(f"default.replication.factor: {settings.default_replication_factor} on {brokers} brokers")
    if as_version not in RELEASES:
        raise SettingsError(f"as_version: {as_version} is not one of {', '.join(RELEASES)}")
    if not 0 <= port <= LAST_PORT or (port and port + brokers - 1 > LAST_PORT):
        raise SettingsError(f"port: {port} for {brokers} brokers is not within 0 to {LAST_PORT}")
    _check_topics(topics or {})
    listeners = _listeners(host, port, brokers)
    numbered = list(enumerate(listeners, first_node))
    told = ANYWHERE.get(host, host)
    nodes = tuple(Node(number, told, listener.getsockname()[1]) for number, listener in numbered)
    broker = Broker(list(nodes), settings, uuid4, RELEASES[as_version])
    for name, partitions in (topics or {}).items():
        replicas = broker.cluster.place(partitions, settings.default_replication_factor)
        broker.cluster.create_topic(name, replicas)
    journal = Journal(trio.current_time())
    broker.schedule_sweep(trio.current_time())
    server = Server(Router(broker, journal), numbered)
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        try:
            yield Cluster(nodes, journal)
        except BaseException as error:  # kept, or the nursery would wrap it in a group
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


@contextmanager
def run_cluster(
    *,
    brokers: int = 1,
    topics: Mapping[str, int] | None = None,
    config: Mapping[str, object] | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    as_version: str = KAFKA_4_2.name,
) -> Iterator[Cluster]:
    """The same in a thread of its own, for code that does not use trio."""
    ready: SimpleQueue[tuple[Cluster, trio.lowlevel.TrioToken, trio.CancelScope] | BaseException] = SimpleQueue()

    async def serve() -> None:
        with trio.CancelScope() as scope:
            async with open_cluster(
                brokers=brokers, topics=topics, config=config, host=host, port=port, as_version=as_version
            ) as cluster:
                ready.put((cluster, trio.lowlevel.current_trio_token(), scope))
                await trio.sleep_forever()

    def run() -> None:
        try:
            trio.run(serve)
        except BaseException as error:
            ready.put(error)

    thread = threading.Thread(target=run, name="mockbroker", daemon=True)
    thread.start()
    outcome = ready.get()
    if isinstance(outcome, BaseException):
        thread.join()
        raise outcome
    cluster, token, scope = outcome
    try:
        yield cluster
    finally:
        with suppress(trio.RunFinishedError):  # it has failed, which is told below
            token.run_sync_soon(scope.cancel)
        thread.join()
        if not ready.empty():
            failure = ready.get()
            assert isinstance(failure, BaseException)
            raise failure


def _check_topics(topics: Mapping[str, int]) -> None:
    for name, partitions in topics.items():
        if not legal_topic_name(name):
            raise SettingsError(f"topic {name!r}: not a legal topic name")
        if not 0 < partitions <= 100_000:
            raise SettingsError(f"topic {name}: {partitions} partitions")


def _listeners(host: str, port: int, brokers: int) -> list[socket]:
    opened: list[socket] = []
    for number in range(brokers):
        wanted = port + number if port else 0
        try:
            opened.append(listen(host, wanted))
        except OSError as error:
            for listener in opened:
                listener.close()
            raise PortInUseError(
                f"cannot listen on {host}:{wanted}: {error.strerror or error}; "
                "choose another with --port (0 picks a free one) or --host"
            ) from error
    return opened


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
