"""The simulated process of the brokers: which responses the invariant checkers see as acknowledged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kwire.apikeys import ApiKey
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from mockbroker.base.effects import Call, Client, Ticket
from mockbroker.lab.simulation.network import Link, Wire
from mockbroker.lab.simulation.schemes import swarm
from mockbroker.lab.simulation.shell import SimulatedConnection
from mockbroker.lab.simulation.world import World

CLIENT = Client(0, "m0", "/127.0.0.1")


@pytest.mark.parametrize("by_rule", [False, True], ids=["response of the broker", "response of a fault rule"])
def test_unsent_response_of_a_closed_connection_is_acknowledged(by_rule):
    """A response that a fault rule has made does not acknowledge anything, whether it is sent or not."""
    world = World(replace(swarm(1, 100), sync=-1.0))
    shell, seen = world.shell, list[Any]()
    shell.watchers.acknowledged[ApiKey.HEARTBEAT] = [lambda _broker, call, _response, _now: seen.append(call)]
    connection = SimulatedConnection(shell, Wire(1, world.clients[0], Link(), 0, CLIENT))
    call = Call(Ticket(1, 1, ApiKey.HEARTBEAT, 4), CLIENT, HeartbeatRequest(group_id="g"))
    if not by_rule:
        shell.proceed(call, 0.0)
    shell.closed(connection, [(call, HeartbeatResponse())])
    shell.turn()
    assert seen == ([] if by_rule else [call])
