"""StreamsGroupHeartbeat (key 88): join a Streams group, stay in it, or leave it (KIP-1071).

A field is null if its value has not changed since the last heartbeat of the member. The statuses of the response are: 0
stale topology, 1 missing source topics, 2 wrong partition counts, 3 missing internal topics, 4 the application should
shut down, 5 the assignment is delayed.
"""

from kwire.schema import Api, Array, Bool, Int8, Int16, Int32, Int64, Nested, String, UInt16, request, response, struct

STREAMS_GROUP_HEARTBEAT = Api(88, versions="0", flexible="0+")


@struct
class KeyValue:
    key: str = String()
    value: str = String()


@request(STREAMS_GROUP_HEARTBEAT)
class StreamsGroupHeartbeatRequest:
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

            @struct
            class CopartitionGroup:
                source_topics: list[int] = Array(Int16)
                source_topic_regex: list[int] = Array(Int16)
                repartition_source_topics: list[int] = Array(Int16)

            subtopology_id: str = String()
            source_topics: list[str] = Array(String, entity="topicName")
            source_topic_regex: list[str] = Array(String)
            state_changelog_topics: list[TopicInfo] = Array(TopicInfo)
            repartition_sink_topics: list[str] = Array(String, entity="topicName")
            repartition_source_topics: list[TopicInfo] = Array(TopicInfo)
            copartition_groups: list[CopartitionGroup] = Array(CopartitionGroup)

        epoch: int = Int32()
        subtopologies: list[Subtopology] = Array(Subtopology)

    @struct
    class TaskIds:
        subtopology_id: str = String()
        partitions: list[int] = Array(Int32)

    @struct
    class Endpoint:
        host: str = String()
        port: int = UInt16()

    @struct
    class TaskOffset:
        subtopology_id: str = String()
        partition: int = Int32()
        offset: int = Int64()

    group_id: str = String(entity="groupId")
    member_id: str = String()
    member_epoch: int = Int32()
    endpoint_information_epoch: int = Int32()
    instance_id: str | None = String(null=True, default=None)
    rack_id: str | None = String(null=True, default=None)
    rebalance_timeout_ms: int = Int32(default=-1)
    topology: Topology | None = Nested(Topology, null=True, default=None)
    active_tasks: list[TaskIds] | None = Array(TaskIds, null=True, default=None)
    standby_tasks: list[TaskIds] | None = Array(TaskIds, null=True, default=None)
    warmup_tasks: list[TaskIds] | None = Array(TaskIds, null=True, default=None)
    process_id: str | None = String(null=True, default=None)
    user_endpoint: Endpoint | None = Nested(Endpoint, null=True, default=None)
    client_tags: list[KeyValue] | None = Array(KeyValue, null=True, default=None)
    task_offsets: list[TaskOffset] | None = Array(TaskOffset, null=True, default=None)
    task_end_offsets: list[TaskOffset] | None = Array(TaskOffset, null=True, default=None)
    shutdown_application: bool = Bool()


@response(STREAMS_GROUP_HEARTBEAT)
class StreamsGroupHeartbeatResponse:
    @struct
    class Status:
        status_code: int = Int8()
        status_detail: str = String()

    @struct
    class TaskIds:
        subtopology_id: str = String()
        partitions: list[int] = Array(Int32)

    @struct
    class EndpointPartitions:
        @struct
        class Endpoint:
            host: str = String()
            port: int = UInt16()

        @struct
        class TopicPartition:
            topic: str = String(entity="topicName")
            partitions: list[int] = Array(Int32)

        user_endpoint: Endpoint = Nested(Endpoint)
        active_partitions: list[TopicPartition] = Array(TopicPartition)
        standby_partitions: list[TopicPartition] = Array(TopicPartition)

    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    error_message: str | None = String(null=True, default=None)
    member_id: str = String()
    member_epoch: int = Int32()
    heartbeat_interval_ms: int = Int32()
    acceptable_recovery_lag: int = Int32()
    task_offset_interval_ms: int = Int32()
    status: list[Status] | None = Array(Status, null=True)
    active_tasks: list[TaskIds] | None = Array(TaskIds, null=True, default=None)
    standby_tasks: list[TaskIds] | None = Array(TaskIds, null=True, default=None)
    warmup_tasks: list[TaskIds] | None = Array(TaskIds, null=True, default=None)
    endpoint_information_epoch: int = Int32()
    partitions_by_user_endpoint: list[EndpointPartitions] | None = Array(EndpointPartitions, null=True, default=None)
