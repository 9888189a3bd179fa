"""Simulated TCP connections: cuts, TLS, logins, slow readers, and clients that vanish."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.network import Link, Wire
from mockbroker.lab.simulation.queue import Queue
from mockbroker.lab.simulation.run import repeated, run
from mockbroker.lab.simulation.schemes import PROTOCOLS, data, in_bytes
from mockbroker.lab.simulation.script import Fault
from mockbroker.lab.simulation.tcp.channel import END, Channel, cut
from mockbroker.lab.simulation.tcp.sockets import SimulatedSocket
from mockbroker.lab.simulation.world import World
from mockbroker.net.sockets import Sockets

SCRIPT = replace(data(4, 150), scheme="bytes")


class Peer:
    paused_until = 0.0

    def delay(self) -> float:
        return 0.01


def channel(queue: Queue, link: Link, arrived: list[bytes], broken: list[Wire]) -> Channel:
    wire = Wire(1, Peer(), link, 0, None)
    return Channel(queue, wire, Dice("channel"), arrived.append, "request", broken.append)


def deliver(queue: Queue) -> None:
    while queue.next < 1e9:
        queue.step()


def test_cuts_keep_all_bytes_in_order():
    dice, data = Dice("cuts"), bytes(range(80))
    parts = [cut(dice, data) for _ in range(300)]
    assert all(b"".join(each) == data for each in parts)
    assert {1, 2, 3, 4, 80} <= {len(each) for each in parts}


def test_segments_arrive_in_order_over_a_clogged_link():
    queue, link, arrived = Queue(), Link(clogged=True), list[bytes]()
    way = channel(queue, link, arrived, [])
    for number in range(20):
        way.send(b"%d," % number)
    way.end()
    deliver(queue)
    assert arrived == []
    link.clogged = False
    while link.held:
        what, with_ = link.held.popleft()
        queue.at(queue.now, what, *with_)
    deliver(queue)
    assert arrived[-1] == END
    assert b"".join(arrived) == b"".join(b"%d," % number for number in range(20))


def test_a_lost_message_arrives_in_part():
    lengths = set()
    for _ in range(30):
        queue, arrived, broken = Queue(), list[bytes](), list[Wire]()
        way = channel(queue, Link(lose="request"), arrived, broken)
        way._dice = Dice("lost", len(lengths), _)
        way.send(b"request")
        queue.step()
        assert len(broken) == 1
        assert b"request".startswith(b"".join(arrived))
        lengths.add(len(b"".join(arrived)))
    assert len(lengths) > 3


def test_a_socket_has_room_for_unread_bytes_only():
    sock = SimulatedSocket(Dice("socket"), 10, lambda: None)
    queue, arrived = Queue(), list[bytes]()
    sock.down = channel(queue, Link(), arrived, [])
    sent = 0
    while sock.writable:
        sent += sock.send(b"x" * 100)
    assert sent == sock.unread == 10
    with pytest.raises(BlockingIOError):
        sock.send(b"x")
    sock.client_has_read(4)
    assert 1 <= sock.send(b"x" * 100) <= 4
    sock.break_off()
    with pytest.raises(BrokenPipeError):
        sock.send(b"x")
    with pytest.raises(ConnectionResetError):
        sock.recv(1)


@pytest.mark.parametrize("protocol", dict.fromkeys(PROTOCOLS))
def test_runs_over_each_protocol_are_reproducible(protocol):
    outcome = repeated(
        replace(
            SCRIPT,
            protocol=protocol,
            settings={**SCRIPT.settings, "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"},
        )
    )
    assert not outcome.broken, outcome.text
    assert outcome.hash != run(SCRIPT).hash


def test_real_connections_are_drained_and_closed(monkeypatch):
    """A seed has slow readers, requests in parts, closed slow readers and idle connections of vanished clients."""
    happened = set()
    for name in ("send_more", "close_slow_reader", "end_drain", "close_overdue"):
        real = getattr(Sockets, name)

        def noted(self: Sockets, *what: Any, _name: str = name, _real: Any = real) -> Any:
            happened.add(_name)
            return _real(self, *what)

        monkeypatch.setattr(Sockets, name, noted)
    for seed in range(3):
        outcome = run(in_bytes(seed, 200))
        assert not outcome.broken, outcome.text
    assert {"send_more", "end_drain", "close_overdue"} <= happened


def test_connections_of_a_vanished_client_end_later():
    script = replace(in_bytes(2, 200), faults=(Fault(60, "vanish", 0, 400.0),), protocol="PLAINTEXT")
    world = World(replace(script, settings={**script.settings, "connections.max.idle.ms": 20_000}))
    world.shell.begin()
    for client in world.clients:
        client.start()
    while world.trace.events < 60:
        world.queue.step()
    before = set(world.shell.pump.connections)
    world._do(script.faults[0])
    dead = {wire.number for wire in world.shell.network._dead} & before
    assert dead
    world._wait(1.0)
    assert dead & set(world.shell.pump.connections)
    world._wait(60.0)
    left = [world.shell.pump.connections[number] for number in dead & set(world.shell.pump.connections)]
    assert all(each.requests.ticket is not None for each in left)
