"""Conversations about limits of connections, which record.py records; each function is one conversation."""

from __future__ import annotations

from prober import Prober
from quota_scripts import alter
from script import NEW, script

from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.metadata import MetadataRequest

VERSIONS = ApiVersionsRequest()
FORGOTTEN = 4_000  # milliseconds after which rates over two windows of 1 s are 0
MANY = 8  # the node is a broker and a controller, with some connections between the two
OTHERS = [f"other{number}" for number in range(MANY - 2)]
SHORT_WINDOWS = {"quota.window.num": 2, "quota.window.size.seconds": 1}


async def greet(p: Prober, *conns: str) -> None:
    for conn in conns:
        await p.ask(conn, VERSIONS, 0)


@script({"max.connections.per.ip": MANY}, (NEW,))
async def connections_of_an_address(p: Prober) -> None:
    """max.connections.per.ip: a connection above the limit is closed; a new one is accepted after another one has
    ended."""
    await greet(p, "A", "B", *OTHERS)
    await p.closed(await p.send("C", VERSIONS, 0))
    await p.closed(await p.send("D", VERSIONS, 0))
    await greet(p, "A", "B")
    await p.close("A")
    await p.wait(500, "until the broker has noticed it")
    await greet(p, "E")
    await p.closed(await p.send("F", VERSIONS, 0))


@script({"max.connections.per.ip": 1, "max.connections.per.ip.overrides": f"127.0.0.1:{MANY},127.0.0.2:1"}, (NEW,))
async def connections_of_an_address_of_its_own(p: Prober) -> None:
    """max.connections.per.ip.overrides sets the limits of single addresses."""
    await greet(p, "A", "B", *OTHERS)
    await p.closed(await p.send("C", VERSIONS, 0))


@script({"max.connections": MANY}, (NEW,))
async def connections_of_a_broker(p: Prober) -> None:
    """max.connections: a connection above the limit waits until another one has ended."""
    await greet(p, "A", "B", *OTHERS)
    third = await p.send("C", VERSIONS, 0)
    fourth = await p.send("D", VERSIONS, 0)
    await p.silent(third, 700)
    await greet(p, "A")
    await p.close("B")
    await p.answer(third)
    await p.silent(fourth, 1500)
    await p.close("C")
    await p.answer(fourth)


@script({"listener.name.plaintext.max.connections": 2, "max.connections": MANY}, (NEW,))
async def connections_of_a_listener(p: Prober) -> None:
    """listener.name.{name}.max.connections limits the connections of one listener in the same way as
    max.connections."""
    await greet(p, "A", "B")
    third = await p.send("C", VERSIONS, 0)
    await p.silent(third, 700)
    await p.close("A")
    await p.answer(third)


@script({"max.connection.creation.rate": 2, **SHORT_WINDOWS}, (NEW,))
async def connections_per_second(p: Prober) -> None:
    """max.connection.creation.rate: above the rate, the broker waits before it accepts more connections."""
    await p.wait(FORGOTTEN, "until earlier connections no longer count")
    await greet(p, "A", "B")
    third = await p.send("C", VERSIONS, 0)
    await p.silent(third, 350)
    await greet(p, "A")
    await p.answer(third)
    await p.wait(FORGOTTEN, "until they no longer count")
    await greet(p, "D", "E")


@script({"listener.name.plaintext.max.connection.creation.rate": 1, **SHORT_WINDOWS}, (NEW,))
async def connections_per_second_of_a_listener(p: Prober) -> None:
    """listener.name.{name}.max.connection.creation.rate: the broker waits for at most quota.window.size.seconds."""
    await p.wait(FORGOTTEN, "until earlier connections no longer count")
    await greet(p, "A")
    second = await p.send("B", VERSIONS, 0)
    await p.silent(second, 800)
    await p.answer(second)


@script(SHORT_WINDOWS, (NEW,))
async def connections_per_second_of_an_address(p: Prober) -> None:
    """The quota connection_creation_rate: a connection above it is closed after its throttle time, and its requests get
    no responses."""
    await p.ask("A", MetadataRequest(topics=[]), 9)
    await alter(p, {"ip": None}, connection_creation_rate=9)
    await alter(p, {"ip": "127.0.0.1"}, connection_creation_rate=2)
    await p.wait(FORGOTTEN, "until earlier connections no longer count")
    await greet(p, "B", "C")
    third = await p.send("D", VERSIONS, 0)
    await p.still_open("D", 300)
    await p.closed(third)
    await p.wait(FORGOTTEN, "until they no longer count")
    await greet(p, "E")
    await alter(p, {"ip": "127.0.0.1"}, connection_creation_rate=None)
    await alter(p, {"ip": None}, connection_creation_rate=None)
    await p.wait(300, "until the broker has heard of it")
    await greet(p, "F", "G", "H", "I")
