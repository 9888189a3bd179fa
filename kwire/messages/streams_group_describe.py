"""StreamsGroupDescribe (key 89): request the states, topologies, members and tasks of Streams groups (KIP-1071)."""

from kwire.schema import Api, Array, Bool, Int16, Int32, Int64, Nested, String, UInt16, request, response, struct

STREAMS_GROUP_DESCRIBE = Api(89, versions="0", flexible="0+")


@struct
class KeyValue:
    key: str = String()
    value: str = String()


@request(STREAMS_GROUP_DESCRIBE)
class StreamsGroupDescribeRequest:
    group_ids: list[str] = Array(String, entity="groupId")
    include_authorized_operations: bool = Bool()


@response(STREAMS_GROUP_DESCRIBE)
class StreamsGroupDescribeResponse:
    @struct
    class Group:
        @struct
        class Topology:
            @struct
            class Subtopology:
                @struct
                class TopicInfo:
                    name: str = String(entity="topicName")
                    partitions: int = Int32()
                    replication_factor: int = Int16()
                    topic_configs: list[KeyValue] = Array(KeyValue)

                subtopology_id: str = String()
                source_topics: list[str] = Array(String, entity="topicName")
                repartition_sink_topics: list[str] = Array(String, entity="topicName")
                state_changelog_topics: list[TopicInfo] = Array(TopicInfo)
                repartition_source_topics: list[TopicInfo] = Array(TopicInfo)

            epoch: int = Int32()
            subtopologies: list[Subtopology] | None = Array(Subtopology, null=True, default=None)

        @struct
        class Member:
            @struct
            class Endpoint:
                host: str = String()
                port: int = UInt16()

            @struct
            class TaskOffset:
                subtopology_id: str = String()
                partition: int = Int32()
                offset: int = Int64()

            @struct
            class Assignment:
                @struct
                class TaskIds:
                    subtopology_id: str = String()
                    partitions: list[int] = Array(Int32)

                active_tasks: list[TaskIds] = Array(TaskIds)
                standby_tasks: list[TaskIds] = Array(TaskIds)
                warmup_tasks: list[TaskIds] = Array(TaskIds)

            member_id: str = String()
            member_epoch: int = Int32()
            instance_id: str | None = String(null=True, default=None)
            rack_id: str | None = String(null=True, default=None)
            client_id: str = String()
            client_host: str = String()
            topology_epoch: int = Int32()
            process_id: str = String()
            user_endpoint: Endpoint | None = Nested(Endpoint, null=True, default=None)
            client_tags: list[KeyValue] = Array(KeyValue)
            task_offsets: list[TaskOffset] = Array(TaskOffset)
            task_end_offsets: list[TaskOffset] = Array(TaskOffset)
            assignment: Assignment = Nested(Assignment)
            target_assignment: Assignment = Nested(Assignment)
            is_classic: bool = Bool()

        error_code: int = Int16()
        error_message: str | None = String(null=True, default=None)
        group_id: str = String(entity="groupId")
        group_state: str = String()
        group_epoch: int = Int32()
        assignment_epoch: int = Int32()
        topology: Topology | None = Nested(Topology, null=True, default=None)
        members: list[Member] = Array(Member)
        authorized_operations: int = Int32(default=-2147483648)

    throttle_time_ms: int = Int32()
    groups: list[Group] = Array(Group)
