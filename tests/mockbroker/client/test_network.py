"""The network: least loaded nodes, reconnect backoff and connections."""

from __future__ import annotations

import pytest

from kwire.messages.metadata import METADATA, MetadataRequest
from mockbroker.client.backoff import Backoff, Clock
from mockbroker.client.call import Failure, OutgoingCall
from mockbroker.client.link import LinkState
from mockbroker.client.network import COORDINATOR, Network, Node
from mockbroker.client.settings import ConsumerSettings


def network_of(brokers: int = 3, bootstrap: int = 1) -> Network:
    settings, time = ConsumerSettings(), Clock()
    backoff = Backoff(settings.reconnect_backoff, settings.reconnect_backoff_max, lambda: 0.5)
    network = Network([("boot", 9000 + n) for n in range(bootstrap)], settings, time, backoff)
    network.update_brokers({n: (f"node{n}", 9000 + n) for n in range(1, brokers + 1)})
    return network


def send_to(
    network: Network, node: Node, done: list[OutgoingCall] | None = None, timeout: float | None = None
) -> OutgoingCall:
    then = None if done is None else done.append
    return network.send_request(node, METADATA.key, lambda _: MetadataRequest(), then, timeout=timeout)


def broker(network: Network, node_id: int) -> Node:
    node = network.broker(node_id)
    assert node
    return node


def least_loaded(network: Network) -> int:
    node = network.least_loaded()
    assert node
    return node.id


@pytest.mark.parametrize("busiest", [1, 2, 3])
def test_least_loaded_node_has_the_fewest_requests(busiest: int) -> None:
    network = network_of()
    for node_id in (1, 2, 3):
        for _ in range(1 + (node_id - busiest) % 3):
            send_to(network, broker(network, node_id))
    assert {least_loaded(network) for _ in range(6)} == {busiest}


def test_connected_nodes_are_preferred() -> None:
    network = network_of()
    send_to(network, broker(network, 2))
    link = broker(network, 2).link
    assert link
    link.state = LinkState.READY
    assert {least_loaded(network) for _ in range(6)} == {2}


def test_equally_loaded_nodes_take_turns() -> None:
    network = network_of()
    assert {least_loaded(network) for _ in range(6)} == {1, 2, 3}


def test_bootstrap_nodes_are_used_until_brokers_are_known() -> None:
    network = network_of(brokers=0, bootstrap=2)
    assert {least_loaded(network) for _ in range(6)} == {-1, -2}
    network.update_brokers({5: ("node5", 9005)})
    assert {least_loaded(network) for _ in range(6)} == {5}


def fail_to_connect(network: Network, node: Node) -> None:
    """Send a request to a node whose connection fails."""
    send_to(network, node)
    network.to_open.clear()
    assert node.link
    node.link.close("refused")
    network.tick()


def test_bootstrap_nodes_are_used_when_all_brokers_fail() -> None:
    network = network_of(brokers=2)
    fail_to_connect(network, broker(network, 1))
    assert least_loaded(network) == 2
    fail_to_connect(network, broker(network, 2))
    assert least_loaded(network) == -1
    fail_to_connect(network, network.least_loaded())  # type: ignore[arg-type]
    assert network.least_loaded() is None
    network._clock.now = network.next_deadline()
    assert network.least_loaded() is not None


def test_reconnect_backoff_grows() -> None:
    network = network_of(brokers=1)
    node, waits = broker(network, 1), []
    for _ in range(7):
        fail_to_connect(network, node)
        assert not network.can_send(node)
        done: list[OutgoingCall] = []
        assert send_to(network, node, done).done
        assert done[0].failure is Failure.DISCONNECTED
        waits.append(round(node.retry_at - network._clock.now, 3))
        assert network.next_deadline() == node.retry_at
        network._clock.now = node.retry_at
        assert network.can_send(node)
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_successful_connection_resets_the_backoff() -> None:
    network = network_of(brokers=1)
    node = broker(network, 1)
    fail_to_connect(network, node)
    fail_again_at = network._clock.now = node.retry_at
    send_to(network, node)
    assert node.link
    node.link.state = LinkState.READY
    network.tick()
    node.link.closed()
    network.tick()
    assert node.retry_at - fail_again_at == pytest.approx(0.05)


def test_on_disconnect_is_called_once() -> None:
    network, lost = network_of(), []
    network.on_disconnect = lost.append
    node = broker(network, 1)
    send_to(network, node)
    assert node.link
    node.link.closed()
    network.tick()
    network.tick()
    assert lost == [node]


def test_request_timeout_is_the_default_timeout() -> None:
    network, done = network_of(), []
    network._clock.now = 100.0
    node = broker(network, 1)
    assert [send_to(network, node, done).deadline, send_to(network, node, done, timeout=305.0).deadline] == [
        130.0,
        405.0,
    ]
    assert network.next_deadline() == 110.0, "when the connection setup times out"
    network._clock.now = 110.0
    network.tick()
    assert [call.failure for call in done] == [Failure.DISCONNECTED] * 2


def test_brokers_that_move_or_leave_are_disconnected() -> None:
    network, done = network_of(), []
    first, second = broker(network, 1), broker(network, 2)
    for node in (first, second):
        send_to(network, node, done)
    network.update_brokers({1: ("elsewhere", 1), 3: ("node3", 9003)})
    assert [call.reason for call in done] == ["the broker has a new address", "the broker is no longer in the cluster"]
    assert (broker(network, 1).host, network.broker(2)) == ("elsewhere", None)


def test_coordinator_has_a_node_of_its_own() -> None:
    network = network_of()
    node = network.coordinator(1, "node1", 9001)
    assert (node.id, node is broker(network, 1)) == (COORDINATOR - 1, False)
    assert network.coordinator(1, "node1", 9001) is node
    done: list[OutgoingCall] = []
    send_to(network, node, done)
    send_to(network, broker(network, 1))
    assert len(network.to_open) == 2
    assert network.coordinator(1, "elsewhere", 9001) is not node
    assert done[0].reason == "the coordinator has a new address"


def test_bootstrap_connection_is_closed_once_idle() -> None:
    network = network_of(brokers=0)
    boot = network.least_loaded()
    assert boot
    send_to(network, boot)
    assert boot.link
    boot.link.state = LinkState.READY
    boot.link._queue.clear()
    network.tick()
    assert boot.link, "no broker is known"
    network.update_brokers({1: ("node1", 9001)})
    network.tick()
    assert boot.link is None


def test_close_closes_all_connections() -> None:
    network, done = network_of(), []
    nodes = [broker(network, 1), network.coordinator(2, "node2", 9002)]
    for node in nodes:
        send_to(network, node, done)
    network.close()
    assert [call.reason for call in done] == ["the consumer is closed"] * 2
    assert [node.link for node in nodes] == [None, None]


@pytest.mark.parametrize("state", list(LinkState))
def test_node_is_ready_after_the_api_versions(state: LinkState) -> None:
    network = network_of()
    node = broker(network, 1)
    assert not node.ready
    send_to(network, node)
    assert node.link is not None
    node.link.state = state
    assert node.ready is (state is LinkState.READY)


def test_ready_nodes_are_preferred_to_those_that_connect() -> None:
    network = network_of(brokers=2)
    for number, state in ((1, LinkState.CHECKING_API_VERSIONS), (2, LinkState.READY)):
        for _ in range(number):
            send_to(network, broker(network, number))
        link = broker(network, number).link
        assert link
        link.state = state
    assert {least_loaded(network) for _ in range(4)} == {2}, "although it has more requests"


def test_connected_broker_is_used_during_the_backoff_of_others() -> None:
    network = network_of(brokers=2)
    send_to(network, broker(network, 2))
    broker(network, 2).failures = 1
    broker(network, 2).retry_at = 9.0
    fail_to_connect(network, broker(network, 1))
    assert {least_loaded(network) for _ in range(4)} == {2}


def test_reconnect_backoff_grows_until_a_connection_is_ready() -> None:
    network = network_of()
    node, delays = broker(network, 1), []
    for _ in range(3):
        send_to(network, node)
        assert node.link
        node.link.opened()
        network.tick()  # the connection is open, but the broker's API versions are unknown
        node.link.closed()
        network.tick()
        delays.append(node.retry_at - network._clock.now)
        network._clock.now = node.retry_at
    assert delays == pytest.approx([0.05, 0.1, 0.2])
    send_to(network, node)
    node.link.state = LinkState.READY
    network.tick()
    node.link.closed()
    network.tick()
    assert node.retry_at - network._clock.now == pytest.approx(0.05)


@pytest.mark.parametrize(("random", "delay"), [(0.0, 0.08), (0.5, 0.1), (1.0, 0.12)])
def test_jitter_of_a_backoff_is_20_percent(random: float, delay: float) -> None:
    assert Backoff(0.1, 1.0, lambda: random).after(0) == pytest.approx(delay)


def test_unused_nodes_are_preferred_to_those_with_requests() -> None:
    network = network_of()
    for node_id in (1, 2):
        send_to(network, broker(network, node_id))
    assert {least_loaded(network) for _ in range(6)} == {3}


def test_bootstrap_connection_stays_open_during_a_request() -> None:
    network = network_of(brokers=0)
    boot = network.least_loaded()
    assert boot
    send_to(network, boot)
    network.update_brokers({1: ("node1", 9001)})
    for state in (LinkState.CONNECTING, LinkState.CHECKING_API_VERSIONS, LinkState.READY):
        assert boot.link
        boot.link.state = state
        network.tick()
        assert boot.link, "its request has no response yet"
