"""Who is asked, who is left alone for how long, and which connections are there."""

from __future__ import annotations

import pytest

from kwire.messages.metadata import METADATA, MetadataRequest
from mockbroker.client.backoff import Backoff, Clock
from mockbroker.client.call import Failure, OutgoingCall
from mockbroker.client.link import LinkState
from mockbroker.client.network import COORDINATOR, Network, Node
from mockbroker.client.settings import Settings


def network_of(brokers: int = 3, bootstrap: int = 1) -> Network:
    settings, time = Settings(), Clock()
    backoff = Backoff(settings.reconnect_backoff, settings.reconnect_backoff_max, lambda: 0.5)
    network = Network([("boot", 9000 + n) for n in range(bootstrap)], settings, time, backoff)
    network.update_brokers({n: (f"node{n}", 9000 + n) for n in range(1, brokers + 1)})
    return network


def ask(
    network: Network, node: Node, done: list[OutgoingCall] | None = None, timeout: float | None = None
) -> OutgoingCall:
    then = None if done is None else done.append
    return network.send_request(node, METADATA.key, lambda _: MetadataRequest(), then, timeout=timeout)


def broker(network: Network, node_id: int) -> Node:
    found = network.broker(node_id)
    assert found
    return found


def least(network: Network) -> int:
    node = network.least_loaded()
    assert node
    return node.id


@pytest.mark.parametrize("busiest", [1, 2, 3])
def test_the_node_with_the_fewest_requests_under_way(busiest: int) -> None:
    network = network_of()
    for node_id in (1, 2, 3):
        for _ in range(1 + (node_id - busiest) % 3):
            ask(network, broker(network, node_id))
    assert {least(network) for _ in range(6)} == {busiest}


def test_one_that_is_connected_comes_before_one_that_is_not() -> None:
    network = network_of()
    ask(network, broker(network, 2))
    link = broker(network, 2).link
    assert link
    link.state = LinkState.READY
    assert {least(network) for _ in range(6)} == {2}


def test_equals_take_turns() -> None:
    network = network_of()
    assert {least(network) for _ in range(6)} == {1, 2, 3}


def test_bootstrap_addresses_serve_until_brokers_are_known() -> None:
    network = network_of(brokers=0, bootstrap=2)
    assert {least(network) for _ in range(6)} == {-1, -2}
    network.update_brokers({5: ("node5", 9005)})
    assert {least(network) for _ in range(6)} == {5}


def fail(network: Network, node: Node) -> None:
    """It is asked, and cannot be connected to."""
    ask(network, node)
    network.to_open.clear()
    assert node.link
    node.link.close("refused")
    network.tick()


def test_and_again_when_nobody_else_answers() -> None:
    network = network_of(brokers=2)
    fail(network, broker(network, 1))
    assert least(network) == 2
    fail(network, broker(network, 2))
    assert least(network) == -1
    fail(network, network.least_loaded())  # type: ignore[arg-type]
    assert network.least_loaded() is None
    network._clock.now = network.next_deadline()
    assert network.least_loaded() is not None


def test_who_could_not_be_reached_is_left_alone_longer_each_time() -> None:
    network = network_of(brokers=1)
    node, waits = broker(network, 1), []
    for _ in range(7):
        fail(network, node)
        assert not network.can_send(node)
        done: list[OutgoingCall] = []
        assert ask(network, node, done).done
        assert done[0].failure is Failure.DISCONNECTED
        waits.append(round(node.retry_at - network._clock.now, 3))
        assert network.next_deadline() == node.retry_at
        network._clock.now = node.retry_at
        assert network.can_send(node)
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_who_was_reached_begins_anew() -> None:
    network = network_of(brokers=1)
    node = broker(network, 1)
    fail(network, node)
    fail_again_at = network._clock.now = node.retry_at
    ask(network, node)
    assert node.link
    node.link.state = LinkState.READY
    network.tick()
    node.link.closed()
    network.tick()
    assert node.retry_at - fail_again_at == pytest.approx(0.05)


def test_whose_connection_ends_is_told_once() -> None:
    network, lost = network_of(), []
    network.on_disconnect = lost.append
    node = broker(network, 1)
    ask(network, node)
    assert node.link
    node.link.closed()
    network.tick()
    network.tick()
    assert lost == [node]


def test_a_request_has_the_request_timeout_or_its_own() -> None:
    network, done = network_of(), []
    network._clock.now = 100.0
    node = broker(network, 1)
    assert [ask(network, node, done).deadline, ask(network, node, done, timeout=305.0).deadline] == [130.0, 405.0]
    assert network.next_deadline() == 110.0, "by when the connection has to be there"
    network._clock.now = 110.0
    network.tick()
    assert [call.failure for call in done] == [Failure.DISCONNECTED] * 2


def test_a_broker_that_moves_or_goes() -> None:
    network, done = network_of(), []
    first, second = broker(network, 1), broker(network, 2)
    for node in (first, second):
        ask(network, node, done)
    network.update_brokers({1: ("elsewhere", 1), 3: ("node3", 9003)})
    assert [call.reason for call in done] == ["the broker has a new address", "the broker is no longer in the cluster"]
    assert (broker(network, 1).host, network.broker(2)) == ("elsewhere", None)


def test_a_coordinator_has_a_node_of_its_own() -> None:
    network = network_of()
    node = network.coordinator(1, "node1", 9001)
    assert (node.id, node is broker(network, 1)) == (COORDINATOR - 1, False)
    assert network.coordinator(1, "node1", 9001) is node
    done: list[OutgoingCall] = []
    ask(network, node, done)
    ask(network, broker(network, 1))
    assert len(network.to_open) == 2
    assert network.coordinator(1, "elsewhere", 9001) is not node
    assert done[0].reason == "the coordinator has a new address"


def test_who_was_only_asked_to_find_the_others_is_hung_up_on() -> None:
    network = network_of(brokers=0)
    boot = network.least_loaded()
    assert boot
    ask(network, boot)
    assert boot.link
    boot.link.state = LinkState.READY
    boot.link._queue.clear()
    network.tick()
    assert boot.link, "nobody else is known"
    network.update_brokers({1: ("node1", 9001)})
    network.tick()
    assert boot.link is None


def test_hanging_up_everywhere() -> None:
    network, done = network_of(), []
    nodes = [broker(network, 1), network.coordinator(2, "node2", 9002)]
    for node in nodes:
        ask(network, node, done)
    network.close()
    assert [call.reason for call in done] == ["the consumer is closed"] * 2
    assert [node.link for node in nodes] == [None, None]
