"""A Kafka consumer on trio: ``async with open_consumer(...) as consumer: async for record in consumer``.

It knows nothing of the broker beside it and works with any Kafka. Below ``driver.py`` there is no trio, socket, clock
or chance: what happened goes in (bytes, time, what the user asks for), what has to be done comes out.
"""

from mockbroker.client.consumer import Consumer, GroupMetadata, Interceptor, RebalanceListener, open_consumer
from mockbroker.client.errors import (
    AuthorizationFailed,
    BrokerError,
    CommitFailed,
    ConcurrentUse,
    ConsumerError,
    CorruptRecord,
    FencedInstance,
    IllegalUse,
    InconsistentGroupProtocol,
    LogTruncated,
    NoOffset,
    NotAssigned,
    RebalanceInProgress,
    TimedOut,
    UnjoinedGroup,
    UnknownAssignor,
    UnsupportedVersion,
    Wakeup,
)
from mockbroker.client.log_offsets import OffsetAndTimestamp
from mockbroker.client.metadata import TopicPartition
from mockbroker.client.positions import OffsetAndMetadata
from mockbroker.client.records import ConsumerRecord
from mockbroker.client.settings import Settings

__all__ = [
    "AuthorizationFailed",
    "BrokerError",
    "CommitFailed",
    "ConcurrentUse",
    "Consumer",
    "ConsumerError",
    "ConsumerRecord",
    "CorruptRecord",
    "FencedInstance",
    "GroupMetadata",
    "IllegalUse",
    "InconsistentGroupProtocol",
    "Interceptor",
    "LogTruncated",
    "NoOffset",
    "NotAssigned",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "RebalanceInProgress",
    "RebalanceListener",
    "Settings",
    "TimedOut",
    "TopicPartition",
    "UnjoinedGroup",
    "UnknownAssignor",
    "UnsupportedVersion",
    "Wakeup",
    "open_consumer",
]
