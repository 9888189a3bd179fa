"""Lookup of the coordinator, and the connection to it."""

from __future__ import annotations

from typing import Any

import pytest
from tools.fake_cluster import BOOTSTRAP_PORT, FakeCluster

from kwire.errorcodes import ErrorCode as E
from kwire.messages.find_coordinator import FIND_COORDINATOR, FindCoordinatorResponse
from kwire.messages.metadata import METADATA, MetadataRequest
from mockbroker.client.call import Failure, OutgoingCall
from mockbroker.client.errors import ConsumerError, UnsupportedVersion
from mockbroker.client.network import COORDINATOR


def subscribed(**settings: Any) -> FakeCluster:
    cluster = FakeCluster(**settings)
    cluster.engine.subscribe(["t"])
    return cluster


def test_the_coordinator_has_a_connection_of_its_own() -> None:
    cluster = subscribed(coordinator=2)
    cluster.make_stable()
    node = cluster.engine.coordinator.node
    assert (node.id, node.port) == (2_147_483_647 - 2, BOOTSTRAP_PORT + 2) == (COORDINATOR - 2, 9002)
    broker = cluster.engine.network.broker(2)
    cluster.engine.network.send_request(broker, 3, lambda _: cluster.last("Metadata"))
    cluster.settle()
    links = [link for link in cluster.links if link.port == 9002]
    assert len(links) == 2, "one for the group, one for everything else"
    over = {one.api for one in cluster.requests if one.link is cluster.group_link()} - {"ApiVersions"}
    assert over == {"JoinGroup", "SyncGroup", "OffsetFetch"}


def test_lookup_goes_to_the_least_loaded_node() -> None:
    cluster = subscribed()
    cluster.make_stable()
    network = cluster.engine.network
    del cluster.answers["Metadata"]
    for node, busy in ((1, 3), (2, 1), (3, 2)):
        for _ in range(busy):
            network.send_request(network.broker(node), METADATA.key, lambda _: MetadataRequest())
    cluster.settle()
    assert [network.broker(node).in_flight for node in (1, 2, 3)] == [3, 1, 2]
    request = []
    cluster.answers["FindCoordinator"] = lambda _: None
    for _ in range(4):
        cluster.engine.coordinator.node = None
        cluster.engine.coordinator._lookup.in_flight = False
        cluster.settle()
        request.append([one for one in cluster.requests if one.api == "FindCoordinator"][-1].node)
    assert request[0] == 2
    assert set(request[1:3]) == {2, 3}, "equally loaded"


def test_no_lookup_while_the_coordinator_is_known() -> None:
    cluster = subscribed()
    cluster.make_stable()
    cluster.wait(2.9)
    cluster.member.rejoin("a test")
    cluster.poll()
    assert cluster.count("FindCoordinator") == 1


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_find_coordinator_request_fields(version: int) -> None:
    cluster = subscribed(served={"FindCoordinator": (0, version)})
    cluster.poll()
    sent = cluster.last("FindCoordinator")
    if version >= 4:
        assert (sent.coordinator_keys, sent.key_type) == (["g"], 0)
    else:
        assert (sent.key, sent.key_type) == ("g", 0)
    assert cluster.pending("JoinGroup")


def test_unreachable_coordinator_is_looked_up_after_a_backoff() -> None:
    cluster = subscribed()
    cluster.down = {1}
    cluster.poll()
    cluster.wait(1.0, polling=True)
    assert cluster.engine.coordinator.node is None
    request = cluster.count("FindCoordinator")
    assert 2 <= request <= 8, "with a backoff"
    cluster.coordinator = 2
    cluster.wait_for("JoinGroup", within=2.0)
    assert cluster.request("JoinGroup").node == 2


def test_coordinator_that_moves_gets_a_new_connection() -> None:
    cluster = subscribed()
    cluster.make_stable()
    cluster.coordinator = 3
    request = cluster.wait_for("Heartbeat")
    cluster.cut(request.link, polling=False)
    cluster.wait(1.0)
    assert cluster.engine.coordinator.node.port == 9003
    cluster.wait_for("Heartbeat", polling=False)
    assert cluster.request("Heartbeat").node == 3
    assert (cluster.assigned, cluster.count("JoinGroup")) == (["t0"], 1), "consumption continues"


def test_successful_lookup_renews_the_session() -> None:
    cluster = subscribed()
    cluster.make_stable()
    cluster.wait(2.0)
    cluster.engine.coordinator.mark_unknown()
    cluster.settle()
    assert cluster.member.heartbeat.session_deadline == 47.0


def coordinators(*keys: str) -> FindCoordinatorResponse:
    one = FindCoordinatorResponse.Coordinator
    return FindCoordinatorResponse(coordinators=[one(key=key, node_id=1, host="node1", port=9001) for key in keys])


def test_response_about_another_group_is_retried() -> None:
    cluster = subscribed()
    del cluster.answers["FindCoordinator"]
    cluster.poll()
    cluster.answer("FindCoordinator", coordinators("other"))
    assert cluster.engine.coordinator.node is None
    cluster.wait_for("FindCoordinator", within=1.0)


@pytest.mark.parametrize("keys", [(), ("g", "g"), ("g", "other")])
def test_response_needs_exactly_one_coordinator(keys: tuple[str, ...]) -> None:
    cluster = subscribed()
    del cluster.answers["FindCoordinator"]
    cluster.poll()
    with pytest.raises(
        ConsumerError, match=f"FindCoordinator returned {len(keys)} coordinators of group g, expected 1"
    ):
        cluster.answer("FindCoordinator", coordinators(*keys))
    assert cluster.engine.coordinator.node is None


def test_broker_without_the_find_coordinator_api() -> None:
    cluster = subscribed(served={"FindCoordinator": (0, -1)})
    with pytest.raises(UnsupportedVersion, match="FindCoordinator"):
        cluster.poll()


def test_no_coordinator_lookup_without_group_or_subscription() -> None:
    alone = FakeCluster(group=None)
    alone.engine.assign([("t", 0)])
    member = FakeCluster()
    for cluster in (alone, member):
        cluster.settle(polling=True)
        cluster.wait(10, polling=True)
        assert cluster.count("FindCoordinator") == 0


def test_manual_assignment_uses_the_coordinator_for_offsets_only() -> None:
    cluster = FakeCluster()
    cluster.engine.assign([("t", 0)])
    cluster.poll()
    commit = cluster.commit({("t", 0): 8})
    sent = cluster.request("OffsetCommit").body
    assert (sent.generation_id_or_member_epoch, sent.member_id) == (-1, "")
    cluster.answer_commit()
    assert commit.error is None
    cluster.wait(60, polling=True)
    assert (cluster.count("JoinGroup"), cluster.count("Heartbeat"), cluster.count("OffsetFetch")) == (0, 0, 1)


Coordinator = FindCoordinatorResponse.Coordinator
UNUSABLE = {
    "lost": None,
    "no coordinator": [],
    "of another group": [Coordinator(key="other", node_id=1, host="h", port=1)],
    "an error": [Coordinator(key="g", error_code=E.COORDINATOR_NOT_AVAILABLE)],
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_lookup_without_coordinator_is_repeated_after_backoff(case: str) -> None:
    cluster = FakeCluster()
    coordinator, metadata = cluster.engine.coordinator, cluster.engine.metadata
    refreshes: list[float] = []
    metadata.refresh = lambda: refreshes.append(cluster.now)  # type: ignore[method-assign]
    for expected in (0.1, 0.2):
        call = OutgoingCall(FIND_COORDINATOR.key, lambda _: None, 1.0, coordinator._handle_response)
        call.version = 4
        coordinators = UNUSABLE[case]
        if coordinators is None:
            call.fail(Failure.DISCONNECTED)
        else:
            call.complete(FindCoordinatorResponse(coordinators=coordinators))
        assert coordinator.node is None
        assert coordinator.next_deadline() == pytest.approx(cluster.now + expected)
    assert len(refreshes) == 2


def test_disconnect_without_a_connection_does_nothing() -> None:
    cluster = subscribed()
    coordinator = cluster.engine.coordinator
    coordinator.disconnect()
    assert coordinator.node is None
    cluster.make_stable()
    link = cluster.group_link()
    coordinator.node.link = None
    coordinator.disconnect()
    assert (coordinator.node, link.close_reason) == (None, "")


def test_lost_coordinator_is_looked_up_with_a_growing_backoff() -> None:
    cluster = subscribed()
    cluster.make_stable()
    coordinator = cluster.engine.coordinator
    cluster.hold("FindCoordinator")
    node = coordinator.node
    for expected in (0.1, 0.2, 0.4):
        coordinator.node = node
        coordinator.handle_disconnect(node)
        assert coordinator.node is None
        assert coordinator.next_deadline() == pytest.approx(cluster.now + expected)
        cluster.engine.clock.now += expected


def test_loss_of_another_connection_keeps_the_coordinator() -> None:
    cluster = subscribed()
    cluster.make_stable()
    coordinator = cluster.engine.coordinator
    coordinator.handle_disconnect(cluster.engine.network.broker(1))
    assert coordinator.node is not None


def test_backoff_after_a_disconnect_never_shortens_another() -> None:
    cluster = subscribed()
    cluster.make_stable()
    coordinator = cluster.engine.coordinator
    coordinator._retry_at = cluster.now + 9.0
    coordinator.handle_disconnect(coordinator.node)
    assert coordinator.next_deadline() == cluster.now + 9.0


def test_lookup_without_an_available_node_is_repeated() -> None:
    cluster = subscribed()
    cluster.engine.network.least_loaded = lambda: None  # type: ignore[method-assign]
    coordinator = cluster.engine.coordinator
    coordinator.find_if_due()
    assert coordinator.next_deadline() == pytest.approx(cluster.now + 0.1)
    cluster.engine.clock.now += 0.05
    coordinator.find_if_due()
    assert coordinator.next_deadline() == pytest.approx(cluster.now + 0.05), "not before the backoff has ended"


def test_lookup_has_the_group_as_its_key() -> None:
    cluster = subscribed(group="orders", served={"FindCoordinator": (0, 3)})
    cluster.poll()
    assert cluster.last("FindCoordinator").key == "orders"
    cluster = subscribed(group="orders")
    cluster.poll()
    assert cluster.last("FindCoordinator").coordinator_keys == ["orders"]


def test_failure_of_a_lookup_keeps_an_earlier_error() -> None:
    cluster = subscribed()
    cluster.hold("FindCoordinator")
    cluster.poll()
    earlier = cluster.engine.coordinator.failure = ConsumerError("earlier")
    cluster.cut(cluster.request("FindCoordinator").link, polling=False)
    assert cluster.engine.coordinator.failure is earlier


@pytest.mark.parametrize("group", ["g", None])
def test_coordinator_is_looked_up_only_for_use(group: str | None) -> None:
    """The lookup needs a subscription, an assignment or a commit. A consumer without a group never sends it."""
    cluster = FakeCluster(group=group)
    cluster.settle()
    cluster.wait(5.0)
    assert cluster.count("FindCoordinator") == 0
    cluster.engine.assign([("t", 0)])
    cluster.wait(5.0)
    assert cluster.count("FindCoordinator") == (group is not None)


def test_coordinator_in_reconnect_backoff_stays_unknown() -> None:
    cluster = subscribed(reconnect_backoff=5.0, reconnect_backoff_max=5.0)
    cluster.make_stable()
    cluster.down = {cluster.engine.coordinator.node.port - 9000}
    cluster.hang_up(1)
    lookups = cluster.count("FindCoordinator")
    cluster.wait(1.0)
    assert cluster.engine.coordinator.node is None
    assert cluster.count("FindCoordinator") > lookups
