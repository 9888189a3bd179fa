"""ConsumerGroupHeartbeat (key 68): join a group of the consumer protocol, stay in it, or leave it (KIP-848).

A field is null if its value has not changed since the last heartbeat of the member. With member epoch 0 a member joins,
and with -1 it leaves. With -2 a static member leaves temporarily. v1 adds subscription by regular expression, and
requires member ids that the client generates (KIP-1082).
"""

from uuid import UUID

from kwire.schema import Api, Array, Int16, Int32, Nested, String, Uuid, request, response, struct

CONSUMER_GROUP_HEARTBEAT = Api(68, versions="0-1", flexible="0+")


@request(CONSUMER_GROUP_HEARTBEAT)
class ConsumerGroupHeartbeatRequest:
    @struct
    class TopicPartition:
        topic_id: UUID = Uuid()
        partitions: list[int] = Array(Int32)

    group_id: str = String(entity="groupId")
    member_id: str = String()
    member_epoch: int = Int32()
    instance_id: str | None = String(null=True, default=None)
    rack_id: str | None = String(null=True, default=None)
    rebalance_timeout_ms: int = Int32(default=-1)
    subscribed_topic_names: list[str] | None = Array(String, null=True, default=None, entity="topicName")
    subscribed_topic_regex: str | None = String("1+", null=True, default=None)
    server_assignor: str | None = String(null=True, default=None)
    topic_partitions: list[TopicPartition] | None = Array(TopicPartition, null=True, default=None)


@response(CONSUMER_GROUP_HEARTBEAT)
class ConsumerGroupHeartbeatResponse:
    @struct
    class Assignment:
        @struct
        class TopicPartition:
            topic_id: UUID = Uuid()
            partitions: list[int] = Array(Int32)

        topic_partitions: list[TopicPartition] = Array(TopicPartition)

    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    error_message: str | None = String(null=True, default=None)
    member_id: str | None = String(null=True, default=None)
    member_epoch: int = Int32()
    heartbeat_interval_ms: int = Int32()
    assignment: Assignment | None = Nested(Assignment, null=True, default=None)
