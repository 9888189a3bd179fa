"""The static quorum of controllers, which clients cannot change. Source: Kafka's KafkaRaftClient."""

from __future__ import annotations

from uuid import UUID

from kwire import ErrorCode
from kwire.schema import ZERO_UUID
from mockbroker.base.texts import shortened
from mockbroker.broker.broker import Broker

VERBS = {"adding": "Add", "removing": "Remove"}


def change_error(broker: Broker, cluster_id: str | None, voter: tuple[int, UUID], change: str) -> tuple[ErrorCode, str]:
    """Return error code and error message for a request to change the voters. Every request gets an error.

    Args:
        broker: The state of the cluster.
        cluster_id: The cluster id in the request; None for no check.
        voter: Id and directory id of the controller in the request.
        change: The requested change: ``adding`` or ``removing``.
    """
    ours = broker.cluster.cluster_text
    if cluster_id not in (None, ours):
        text = f'The given id "{shortened(cluster_id or "")}" doesn\'t match the cluster id "{ours}"'
        return ErrorCode.INCONSISTENT_CLUSTER_ID, text
    if voter[0] < 0 or voter[1] == ZERO_UUID:
        text = f"{VERBS[change]} voter request didn't include a valid voter"
        return ErrorCode.INVALID_REQUEST, text
    text = f"Cluster doesn't support {change} voter because the kraft.version feature is 0"
    return ErrorCode.UNSUPPORTED_VERSION, text
