"""Operations of a cluster, written once for all handles: ``Cluster`` in trio and ``ThreadCluster`` for any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

from mockbroker.api import records as inside
from mockbroker.api import snapshots
from mockbroker.api.records import Record, Value
from mockbroker.api.snapshots import GroupSnapshot
from mockbroker.broker import failover
from mockbroker.broker.journal import Event
from mockbroker.broker.request_log import Request
from mockbroker.broker.router import Router
from mockbroker.net.server import Server

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Handle:
    """An object whose operations run where the cluster is: here, unless a subclass sends them to another thread."""

    def _perform(self, call: Callable[[Any], T]) -> T:
        """Return what ``call`` returns for the object that has the cluster. Raises: what it raises."""
        return call(self)


def operation(method: F) -> F:
    """Make a method of a handle run where the cluster is; its ``self`` is the object there, such as the Cluster."""

    @wraps(method)
    def performed(self: Handle, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return self._perform(lambda there: method(there, *args, **kwargs))

    return cast("F", performed)


class ClusterOperations(Handle):
    """What can be asked of a cluster without waiting. To add an operation is to add a method here."""

    _router: Router
    _server: Server

    @operation
    def events(self) -> list[Event]:
        """What happened in the groups so far."""
        return list(self._router.journal.events)

    @operation
    def requests(self, api: str | None = None) -> list[Request]:
        """What clients asked, oldest first; ``api``: only these, by Kafka's name. Raises: ValueError.

        Limits: the latest 10,000 requests, and of these the latest with 32 MiB.
        """
        return self._router.requests.of(api)

    @operation
    def groups(self) -> dict[str, GroupSnapshot]:
        """Every group as it is now, by its id."""
        return snapshots.snapshots(self._router.broker)

    @operation
    def committed(self, group_id: str) -> dict[tuple[str, int], int]:
        """The offsets of a group by topic and partition; none if there is no such group."""
        return snapshots.committed(self._router.broker, group_id)

    @operation
    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None) -> None:
        """A new topic. ``config``: Kafka's names of topic configurations.

        Raises: SettingsError if the name is taken or not legal, or for a configuration that no topic can have.
        """
        inside.create_topic(self._router.broker, name, partitions, config)
        self._server.perform([])

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
        return self._append(topic, inside.as_records(records, like))

    @operation
    def _append(self, topic: str, records: Sequence[Record]) -> list[int]:
        now = self._router.broker.wall(self._server.clock.read())
        offsets, effects = inside.produce(self._router.broker, topic, records, round(now * 1000))
        self._server.perform(effects)
        return offsets

    @operation
    def records(self, topic: str, partition: int | None = None, *, committed: bool = False) -> list[Record]:
        """What is in a topic, or in one partition, by partition and offset. Raises: UnknownTopicError.

        ``committed``: only what a consumer with isolation level read_committed sees by now.
        """
        return inside.read(self._router.broker, topic, partition, committed=committed)

    # --- brokers that come and go ---

    @operation
    def coordinator(self, group_id: str) -> int:
        """Id of the broker that coordinates a group, whether there is such a group or not; -1 if none can."""
        return self._router.broker.coordinator(group_id)

    @operation
    def stop_broker(self, node: int) -> None:
        """A broker ends as it should: others take over what it leads, then its listeners and connections are closed.

        Raises: FailoverError if it does not run.
        """
        self._server.perform(failover.stop(self._router.broker, node, self._server.clock.read()))
        self._server.stop_broker(node, abruptly=False)

    @operation
    def kill_broker(self, node: int, noticed_after: float = 0.0) -> None:
        """A broker is gone: its connections are reset, what waited there is lost, and nobody was told.

        ``noticed_after``: seconds until others take over what it led, as Kafka's broker.session.timeout.ms; until then
        clients are sent to a broker that is not there. Raises: FailoverError if it does not run.
        """
        failover.check_runs(self._router.broker, node)
        self._server.stop_broker(node, abruptly=True)
        self._server.perform(failover.kill(self._router.broker, node, self._server.clock.read(), noticed_after))

    @operation
    def start_broker(self, node: int) -> None:
        """A broker that was stopped or killed is back, at its addresses. It leads only what nobody else does.

        Raises: FailoverError if it runs; PortInUseError.
        """
        broker = self._router.broker
        failover.check_ended(broker, node)
        self._come_back(node)
        self._server.perform(failover.start(broker, node, self._server.clock.read()))

    @operation
    def move_coordinator(self, group_id: str, node: int) -> None:
        """Another broker coordinates the group, and all others of its partition of the offsets topic.

        Who waits in them is told NOT_COORDINATOR. Raises: FailoverError if it cannot: it must run and be a replica.
        """
        self.move_leader(*self._router.broker.offsets_partition(group_id), node)

    @operation
    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Another broker leads a partition. Raises: FailoverError; UnknownTopicError."""
        broker = self._router.broker
        found = inside.partition(broker, topic, partition)
        self._server.perform(failover.move(broker, found, node, self._server.clock.read()))

    @operation
    def freeze_metadata(self, *nodes: int) -> None:
        """From now on these brokers tell of the cluster as it is at this moment: of brokers, leaders, coordinators."""
        broker = self._router.broker
        for node in nodes:
            broker.frozen[node] = broker.cluster.snapshot()

    @operation
    def thaw_metadata(self, *nodes: int) -> None:
        """These brokers, or all of them, know again what the others know."""
        broker = self._router.broker
        for node in nodes or list(broker.frozen):
            broker.frozen.pop(node, None)

    @operation
    def reset(self) -> None:
        """Back to the start: its topics, settings and addresses, and nothing that happened since.

        Connections are closed, with what waits on them; a client that comes back finds the new cluster. Raises:
        PortInUseError if a broker was stopped whose port somebody else has taken since; SettingsError with a data
        directory: nothing that is on disk is thrown away.
        """
        self._restart()

    def _come_back(self, node: int) -> None:
        raise NotImplementedError  # the cluster's own

    def _restart(self) -> None:
        raise NotImplementedError  # the cluster's own
