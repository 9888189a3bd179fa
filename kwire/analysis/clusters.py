"""The cluster of each broker, derived from the responses in the whole capture.

Metadata and DescribeCluster responses contain the cluster id and the brokers. A FindCoordinator response contains the
coordinator, which is a broker of the same cluster as the broker that responds. An address may belong to different
clusters at different times. At any time, the cluster of an address is that in the latest response before this time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kwire.apikeys import ApiKey
from kwire.capture.calls.model import Call
from kwire.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ClusterStatement:
    """The cluster id and the brokers in one response.

    Attributes:
        ts: time of the response, in microseconds since 1970.
        conn_id: id of the connection.
        broker: ``host:port`` of the broker that sent the response.
        cluster: cluster id, or None if the response has no cluster id.
        nodes: brokers of the cluster, each as ``id host:port``.
    """

    ts: int
    conn_id: str
    broker: str
    cluster: str | None
    nodes: tuple[str, ...]

    @property
    def content(self) -> tuple[str, str, str | None, tuple[str, ...]]:
        """All attributes except the time, as a tuple that can be compared and hashed.

        Only the earliest of several ``ClusterStatement`` objects with equal content is needed.
        """
        return self.conn_id, self.broker, self.cluster, self.nodes


def statement_of(call: Call) -> ClusterStatement | None:
    """Return the cluster id and the brokers in the response of a call.

    The result is None if the response was not captured, or contains neither a cluster id nor a broker.
    """
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
        coordinators = [one for one in response.coordinators or [response] if not one.error_code and one.host]
        nodes = {f"{node.node_id} {endpoint(node.host, node.port)}" for node in coordinators}
    else:
        return None
    if cluster is None and not nodes:
        return None
    return ClusterStatement(call.response_us, call.connection, call.broker, cluster, tuple(sorted(nodes)))


def endpoint(host: str, port: int) -> str:
    """Return ``host:port``, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


Changes = list[tuple[int, str]]  # cluster ids of an address, each with the time from which it is valid


class Clusters:
    """The cluster ids of each broker address over time.

    Args:
        statements: cluster ids and brokers in all responses of a capture, from ``statement_of``, in any order.
    """

    def __init__(self, statements: Iterable[ClusterStatement] = ()) -> None:
        self._own: dict[str | None, str] = {}  # cluster by connection; finally only for brokers with several clusters
        self._stated: Mapping[str, Changes] = defaultdict(list)
        self._listed: Mapping[str, Changes] = defaultdict(list)
        self._ids: dict[tuple[str | None, str], int] = {}
        self._beside: dict[str, str] = {}  # broker -> another broker in a list without a cluster id
        every = sorted(set(statements), key=lambda one: (one.ts, one.conn_id, one.broker, one.nodes, one.cluster or ""))
        for one in every:
            if one.cluster is not None:
                self._own.setdefault(one.conn_id, one.cluster)
                self._stated[one.broker].append((one.ts, one.cluster))
                for node, address in _parse_nodes(one.nodes):
                    self._listed[address].append((one.ts, one.cluster))
                    self._ids[one.cluster, address] = node
        without = [(one, self._cluster_id(one.conn_id, one.broker, one.ts)) for one in every if one.cluster is None]
        for one, cluster in without:
            for node, address in _parse_nodes(one.nodes):
                self._ids[cluster, address] = node
                if cluster is not None:
                    self._listed[address].append((one.ts, cluster))
                else:
                    self._join(one.broker, address)
        self._stated = {address: _changes(times) for address, times in self._stated.items()}
        several = {one.conn_id for one in every if len(self._stated.get(one.broker, [])) > 1}
        self._own = {conn_id: cluster for conn_id, cluster in self._own.items() if conn_id in several}
        self._listed = {address: _changes(times) for address, times in self._listed.items()}
        self._named = self._shared_cluster_ids()

    def __eq__(self, other: object) -> bool:
        """Return True if both objects return the same clusters for all arguments."""
        return isinstance(other, Clusters) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def id_of(self, conn_id: str | None, broker: str | None, ts: int) -> str | None:
        """Return the cluster id of a broker; None if no response shows the cluster id.

        If the address belonged to several clusters, the result is the first of these cluster ids that exists:

        - the cluster id in a response on the connection;
        - the latest cluster id up to the time;
        - the first cluster id after the time.

        Args:
            conn_id: id of the connection; None if unknown.
            broker: ``host:port`` of the broker; None if unknown.
            ts: time, in microseconds since 1970.
        """
        if broker is None:
            return None
        return self._cluster_id(conn_id, broker, ts) or self._named.get(self._first(broker))

    def of(self, conn_id: str | None, broker: str | None, ts: int) -> str | None:
        """Return a name for the cluster of a broker; None without a broker.

        The name is the cluster id. If no response shows the cluster id, the name is the address of a broker: the
        alphabetically first address among the brokers that are in the same responses as this broker.

        Args:
            conn_id: id of the connection; None if unknown.
            broker: ``host:port`` of the broker; None if unknown.
            ts: time, in microseconds since 1970.
        """
        return self.id_of(conn_id, broker, ts) or (None if broker is None else self._first(broker))

    def node_id(self, conn_id: str | None, broker: str, ts: int) -> int | None:
        """Return the node id of a broker; None if no response lists its address.

        Args:
            conn_id: id of the connection; None if unknown.
            broker: ``host:port`` of the broker.
            ts: time, in microseconds since 1970.
        """
        cluster = self.id_of(conn_id, broker, ts)
        return self._ids.get((cluster, broker), self._ids.get((None, broker)))

    def _cluster_id(self, conn_id: str | None, broker: str, ts: int) -> str | None:
        if conn_id in self._own:
            return self._own[conn_id]
        for times in (self._stated.get(broker), self._listed.get(broker)):
            if times:
                return times[max(bisect_right(times, ts, key=lambda one: one[0]) - 1, 0)][1]
        return None

    def _first(self, broker: str) -> str:
        while (other := self._beside.get(broker, broker)) != broker:
            broker = other
        return broker

    def _join(self, one: str, other: str) -> None:
        first, second = sorted((self._first(one), self._first(other)))
        if first != second:
            self._beside[second] = first

    def _shared_cluster_ids(self) -> dict[str, str]:
        """Return the cluster id of each set of brokers that appear together in responses without a cluster id.

        The key is the alphabetically first address of the set. A set has no entry if its brokers have no known cluster
        id, or more than one.
        """
        ids: dict[str, set[str]] = defaultdict(set)
        for broker in {*self._beside, *self._beside.values()}:
            for times in (self._stated.get(broker, []), self._listed.get(broker, [])):
                ids[self._first(broker)] |= {cluster for _, cluster in times}
        return {first: clusters.pop() for first, clusters in ids.items() if len(clusters) == 1}


def _parse_nodes(nodes: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the node id and the address of each broker, given as ``id host:port``."""
    for node in nodes:
        number, _, address = node.partition(" ")
        yield int(number), address


def _changes(times: Sequence[tuple[int, str]]) -> Changes:
    """Return the times at which the cluster of an address changed, in order, each with the new cluster id.

    ``times``: pairs of the time of a response, in microseconds since 1970, and the cluster id of the address.
    """
    ordered = sorted(times)
    return [one for n, one in enumerate(ordered) if not n or one[1] != ordered[n - 1][1]]
