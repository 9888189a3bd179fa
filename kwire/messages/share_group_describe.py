"""ShareGroupDescribe (key 77): request the states, members and assignments of share groups (KIP-932).

v0 was early access in Kafka 3.9; v1 is the first stable version.
"""

from uuid import UUID

from kwire.schema import Api, Array, Bool, Int16, Int32, Nested, String, Uuid, request, response, struct

SHARE_GROUP_DESCRIBE = Api(77, versions="0-1", flexible="0+")


@request(SHARE_GROUP_DESCRIBE)
class ShareGroupDescribeRequest:
    group_ids: list[str] = Array(String, entity="groupId")
    include_authorized_operations: bool = Bool()


@response(SHARE_GROUP_DESCRIBE)
class ShareGroupDescribeResponse:
    @struct
    class Group:
        @struct
        class Member:
            @struct
            class Assignment:
                @struct
                class TopicPartition:
                    topic_id: UUID = Uuid()
                    topic_name: str = String(entity="topicName")
                    partitions: list[int] = Array(Int32)

                topic_partitions: list[TopicPartition] = Array(TopicPartition)

            member_id: str = String()
            rack_id: str | None = String(null=True, default=None)
            member_epoch: int = Int32()
            client_id: str = String()
            client_host: str = String()
            subscribed_topic_names: list[str] = Array(String, entity="topicName")
            assignment: Assignment = Nested(Assignment)

        error_code: int = Int16()
        error_message: str | None = String(null=True, default=None)
        group_id: str = String(entity="groupId")
        group_state: str = String()
        group_epoch: int = Int32()
        assignment_epoch: int = Int32()
        assignor_name: str = String()
        members: list[Member] = Array(Member)
        authorized_operations: int = Int32(default=-2147483648)

    throttle_time_ms: int = Int32()
    groups: list[Group] = Array(Group)
