"""The resource ``/v1/connections``: the connections of Kafka clients."""

from __future__ import annotations

from typing import Any

from mockbroker.api.connections import ConnectionSnapshot
from mockbroker.control.control import Control
from mockbroker.control.feed import iso
from mockbroker.control.paging import page_of
from mockbroker.control.problems import Refused
from mockbroker.control.routes import Answer, CheckedRequest, Parameter, paging
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


async def read(control: Control, call: CheckedRequest) -> Answer:
    """Answer GET /v1/connections: return a page of the open connections."""
    return page_of(call, control.cluster.connections(), connection_json)


def connection_json(each: ConnectionSnapshot) -> dict[str, Any]:
    """Return a connection as a JSON object."""
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


async def close(control: Control, call: CheckedRequest) -> Answer:
    """Answer DELETE /v1/connections/{connection}: close a connection."""
    number = Whole().parse(call.path["connection"])
    if not isinstance(number, int):
        raise Refused(404, "connection ids are numbers: GET /v1/connections lists the open connections")
    control.cluster.disconnect(number, reset=call.query["reset"])
    return Answer()
