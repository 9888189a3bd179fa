"""The handle of a real cluster behind a proxy. The control API of ``mockbroker proxy`` uses the handle to read and
change the proxy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import cast
from uuid import uuid4

import trio

from mockbroker.api.clock import Clock
from mockbroker.api.cluster import Cluster
from mockbroker.api.connections import ConnectionSnapshot, OpenConnection, selected
from mockbroker.api.faults import Faults
from mockbroker.api.operations import operation
from mockbroker.base.errors import ConflictError
from mockbroker.base.settings import Settings
from mockbroker.faults.preset import Preset
from mockbroker.faults.presets import PRESETS
from mockbroker.faults.rule import Evict, Rule
from mockbroker.faults.sections import InvalidRule
from mockbroker.net.clock import BrokerTime
from mockbroker.net.server import Server
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.group_observer import GroupObserver
from mockbroker.proxy.interception import Channel, Interception
from mockbroker.proxy.observed_broker import ObservedBroker
from mockbroker.proxy.observer import Observer
from mockbroker.proxy.request_observer import RequestObserver

CAPABILITIES = ("connections", "events", "faults", "groups", "requests", "topics")


class NotThroughProxyError(ConflictError):
    """The error for an operation that a proxy cannot carry out on a real cluster."""


def observers(interception: Interception) -> list[Observer]:
    """Return the observers that derive groups, events and the request log from the traffic of a proxy.

    ``interception``: the interception layer of the proxy. Its control API shows the results of the observers.
    """
    router, now = interception.router, interception.clock.read
    groups = GroupObserver(interception.broker, router.journal, now, interception.reschedule)
    return [groups, RequestObserver(interception, now)]


def intercepted(settings: Settings, clock: BrokerTime, wall: float, listener: str = "PLAINTEXT") -> Interception:
    """Return the interception layer of a new proxy, without fault rules.

    Args:
        settings: Broker settings, which contain the limits on fault rules.
        clock: The clock of delays.
        wall: The current time in seconds since 1970.
        listener: Name of the listener.
    """
    broker = ObservedBroker(settings, uuid4, wall - clock.read())
    return Interception(broker, clock, listener)


class ProxyFaults(Faults):
    """The fault rules of a proxy. They work as in a mockbroker cluster, except for presets that change the cluster
    itself.
    """

    def presets(self) -> list[Preset]:
        """Return the presets that a proxy can apply: presets that consist of rules only."""
        return [preset for preset in PRESETS.values() if not preset.changes_cluster]

    def add_preset(self, preset: str, form: object, *, optional: bool = False) -> list[str]:
        """Apply a preset with parameters in JSON form; return the names of its rules.

        Args:
            preset: Name of the preset.
            form: The JSON object of the parameters.
            optional: Whether the preset's rules may remain unapplied without failing the test.

        Raises: NotThroughProxyError if the preset changes the cluster itself or evicts members; and the errors of
        ``preset``.
        """
        found = PRESETS.get(preset)
        if found is not None and found.changes_cluster:
            raise NotThroughProxyError(f"a proxy cannot apply the preset {preset}, which changes the cluster itself")
        return super().add_preset(preset, form, optional=optional)

    def _parsed(self, form: object, name: str = "") -> Rule:
        rule = super()._parsed(form, name)
        if isinstance(rule.action.effect, Evict):
            raise NotThroughProxyError("a proxy cannot evict members of a real cluster: use another action")
        return rule


class ProxiedCluster(Cluster):
    """The handle of a real cluster behind a proxy. The handle derives its state from the responses that pass the proxy.

    The inherited operations that change a cluster must not be called. The control API rejects requests for features
    that are not in ``CAPABILITIES``.

    Args:
        interception: The fault rules of the proxy, and the state of the cluster.
        bootstrap: Function that returns the address that clients are configured with.
    """

    def __init__(self, interception: Interception, bootstrap: Callable[[], Address]) -> None:
        self._interception = interception
        self._server = cast("Server", interception)  # it has the clock, the router and the connections
        self._router = interception.router
        self.clock = Clock(self._server)
        self._bootstrap = bootstrap
        self._waiting = trio.lowlevel.ParkingLot()
        self.journal.wakers.append(self._wake_waiters)

    @cached_property
    def faults(self) -> Faults:
        """The fault rules, which apply to the requests that pass the proxy."""
        return ProxyFaults(self._interception, self, self._interception.stage)

    def add_faults(self, rules: Sequence[object]) -> None:
        """Add initial fault rules.

        ``rules``: the rules as JSON objects.

        Raises: InvalidRule, RuleExists, TooManyRules, NotThroughProxyError.
        """
        for index, form in enumerate(rules):
            try:
                self.faults.add_rule(form)
            except InvalidRule as error:
                raise InvalidRule([problem.inside(f"faults[{index}]") for problem in error.problems]) from None

    @property
    def has_faults(self) -> bool:
        """Whether fault rules may exist; always True for a proxy."""
        return True

    @property
    def release_name(self) -> str:
        """A placeholder for the Kafka release, because a real cluster does not send its release to clients."""
        return "unknown"

    @property
    def bootstrap_servers(self) -> str:
        """The ``bootstrap.servers`` for clients: the address of the proxy."""
        return str(self._bootstrap())

    @property
    def listeners(self) -> dict[str, str]:
        """The ``bootstrap.servers`` by listener name."""
        return {self._interception.listener: self.bootstrap_servers}

    @operation
    def connections(self) -> dict[int, ConnectionSnapshot]:
        """Return a snapshot of every open connection of a client, by its number, oldest first."""
        return {number: self._snapshot(channel) for number, channel in self._interception.channels.items()}

    def open_connections(self) -> list[OpenConnection]:
        """Return every open connection of a client, oldest first, for the live page."""
        return [
            OpenConnection(number, (channel.client_id, channel.requests), partial(self._snapshot, channel))
            for number, channel in self._interception.channels.items()
        ]

    def _snapshot(self, channel: Channel) -> ConnectionSnapshot:
        return ConnectionSnapshot(
            connection_id=channel.connection.number,
            client_id=channel.client_id,
            address=str(channel.connection.client),
            listener=self._interception.listener,
            broker=self._interception.node_of(channel.connection),
            principal="User:ANONYMOUS",
            requests=channel.requests,
            since_ms=channel.since_ms,
        )

    @operation
    def disconnect(self, connection_id: int | None = None, *, client_id: str | None = None, reset: bool = False) -> int:
        """Close connections of clients; return the number of closed connections.

        Args:
            connection_id: Number of one connection; None to use ``client_id``.
            client_id: Client id, with the wildcards ``*`` and ``?``; None to use ``connection_id``.
            reset: True to send a TCP reset.

        Raises:
            UnknownConnectionError: No connection with this number is open.
            ValueError: Both arguments or none of them are given, or the wildcards are not valid.
        """
        closed = selected(self.connections(), connection_id, client_id)
        for number in closed:
            self._interception.channels[number].cut(reset)
        return len(closed)
