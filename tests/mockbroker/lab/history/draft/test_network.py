"""Messages on a connection arrive in order, after the network delay."""

from __future__ import annotations

from mockbroker.lab.history.draft.network import DraftConnection, Network
from mockbroker.lab.simulation.queue import Queue


def test_each_way_takes_its_time() -> None:
    queue, heard = Queue(), list[tuple[str, float]]()
    network = Network(queue, 0.5)
    network.delays["far"] = 2.0
    for number, consumer in enumerate(("near", "far")):
        connection = DraftConnection(number, consumer, 1, 0)
        network.to_broker(connection, lambda what: heard.append((what, queue.now)), f"{consumer} there")
        network.to_consumer(connection, lambda what: heard.append((what, queue.now)), f"{consumer} back")
    for _ in range(4):
        queue.step()
    assert heard == [("near there", 0.5), ("near back", 0.5), ("far there", 2.0), ("far back", 2.0)]


def test_messages_of_one_connection_keep_their_order() -> None:
    queue, heard = Queue(), list[str]()
    network = Network(queue, 1.0)
    one, other = DraftConnection(1, "c", 1, 0), DraftConnection(2, "c", 2, 0)
    for send in (network.to_broker, network.to_consumer):
        network.delays["c"] = 1.0
        send(one, heard.append, "first")
        network.delays["c"] = 0.1
        send(one, heard.append, "second")
        send(other, heard.append, "elsewhere")
    for _ in range(6):
        queue.step()
    assert heard == ["elsewhere", "elsewhere", "first", "second", "first", "second"]
