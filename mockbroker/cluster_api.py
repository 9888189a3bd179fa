"""Clusters from trio: ``open_cluster``, and what can be asked of one from inside."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from socket import socket
from uuid import uuid4

import trio

from mockbroker import inside, snapshots
from mockbroker.broker import Broker
from mockbroker.cluster.model import Node
from mockbroker.inside import Record, Value
from mockbroker.journal import Event, Journal
from mockbroker.release import KAFKA_4_2, RELEASES
from mockbroker.request_log import Request
from mockbroker.router import Router
from mockbroker.server import Server, listen
from mockbroker.settings import Settings, SettingsError
from mockbroker.snapshots import GroupSnapshot
from mockbroker.waiting import Goal

ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - what clients are told instead
WAIT = 10.0  # seconds that wait_group gives a group: three real clients need one or two
LAST_PORT = 65_535


class PortInUseError(OSError):
    """A listener could not be opened; says which port, and how to choose another."""


class ClusterClosedError(RuntimeError):
    """The cluster is gone, or belongs to another test by now."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a cluster has at its start. Raises: SettingsError."""

    brokers: int
    settings: Settings
    topics: Mapping[str, int]
    as_version: str

    @classmethod
    def checked(
        cls, brokers: int, topics: Mapping[str, int] | None, config: Mapping[str, object] | None, as_version: str
    ) -> _Plan:
        settings = Settings.parse(config or {})
        if brokers < 1:
            raise SettingsError(f"brokers: {brokers} is less than 1")
        factor = settings.default_replication_factor
        if factor > brokers:
            raise SettingsError(f"default.replication.factor: {factor} on {brokers} brokers")
        if as_version not in RELEASES:
            raise SettingsError(f"as_version: {as_version} is not one of {', '.join(RELEASES)}")
        for name, partitions in (topics or {}).items():
            inside.check_topic(name, partitions)
        return cls(brokers, settings, dict(topics or {}), as_version)

    def broker(self, nodes: Iterable[Node]) -> Broker:
        """The start."""
        broker = Broker(list(nodes), self.settings, uuid4, RELEASES[self.as_version], time.time() - trio.current_time())
        for name, partitions in self.topics.items():
            inside.create_topic(broker, name, partitions)
        broker.groups.schedule_sweep(trio.current_time())
        return broker


class Cluster:
    """A running cluster, to be used in the trio run that opened it. ``life``: how often it started over."""

    def __init__(self, plan: _Plan, server: Server, host: str) -> None:
        self.life = 0
        self._plan = plan
        self._server = server
        self._router = server.router
        self._host = host
        self._waiting = trio.lowlevel.ParkingLot()
        self.journal.listeners.append(self._happened)

    def _happened(self, _: Event) -> None:
        self._waiting.unpark_all()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The brokers and where they listen."""
        return tuple(self._router.broker.cluster.nodes.values())

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of every broker, with commas between."""
        return ",".join(f"{_bracketed(node.host)}:{node.port}" for node in self.nodes)

    @property
    def journal(self) -> Journal:
        """Where listeners hear of events."""
        return self._router.journal

    def events(self) -> list[Event]:
        """What happened in the groups so far."""
        return list(self.journal.events)

    def requests(self, api: str | None = None) -> list[Request]:
        """What clients asked, oldest first; ``api``: only these, by Kafka's name. Raises: ValueError.

        Limits: the latest 10,000 requests, and of these the latest with 32 MiB.
        """
        return self._router.requests.of(api)

    def groups(self) -> dict[str, GroupSnapshot]:
        """Every group as it is now, by its id."""
        return snapshots.snapshots(self._router.broker)

    def committed(self, group_id: str) -> dict[tuple[str, int], int]:
        """The offsets of a group by topic and partition; none if there is no such group."""
        return snapshots.committed(self._router.broker, group_id)

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """A new topic. Raises: SettingsError if the name is taken or not legal."""
        inside.create_topic(self._router.broker, name, partitions)

    def produce(
        self,
        topic: str,
        records: Iterable[Value],
        *,
        partition: int | None = None,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp: int | None = None,
    ) -> list[int]:
        """Append to a topic and wake the consumers that wait for it; the offset of each record.

        ``records``: values, as bytes or text, which get the key, headers and timestamp (milliseconds since 1970, None
        for now) given here; or ``Record``s, which stay as they are. Without partition a key decides as in Kafka's
        producer, and values without one go to the partitions in turn, the first to 0.
        Raises: UnknownTopicError, and then nothing is written.
        """
        like = Record(key=key, headers=headers, timestamp=timestamp, partition=partition)
        given = inside.as_records(records, like)
        offsets, effects = inside.produce(self._router.broker, topic, given, round(time.time() * 1000))
        self._server.perform(effects)
        return offsets

    def records(self, topic: str, partition: int | None = None, *, committed: bool = False) -> list[Record]:
        """What is in a topic, or in one partition, by partition and offset. Raises: UnknownTopicError.

        ``committed``: only what a consumer with isolation level read_committed sees by now.
        """
        return inside.read(self._router.broker, topic, partition, committed=committed)

    async def wait_group(
        self, group_id: str, state: str | None = "Stable", members: int | None = None, timeout: float = WAIT
    ) -> GroupSnapshot:
        """Wait until a group is in a state and has so many members; the group as it then is. None is any.

        ``state``: Kafka's words: Stable, Empty, PreparingRebalance, CompletingRebalance, Dead; ``timeout``: seconds.
        Raises: WaitTimeoutError, an AssertionError that tells how things stand; ClusterClosedError.
        """
        goal = Goal(group_id, state, members)
        life = self.life
        with trio.move_on_after(timeout):
            while (found := goal.met(self._router.broker)) is None:
                await self._waiting.park()
                if self.life != life:
                    raise ClusterClosedError(f"the cluster started over while somebody waited for {goal}")
            return found
        raise goal.missed(self._router.broker, self.journal.events, timeout)

    def reset(self) -> None:
        """Back to the start: its topics, settings and addresses, and nothing that happened since.

        Connections are closed, with what waits on them; a client that comes back finds the new cluster.
        """
        self._server.restart(self._plan.broker(self.nodes))
        self._waiting.unpark_all()

    def start_over(self, topics: Mapping[str, int] | None, config: Mapping[str, object] | None) -> None:
        """Become another cluster, with other topics and settings at other ports: no client can follow.

        Raises: SettingsError, PortInUseError; then everything stays.
        """
        plan = _Plan.checked(len(self.nodes), topics, config, self._plan.as_version)
        numbered = list(
            zip((node.node_id for node in self.nodes), _listeners(self._host, 0, plan.brokers), strict=True)
        )
        self.life += 1
        self._plan = plan
        self._server.restart(plan.broker(_nodes(self._host, numbered)), numbered)
        self._waiting.unpark_all()


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
    port + n, and 0 picks free ones; ``as_version``: the release of Kafka to be like; ``first_node``: id of the first
    broker. Raises: SettingsError, PortInUseError.
    """
    plan = _Plan.checked(brokers, topics, config, as_version)
    if not 0 <= port <= LAST_PORT or (port and port + brokers - 1 > LAST_PORT):
        raise SettingsError(f"port: {port} for {brokers} brokers is not within 0 to {LAST_PORT}")
    numbered = list(enumerate(_listeners(host, port, brokers), first_node))
    router = Router(plan.broker(_nodes(host, numbered)), Journal(trio.current_time()))
    server = Server(router, numbered)
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        try:
            yield Cluster(plan, server, host)
        except BaseException as error:
            failure = error  # raised below as it is: the nursery is no business of the block
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


def _nodes(host: str, numbered: Iterable[tuple[int, socket]]) -> list[Node]:
    told = ANYWHERE.get(host, host)
    return [Node(number, told, listener.getsockname()[1]) for number, listener in numbered]


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
