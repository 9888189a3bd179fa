"""Connections of Kafka clients."""

from __future__ import annotations

from typing import Any

from mockbroker.control.control import Control
from mockbroker.control.feed import iso
from mockbroker.control.paging import page
from mockbroker.control.problems import Refused
from mockbroker.control.routes import Answer, Call, Parameter, paging
from mockbroker.control.shapes import Flag, Object, Text, Whole, listed

CONNECTION = Object(
    {
        "id": Whole(),
        "client_id": Text(),
        "address": Text(),
        "listener": Text(),
        "broker": Whole(),
        "principal": Text(),
        "requests": Whole(),
        "since": Text(format="date-time"),
    },
    name="Connection",
)
CONNECTIONS = listed(CONNECTION)
LIST_PARAMETERS = paging(Whole())
CLOSE_PARAMETERS = (
    Parameter("reset", Flag(), "whether to send a TCP reset instead of the responses that are finished", False),
)


async def read(control: Control, call: Call) -> Answer:
    """Answer GET /v1/connections."""
    found = control.cluster.connections()

    def item(number: int) -> dict[str, Any]:
        each = found[number]
        return {
            "id": each.connection_id,
            "client_id": each.client_id,
            "address": each.address,
            "listener": each.listener,
            "broker": each.broker,
            "principal": each.principal,
            "requests": each.requests,
            "since": iso(each.since_ms / 1000),
        }

    return page(call, found, item)


async def close(control: Control, call: Call) -> Answer:
    """Answer DELETE /v1/connections/{connection}."""
    number = Whole().parse(call.path["connection"])
    if not isinstance(number, int):
        raise Refused(404, "the id of a connection is a number: GET /v1/connections lists all")
    control.cluster.disconnect(number, reset=call.query["reset"])
    return Answer()
