"""ConsumerProtocol: subscription and assignment of groups with protocol type ``consumer``, in JoinGroup and SyncGroup.

The coordinator does not decode these bytes; assignors do. Subscription and assignment both begin with their version, an
int16. v1 adds owned partitions (KIP-429); v2 the generation (KIP-792); v3 the rack (KIP-881).
"""

from kwire.schema import Array, Bytes, Int32, String, data, struct


@data(versions="0-3", flexible="none")
class ConsumerProtocolSubscription:
    @struct
    class TopicPartition:
        topic: str = String(entity="topicName")
        partitions: list[int] = Array(Int32)

    topics: list[str] = Array(String)
    user_data: bytes | None = Bytes(null=True, default=None)
    owned_partitions: list[TopicPartition] = Array(TopicPartition, "1+", ignorable=True)
    generation_id: int = Int32("2+", default=-1, ignorable=True)
    rack_id: str | None = String("3+", null=True, default=None, ignorable=True)


@data(versions="0-3", flexible="none")
class ConsumerProtocolAssignment:
    @struct
    class TopicPartition:
        topic: str = String(entity="topicName")
        partitions: list[int] = Array(Int32)

    assigned_partitions: list[TopicPartition] = Array(TopicPartition)
    user_data: bytes | None = Bytes(null=True, default=None)
