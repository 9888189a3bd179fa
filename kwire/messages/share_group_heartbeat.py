"""ShareGroupHeartbeat (key 76): join a share group, stay in it, or leave it (KIP-932).

A field is null if its value has not changed since the last heartbeat of the member. v0 was early access in Kafka 3.9;
v1 is the first stable version.
"""

from uuid import UUID

from kwire.schema import Api, Array, Int16, Int32, Nested, String, Uuid, request, response, struct

SHARE_GROUP_HEARTBEAT = Api(76, versions="0-1", flexible="0+")


@request(SHARE_GROUP_HEARTBEAT)
class ShareGroupHeartbeatRequest:
    group_id: str = String(entity="groupId")
    member_id: str = String()
    member_epoch: int = Int32()
    rack_id: str | None = String(null=True, default=None)
    subscribed_topic_names: list[str] | None = Array(String, null=True, default=None, entity="topicName")


@response(SHARE_GROUP_HEARTBEAT)
class ShareGroupHeartbeatResponse:
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
