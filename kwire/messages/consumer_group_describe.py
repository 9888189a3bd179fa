"""ConsumerGroupDescribe (key 69): request the states, members and assignments of consumer groups (KIP-848).

v1 adds the member type: classic or consumer protocol (KIP-1099).
"""

from uuid import UUID

from kwire.schema import Api, Array, Bool, Int8, Int16, Int32, Nested, String, Uuid, request, response, struct

CONSUMER_GROUP_DESCRIBE = Api(69, versions="0-1", flexible="0+")


@request(CONSUMER_GROUP_DESCRIBE)
class ConsumerGroupDescribeRequest:
    group_ids: list[str] = Array(String, entity="groupId")
    include_authorized_operations: bool = Bool()


@response(CONSUMER_GROUP_DESCRIBE)
class ConsumerGroupDescribeResponse:
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
            instance_id: str | None = String(null=True, default=None)
            rack_id: str | None = String(null=True, default=None)
            member_epoch: int = Int32()
            client_id: str = String()
            client_host: str = String()
            subscribed_topic_names: list[str] = Array(String, entity="topicName")
            subscribed_topic_regex: str | None = String(null=True, default=None)
            assignment: Assignment = Nested(Assignment)
            target_assignment: Assignment = Nested(Assignment)
            member_type: int = Int8("1+", default=-1, ignorable=True)

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
