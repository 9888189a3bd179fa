"""A kill of a group's coordinator at an exact moment of a request, in a served cluster or in a broker harness.

The router is wrapped, so the moment does not depend on the timing of clients and threads. ``before``: the request has
arrived, but is not handled yet; ``during``: the response is made and its records are written, but nothing is sent;
``after``: the response is sent, and no other request is handled yet.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import trio

from kwire import APIS
from mockbroker.api.cluster import Cluster
from mockbroker.api.thread import ThreadCluster
from mockbroker.base.effects import Call, Reply, Ticket
from mockbroker.broker.router import Router
from mockbroker.broker.stages import Stage

Wanted = Callable[[Any], bool]
REPORTS_PARTITIONS: Wanted = lambda body: body.member_epoch > 0 and bool(body.topic_partitions)  # noqa: E731
KILL_POINTS: dict[str, tuple[str, Wanted]] = {  # by the names of requests in scenarios.py
    "FindCoordinator": ("FindCoordinator", lambda _: True),
    "JoinGroup": ("JoinGroup", lambda body: bool(body.member_id or body.group_instance_id)),  # not to get an id
    "SyncGroup": ("SyncGroup", lambda body: bool(body.assignments)),
    "Heartbeat": ("Heartbeat", lambda _: True),
    "OffsetCommit": ("OffsetCommit", lambda _: True),
    "LeaveGroup": ("LeaveGroup", lambda _: True),
    "ConsumerGroupHeartbeat": ("ConsumerGroupHeartbeat", lambda body: body.member_epoch > 0),
    "ConsumerGroupHeartbeat, epoch 0": ("ConsumerGroupHeartbeat", lambda body: body.member_epoch == 0),
    "ConsumerGroupHeartbeat, epoch -1": ("ConsumerGroupHeartbeat", lambda body: body.member_epoch < 0),
    "ConsumerGroupHeartbeat, the first one with owned partitions": ("ConsumerGroupHeartbeat", REPORTS_PARTITIONS),
}


class KillableBrokers(Protocol):
    """The brokers of a harness or a served cluster, one of which is killed."""

    router: Router

    def coordinator_of(self, group: str) -> int: ...

    def kill(self, node: int) -> None: ...

    def is_away(self, node: int) -> bool: ...

    def soon(self, what: Callable[[], None]) -> None:
        """Call a function after the responses that are made now have been sent."""


class CoordinatorKill:
    """A kill of the coordinator at the next matching request.

    ``client``: client id of the request, "" for any; ``killed``: the killed broker, None before; ``happened``: set when the
    broker is killed; ``request``: the request.
    """

    def __init__(self, place: KillableBrokers, group: str, asked: str, moment: str, client: str = "") -> None:
        self.place, self.group, self.moment, self.client = place, group, moment, client
        self.api, self.wanted = KILL_POINTS[asked]
        self.killed: int | None = None
        self.happened = threading.Event()
        self.request: Any = None
        self._open: dict[Ticket, Any] = {}
        self._due = False
        router = place.router
        self._plain_step, self._plain_tick = router.step, router.tick
        router.step, router.tick = self._step, self._tick  # type: ignore[method-assign]

    def _step(self, call: Call[Any], now: float, own: Sequence[Stage] = ()) -> list[Any]:
        if self._due and self.killed is None:  # no other request is handled in between
            self._kill()
        elif self.killed is None and self._is_meant(call):
            self._open[call.ticket] = call.request
            if self.moment == "before":
                self.request = call.request
                self._kill()
        if call.client.node == self.killed and self.place.is_away(self.killed):
            return []  # no response: the connection is closed
        return self._sent(self._plain_step(call, now, own))

    def _tick(self, now: float, client_time: float | None = None) -> list[Any]:
        return self._sent(self._plain_tick(now, client_time))

    def _sent(self, outcomes: list[Any]) -> list[Any]:
        if self.killed is None and self._open and any(self._is_answer(outcome) for outcome in outcomes):
            if self.moment == "during":
                self._kill()
            else:
                self._due = True
                self.place.soon(self._kill)
        return outcomes

    def _is_meant(self, call: Call[Any]) -> bool:
        if APIS[call.ticket.api_key].name != self.api or self.client not in ("", call.client.client_id):
            return False
        body = call.request
        if self.api == "FindCoordinator":
            return body.key_type == 0 and self.group in (body.key, *body.coordinator_keys)
        return body.group_id == self.group and self.wanted(body)

    def _is_answer(self, outcome: object) -> bool:
        if not isinstance(outcome, Reply) or outcome.ticket not in self._open:
            return False
        self.request = self._open.pop(outcome.ticket)
        return not any(_errors(outcome.response))

    def _kill(self) -> None:
        if self.killed is None:
            self.killed = self.place.coordinator_of(self.group)
            self.place.kill(self.killed)
            self.happened.set()


class _Running:
    """A served cluster. ``also``: a function that is called before the broker is killed."""

    def __init__(self, cluster: Cluster, noticed_after: float, also: Callable[[Cluster, int], object]) -> None:
        self.router = cluster._router
        self.coordinator_of = cluster.coordinator
        self._cluster, self._noticed_after, self._also = cluster, noticed_after, also

    def kill(self, node: int) -> None:
        self._also(self._cluster, node)
        self._cluster.kill_broker(node, self._noticed_after)

    def is_away(self, node: int) -> bool:
        return node in self._cluster._server.stopped_nodes

    def soon(self, what: Callable[[], None]) -> None:
        trio.lowlevel.current_trio_token().run_sync_soon(what)


def arm_kill(
    cluster: ThreadCluster,
    group: str,
    asked: str,
    moment: str,
    client: str = "",
    noticed_after: float = 0.0,
    also: Callable[[Cluster, int], object] = lambda _, __: None,
) -> CoordinatorKill:
    """Return a CoordinatorKill of a cluster that runs in a thread."""
    return cluster._thread.call(
        lambda inner: CoordinatorKill(_Running(inner, noticed_after, also), group, asked, moment, client)
    )


def _errors(response: Any) -> Iterable[int]:
    """Yield the error codes in a response."""
    if hasattr(response, "error_code"):
        yield response.error_code
    for name in ("coordinators", "members", "topics", "partitions"):
        for each in getattr(response, name, ()):
            yield from _errors(each)
