"""The state of a ShareFetch request. Source: Kafka's DelayedShareFetch."""

from __future__ import annotations

from dataclasses import field

from kwire import ErrorCode
from kwire.lazy_dataclass import dataclass
from kwire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from mockbroker.base.effects import Call
from mockbroker.share.acknowledge import AcknowledgeError
from mockbroker.share.group_settings import ShareGroupSettings
from mockbroker.share.sessions import PartitionKey, ShareSession
from mockbroker.share.state import StateKey
from mockbroker.topics.model import Partition

PartitionResponse = ShareFetchResponse.Topic.Partition


@dataclass(slots=True)
class PendingShareFetch:
    """A ShareFetch request that may wait for records.

    Attributes:
        call: the request, its client, and its ticket (the object that identifies the request).
        settings: settings of the group.
        session: the share session, if it existed before the request; None for a request that creates or ends a session.
        opened: the share session, even if this request has created it; None for a request that ends a session.
        epoch: session epoch after this request. If the session has a different epoch, a later request has used the
            session.
        partitions: the partitions to read, in the order in which they are read.
        responses: responses of partitions with errors.
        acknowledged: result of each acknowledged partition: the error; None if the acknowledgement was successful.
        expires_at: end of the maximum wait in client time, in seconds.
        error: error of the response at the end of the wait; NONE to return the available records.
    """

    call: Call[ShareFetchRequest]
    settings: ShareGroupSettings
    session: ShareSession | None = None
    opened: ShareSession | None = None
    epoch: int = 0
    partitions: list[tuple[StateKey, Partition]] = field(default_factory=list)
    responses: dict[PartitionKey, PartitionResponse] = field(default_factory=dict)
    acknowledged: dict[PartitionKey, AcknowledgeError | None] = field(default_factory=dict)
    expires_at: float = 0.0
    error: ErrorCode = ErrorCode.NONE

    @property
    def group_id(self) -> str:
        """The group id in the request."""
        return self.call.request.group_id or ""

    @property
    def watched(self) -> list[PartitionKey]:
        """Topic id and partition index of each partition to read."""
        return [(key.topic_id, key.partition) for key, _ in self.partitions]
