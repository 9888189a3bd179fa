"""Which cluster a broker is of: what answers say of theirs, put together over a whole capture.

Metadata and DescribeCluster answers have the id of the cluster and list its brokers; FindCoordinator names a broker of
the same cluster. An address may be of one cluster today and of another tomorrow, so what it was told last counts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kwire.apikeys import ApiKey
from kwire.capture.calls.model import Call


@dataclass(frozen=True, slots=True)
class Saying:
    """An answer about a cluster. ``cluster``: its id, if it is told; ``nodes``: ``id host:port`` of brokers of it."""

    ts: int
    conn_id: str
    broker: str
    cluster: str | None
    nodes: tuple[str, ...]

    @property
    def content(self) -> tuple[str, str, str | None, tuple[str, ...]]:
        """All but the time: only the first of those that are alike is needed."""
        return self.conn_id, self.broker, self.cluster, self.nodes


def saying_of(call: Call) -> Saying | None:
    """What a call says of the cluster; None for most calls."""
    response = call.response
    if response is None or call.response_us is None:
        return None
    cluster = None
    if call.api_key in (ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER):
        cluster = response.cluster_id or None
        nodes = {
            f"{node.node_id if call.api_key == ApiKey.METADATA else node.broker_id} {endpoint(node.host, node.port)}"
            for node in response.brokers
        }
    elif call.api_key == ApiKey.FIND_COORDINATOR:
        found = [one for one in response.coordinators or [response] if not one.error_code and one.host]
        nodes = {f"{node.node_id} {endpoint(node.host, node.port)}" for node in found}
    else:
        return None
    if cluster is None and not nodes:
        return None
    return Saying(call.response_us, call.connection, call.broker, cluster, tuple(sorted(nodes)))


def endpoint(host: str, port: int) -> str:
    """``host:port`` as captures write it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


Told = list[tuple[int, str]]  # when which cluster was told


class Clusters:
    """Finds the cluster of a broker at a moment. ``sayings``: all of a capture's, in any order."""

    def __init__(self, sayings: Iterable[Saying] = ()) -> None:
        self._own: dict[str | None, str] = {}  # by connection, in the end of those whose broker was told several
        self._said: Mapping[str, Told] = defaultdict(list)
        self._listed: Mapping[str, Told] = defaultdict(list)
        self._ids: dict[tuple[str | None, str], int] = {}
        self._beside: dict[str, str] = {}  # another broker of the same cluster, which is not known
        every = sorted(set(sayings), key=lambda one: (one.ts, one.conn_id, one.broker, one.nodes, one.cluster or ""))
        for one in every:
            if one.cluster is not None:
                self._own.setdefault(one.conn_id, one.cluster)
                self._said[one.broker].append((one.ts, one.cluster))
                for node, address in _split(one.nodes):
                    self._listed[address].append((one.ts, one.cluster))
                    self._ids[one.cluster, address] = node
        without = [(one, self._told(one.conn_id, one.broker, one.ts)) for one in every if one.cluster is None]
        for one, cluster in without:
            for node, address in _split(one.nodes):
                self._ids[cluster, address] = node
                if cluster is not None:
                    self._listed[address].append((one.ts, cluster))
                else:
                    self._join(one.broker, address)
        self._said = {address: _changes(told) for address, told in self._said.items()}
        several = {one.conn_id for one in every if len(self._said.get(one.broker, [])) > 1}
        self._own = {conn_id: cluster for conn_id, cluster in self._own.items() if conn_id in several}
        self._listed = {address: _changes(told) for address, told in self._listed.items()}
        self._named = self._names()

    def __eq__(self, other: object) -> bool:
        """Whether both have the same answers, to whatever is asked."""
        return isinstance(other, Clusters) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def known(self, conn_id: str | None, broker: str | None, ts: int) -> str | None:
        """The id of the cluster: as told on this connection, else of this address at or before ``ts``, else after."""
        if broker is None:
            return None
        return self._told(conn_id, broker, ts) or self._named.get(self._first(broker))

    def of(self, conn_id: str | None, broker: str | None, ts: int) -> str | None:
        """The id of the cluster; where no answer told it, the first address of its brokers."""
        return self.known(conn_id, broker, ts) or (None if broker is None else self._first(broker))

    def node_id(self, conn_id: str | None, broker: str, ts: int) -> int | None:
        """The id of a broker: as answers tell that list its address."""
        known = self.known(conn_id, broker, ts)
        return self._ids.get((known, broker), self._ids.get((None, broker)))

    def _told(self, conn_id: str | None, broker: str, ts: int) -> str | None:
        if conn_id in self._own:
            return self._own[conn_id]
        for told in (self._said.get(broker), self._listed.get(broker)):
            if told:
                return told[max(bisect_right(told, ts, key=lambda one: one[0]) - 1, 0)][1]
        return None

    def _first(self, broker: str) -> str:
        while (other := self._beside.get(broker, broker)) != broker:
            broker = other
        return broker

    def _join(self, one: str, other: str) -> None:
        first, second = sorted((self._first(one), self._first(other)))
        if first != second:
            self._beside[second] = first

    def _names(self) -> dict[str, str]:
        """Clusters by first address, of brokers beside one whose cluster is known, if that is but one."""
        found: dict[str, set[str]] = defaultdict(set)
        for broker in {*self._beside, *self._beside.values()}:
            for told in (self._said.get(broker, []), self._listed.get(broker, [])):
                found[self._first(broker)] |= {cluster for _, cluster in told}
        return {first: clusters.pop() for first, clusters in found.items() if len(clusters) == 1}


def _split(nodes: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Ids and addresses."""
    for node in nodes:
        number, _, address = node.partition(" ")
        yield int(number), address


def _changes(told: Sequence[tuple[int, str]]) -> Told:
    """Only where another cluster is told than before."""
    ordered = sorted(told)
    return [one for n, one in enumerate(ordered) if not n or one[1] != ordered[n - 1][1]]
