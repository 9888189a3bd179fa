"""The resource ``/v1/transactions``: the transactional ids and their current transactions."""

from __future__ import annotations

from typing import Any

from mockbroker.api.snapshots import TransactionSnapshot
from mockbroker.control.control import Control
from mockbroker.control.paging import page_of
from mockbroker.control.routes import Answer, CheckedRequest
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


async def read(control: Control, call: CheckedRequest) -> Answer:
    """Answer GET /v1/transactions: return a page of the transactional ids, each with its current transaction."""
    return page_of(call, control.cluster.transactions(), transaction_json)


def transaction_json(each: TransactionSnapshot) -> dict[str, Any]:
    """Return a transactional id and its current transaction as a JSON object."""
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
