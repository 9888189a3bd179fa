"""A Kafka consumer for trio: ``async with open_consumer(...) as consumer: async for record in consumer``.

It works with any Kafka cluster and does not depend on mockbroker's broker. Its protocol logic is sans-IO: only
``driver.py`` and the modules above it use trio, sockets and clocks.
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
from mockbroker.client.settings import ConsumerSettings
from mockbroker.client.share.acknowledgements import AcknowledgeType, ShareRecord
from mockbroker.client.share.consumer import ShareConsumer, open_share_consumer
from mockbroker.client.share.settings import ShareSettings

__all__ = [
    "AcknowledgeType",
    "AuthorizationFailed",
    "BrokerError",
    "CommitFailed",
    "ConcurrentUse",
    "Consumer",
    "ConsumerError",
    "ConsumerRecord",
    "ConsumerSettings",
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
    "ShareConsumer",
    "ShareRecord",
    "ShareSettings",
    "TimedOut",
    "TopicPartition",
    "UnjoinedGroup",
    "UnknownAssignor",
    "UnsupportedVersion",
    "Wakeup",
    "open_consumer",
    "open_share_consumer",
]
