from __future__ import annotations

import pytest
from tools.handmade_calls import BEGIN, CallLog

from kwire.analysis.clusters import Clusters, ClusterStatement, statement_of
from kwire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kwire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse

X, Y, Z = "10.0.0.1:9092", "10.0.0.2:9092", "10.0.0.3:9092"
BROKERS = [MetadataResponse.Broker(node_id=n, host=host, port=9092) for n, host in enumerate(["10.0.0.1", "::1"])]
COORDINATOR = FindCoordinatorResponse.Coordinator(node_id=7, host="10.0.0.2", port=9092)

ANSWERS = [  # request, response, version, cluster, nodes
    (MetadataRequest(), MetadataResponse(cluster_id="tea", brokers=BROKERS), 12, "tea", (f"0 {X}", "1 [::1]:9092")),
    (MetadataRequest(), MetadataResponse(brokers=BROKERS), 1, None, (f"0 {X}", "1 [::1]:9092")),
    (MetadataRequest(), MetadataResponse(), 1, None, None),
    (DescribeClusterRequest(), DescribeClusterResponse(cluster_id="tea"), 1, "tea", ()),
    (FindCoordinatorRequest(), FindCoordinatorResponse(node_id=7, host="10.0.0.2", port=9092), 2, None, (f"7 {Y}",)),
    (FindCoordinatorRequest(), FindCoordinatorResponse(coordinators=[COORDINATOR]), 4, None, (f"7 {Y}",)),
    (FindCoordinatorRequest(), FindCoordinatorResponse(error_code=15, host="10.0.0.2", port=1), 2, None, None),
    (HeartbeatRequest(), HeartbeatResponse(), 4, None, None),
    (MetadataRequest(), None, 12, None, None),
]


@pytest.mark.parametrize(("request_", "response", "version", "cluster", "nodes"), ANSWERS)
def test_cluster_facts_of_a_response(request_, response, version, cluster, nodes) -> None:  # type: ignore[no-untyped-def]
    result = statement_of(CallLog().call("a", 0, request_, response, version))
    expected = None if nodes is None else ClusterStatement(BEGIN + 1000, "a", "10.0.0.9:9092", cluster, nodes)
    assert result == expected


def said(ts: int, broker: str, cluster: str | None, *nodes: str, conn: str = "") -> ClusterStatement:
    numbered = tuple(f"{ts} {node}" for node in nodes)
    return ClusterStatement(ts, conn or f"{broker} {ts}", broker, cluster, numbered)


CASES = [  # statements, connection, broker, time; expected cluster id, and its name without an id
    ([], None, X, 5, None, X),
    ([], None, None, 5, None, None),
    ([said(1, X, "tea")], None, X, 5, "tea", "tea"),
    ([said(1, X, "tea")], None, Y, 5, None, Y),
    ([said(1, X, "tea", X, Y)], None, Y, 5, "tea", "tea"),
    # one address, two clusters: the latest statement applies, before all of them the first; a connection has its own
    ([said(3, X, "tea"), said(6, X, "milk")], None, X, 2, "tea", "tea"),
    ([said(3, X, "tea"), said(6, X, "milk")], None, X, 5, "tea", "tea"),
    ([said(3, X, "tea"), said(6, X, "milk")], None, X, 6, "milk", "milk"),
    ([said(3, X, "tea"), said(6, X, "milk", conn="c")], "c", X, 5, "milk", "milk"),
    # a statement of a broker about itself outranks the list of another broker
    ([said(3, X, "tea"), said(6, Y, "milk", X, Y)], None, X, 7, "tea", "tea"),
    # responses without an id: brokers of one unknown cluster
    ([said(1, Y, None, X, Y), said(2, Z, None, Y)], None, Z, 5, None, X),
    ([said(1, Y, None, X, Y), said(2, Z, "tea", Z, Y)], None, X, 5, "tea", "tea"),
    ([said(1, X, None, Y), said(9, X, "tea")], None, Y, 0, "tea", "tea"),
    ([said(1, X, "tea"), said(2, Y, "milk"), said(3, Z, None, X, Y)], None, Z, 5, None, X),
]


@pytest.mark.parametrize(("statements", "conn", "broker", "ts", "known", "stands"), CASES)
def test_cluster_of_a_broker(statements, conn, broker, ts, known, stands) -> None:  # type: ignore[no-untyped-def]
    for order in (statements, statements[::-1], [*statements, *statements]):
        clusters = Clusters(order)
        assert clusters.id_of(conn, broker, ts) == known
        assert clusters.of(conn, broker, ts) == stands


IDS = [  # statements, broker; its id, which is the time of the response that lists it
    ([], X, None),
    ([said(3, X, "tea", Y)], X, None),
    ([said(3, X, "tea", X), said(4, Y, "tea", X, Y)], X, 4),
    ([said(3, X, "tea", X), said(4, Y, "milk", X, Y)], X, 3),
    ([said(3, Y, None, X)], X, 3),
    ([said(3, X, "tea"), said(4, X, None, X)], X, 4),
]


@pytest.mark.parametrize(("statements", "broker", "expected"), IDS)
def test_id_of_a_broker(statements: list[ClusterStatement], broker: str, expected: int | None) -> None:
    assert Clusters(statements).node_id(None, broker, 9) == expected


def test_equal_if_all_answers_are() -> None:
    """A repeated statement of a broker changes nothing; another cluster or a new broker makes them different."""
    before = [said(5, X, "tea", X, Y)]
    assert Clusters(before) == Clusters([*before, said(5, X, "tea", X, conn="other")])
    for new in (said(6, X, "milk", X), said(6, X, "tea", Z), said(6, Z, None, X)):
        assert Clusters(before) != Clusters([*before, new])
