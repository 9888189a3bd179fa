"""Transactional ids and their transactions."""

from __future__ import annotations

from typing import Any

from mockbroker.control.control import Control
from mockbroker.control.paging import page
from mockbroker.control.routes import Answer, Call
from mockbroker.control.shapes import Items, Null, Object, Text, Whole, listed

TRANSACTION = Object(
    {
        "transactional_id": Text(),
        "producer_id": Whole(-1),
        "epoch": Whole(-1),
        "state": Text(),
        "timeout_ms": Whole(),
        "started_ms": Null(Whole()),
        "partitions": Items(Object({"topic": Text(), "partition": Whole()})),
        "coordinator": Whole(-1),
    },
    name="Transaction",
)
TRANSACTIONS = listed(TRANSACTION)


async def read(control: Control, call: Call) -> Answer:
    """Answer GET /v1/transactions."""
    found = control.cluster.transactions()

    def item(transactional_id: str) -> dict[str, Any]:
        each = found[transactional_id]
        return {
            "transactional_id": each.transactional_id,
            "producer_id": each.producer_id,
            "epoch": each.epoch,
            "state": each.state,
            "timeout_ms": each.timeout_ms,
            "started_ms": each.started_ms,
            "partitions": [{"topic": topic, "partition": index} for topic, index in each.partitions],
            "coordinator": each.coordinator,
        }

    return page(call, found, item)
