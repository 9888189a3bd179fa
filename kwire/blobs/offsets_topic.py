"""Records of ``__consumer_offsets``, in which group coordinators store their groups. A record is a key and a value.

Record types 0 and 1 are committed offsets, 2 classic groups, 3 to 8 and 16 consumer groups (KIP-848), 9 to 15 share
groups (KIP-932), 17 to 23 Streams groups (KIP-1071). ``blobs.RECORDS`` lists the message name of each type. The
definitions are from Kafka 4.2.0, except those of type 9, which are from 3.9.1.
"""

from uuid import UUID

from kwire.schema import Array, Bytes, Int8, Int16, Int32, Int64, Nested, String, UInt16, Uuid, data, struct


@data(versions="0", flexible="none")
class LegacyOffsetCommitKey:
    group: str = String()
    topic: str = String()
    partition: int = Int32()


@data(versions="0", flexible="none")
class LegacyOffsetCommitValue:
    """A committed offset as brokers before 0.9 wrote it."""

    offset: int = Int64()
    metadata: str = String()
    commit_timestamp: int = Int64()


@data(versions="0", flexible="none")
class OffsetCommitKey:
    group: str = String()
    topic: str = String()
    partition: int = Int32()


@data(versions="0-4", flexible="4+")
class OffsetCommitValue:
    """A committed offset of a group.

    v1 adds expire_timestamp; v2 removes expire_timestamp (KIP-211); v3 adds the leader epoch; v4 is flexible and adds
    the topic id.
    """

    offset: int = Int64()
    leader_epoch: int = Int32("3+", default=-1, ignorable=True)
    metadata: str = String()
    commit_timestamp: int = Int64()
    expire_timestamp: int = Int64("1", default=-1, ignorable=True)
    topic_id: UUID = Uuid("4+", tag=0, ignorable=True)


@data(versions="0", flexible="none")
class GroupMetadataKey:
    group: str = String()


@data(versions="0-4", flexible="4+")
class GroupMetadataValue:
    """The state of a classic group: its generation, and its members with their assignments.

    v1 adds the rebalance timeout; v2 the time of the last state change; v3 static members; v4 is flexible.
    """

    @struct
    class Member:
        member_id: str = String()
        group_instance_id: str | None = String("3+", null=True, default=None, ignorable=True)
        client_id: str = String()
        client_host: str = String()
        rebalance_timeout: int = Int32("1+", default=-1, ignorable=True)
        session_timeout: int = Int32()
        subscription: bytes = Bytes()
        assignment: bytes = Bytes()

    protocol_type: str = String()
    generation: int = Int32()
    protocol: str | None = String(null=True)
    leader: str | None = String(null=True)
    current_state_timestamp: int = Int64("2+", default=-1, ignorable=True)
    members: list[Member] = Array(Member)


@data(versions="0", flexible="none")
class ConsumerGroupMetadataKey:
    group_id: str = String()


@data(versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    """The group epoch of a consumer group (KIP-848)."""

    epoch: int = Int32()
    metadata_hash: int = Int64(tag=0)


@data(versions="0", flexible="none")
class ConsumerGroupPartitionMetadataKey:
    group_id: str = String()


@data(versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    """The topics of a consumer group with partition counts and racks.

    Kafka 4.1 and later store a hash of this data in ConsumerGroupMetadataValue instead.
    """

    @struct
    class Topic:
        @struct
        class Partition:
            partition: int = Int32()
            racks: list[str] = Array(String)

        topic_id: UUID = Uuid()
        topic_name: str = String()
        num_partitions: int = Int32()
        partition_metadata: list[Partition] = Array(Partition)

    topics: list[Topic] = Array(Topic)


@data(versions="0", flexible="none")
class ConsumerGroupMemberMetadataKey:
    group_id: str = String()
    member_id: str = String()


@data(versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    """A member of a consumer group, with its subscription.

    Attributes:
        classic_member_metadata: data of a member that uses the classic protocol; None for a member that uses the
            consumer protocol.
    """

    @struct
    class ClassicMemberMetadata:
        @struct
        class Protocol:
            name: str = String()
            metadata: bytes = Bytes()

        session_timeout_ms: int = Int32()
        supported_protocols: list[Protocol] = Array(Protocol)

    instance_id: str | None = String(null=True)
    rack_id: str | None = String(null=True)
    client_id: str = String()
    client_host: str = String()
    subscribed_topic_names: list[str] = Array(String)
    subscribed_topic_regex: str | None = String(null=True)
    rebalance_timeout_ms: int = Int32(default=-1)
    server_assignor: str | None = String(null=True)
    classic_member_metadata: ClassicMemberMetadata | None = Nested(ClassicMemberMetadata, null=True, tag=0)


@data(versions="0", flexible="none")
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str = String()


@data(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    """The epoch of a consumer group's target assignment."""

    assignment_epoch: int = Int32()


@data(versions="0", flexible="none")
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str = String()
    member_id: str = String()


@data(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    """The target assignment of a consumer group member."""

    @struct
    class TopicPartition:
        topic_id: UUID = Uuid()
        partitions: list[int] = Array(Int32)

    topic_partitions: list[TopicPartition] = Array(TopicPartition)


@data(versions="0", flexible="none")
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str = String()
    member_id: str = String()


@data(versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    """The current assignment of a consumer group member."""

    @struct
    class TopicPartition:
        topic_id: UUID = Uuid()
        partitions: list[int] = Array(Int32)

    member_epoch: int = Int32()
    previous_member_epoch: int = Int32()
    state: int = Int8()
    assigned_partitions: list[TopicPartition] = Array(TopicPartition)
    partitions_pending_revocation: list[TopicPartition] = Array(TopicPartition)


@data(versions="0", flexible="none")
class ShareGroupPartitionMetadataKey:
    group_id: str = String()


@data(versions="0", flexible="0+")
class ShareGroupPartitionMetadataValue:
    """The initialized and the deleted topics of a share group.

    Only Kafka 3.9, where share groups were not stable, writes this record. Later releases write
    ShareGroupStatePartitionMetadata.
    """

    @struct
    class TopicPartitions:
        topic_id: UUID = Uuid()
        topic_name: str = String()
        partitions: list[int] = Array(Int32)

    @struct
    class Topic:
        topic_id: UUID = Uuid()
        topic_name: str = String()

    initialized_topics: list[TopicPartitions] = Array(TopicPartitions)
    deleting_topics: list[Topic] = Array(Topic)


@data(versions="0", flexible="none")
class ShareGroupMemberMetadataKey:
    group_id: str = String()
    member_id: str = String()


@data(versions="0", flexible="0+")
class ShareGroupMemberMetadataValue:
    """A member of a share group."""

    rack_id: str | None = String(null=True)
    client_id: str = String()
    client_host: str = String()
    subscribed_topic_names: list[str] = Array(String)


@data(versions="0", flexible="none")
class ShareGroupMetadataKey:
    group_id: str = String()


@data(versions="0", flexible="0+")
class ShareGroupMetadataValue:
    """The group epoch of a share group.

    In Kafka 3.9, where share groups were not stable, version 0 had no metadata hash.
    """

    epoch: int = Int32()
    metadata_hash: int = Int64()


@data(versions="0", flexible="none")
class ShareGroupTargetAssignmentMetadataKey:
    group_id: str = String()


@data(versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue:
    """The epoch of a share group's target assignment."""

    assignment_epoch: int = Int32()


@data(versions="0", flexible="none")
class ShareGroupTargetAssignmentMemberKey:
    group_id: str = String()
    member_id: str = String()


@data(versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue:
    """The target assignment of a share group member."""

    @struct
    class TopicPartition:
        topic_id: UUID = Uuid()
        partitions: list[int] = Array(Int32)

    topic_partitions: list[TopicPartition] = Array(TopicPartition)


@data(versions="0", flexible="none")
class ShareGroupCurrentMemberAssignmentKey:
    group_id: str = String()
    member_id: str = String()


@data(versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue:
    """The current assignment of a share group member."""

    @struct
    class TopicPartition:
        topic_id: UUID = Uuid()
        partitions: list[int] = Array(Int32)

    member_epoch: int = Int32()
    previous_member_epoch: int = Int32()
    state: int = Int8()
    assigned_partitions: list[TopicPartition] = Array(TopicPartition)


@data(versions="0", flexible="none")
class ShareGroupStatePartitionMetadataKey:
    group_id: str = String()


@data(versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue:
    """The partitions of a share group, in three lists by their status in the share coordinator.

    A partition is being initialized, is initialized, or is being deleted.
    """

    @struct
    class TopicPartitions:
        topic_id: UUID = Uuid()
        topic_name: str = String()
        partitions: list[int] = Array(Int32)

    @struct
    class Topic:
        topic_id: UUID = Uuid()
        topic_name: str = String()

    initializing_topics: list[TopicPartitions] = Array(TopicPartitions)
    initialized_topics: list[TopicPartitions] = Array(TopicPartitions)
    deleting_topics: list[Topic] = Array(Topic)


@data(versions="0", flexible="none")
class ConsumerGroupRegularExpressionKey:
    group_id: str = String()
    regular_expression: str = String()


@data(versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    """The topics that match a regular expression of a consumer group."""

    topics: list[str] = Array(String)
    version: int = Int64()
    timestamp: int = Int64()


@data(versions="0", flexible="none")
class StreamsGroupMetadataKey:
    group_id: str = String()


@data(versions="0", flexible="0+")
class StreamsGroupMetadataValue:
    """The group epoch of a Streams group."""

    @struct
    class Config:
        key: str = String()
        value: str = String()

    epoch: int = Int32()
    metadata_hash: int = Int64()
    validated_topology_epoch: int = Int32(tag=0, default=-1)
    last_assignment_configs: list[Config] | None = Array(Config, null=True, tag=1)


@data(versions="0", flexible="none")
class StreamsGroupMemberMetadataKey:
    group_id: str = String()
    member_id: str = String()


@data(versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue:
    """A member of a Streams group."""

    @struct
    class Endpoint:
        host: str = String()
        port: int = UInt16()

    @struct
    class KeyValue:
        key: str = String()
        value: str = String()

    instance_id: str | None = String(null=True)
    rack_id: str | None = String(null=True)
    client_id: str = String()
    client_host: str = String()
    rebalance_timeout_ms: int = Int32(default=-1)
    topology_epoch: int = Int32()
    process_id: str = String()
    user_endpoint: Endpoint | None = Nested(Endpoint, null=True, default=None)
    client_tags: list[KeyValue] = Array(KeyValue)


@data(versions="0", flexible="none")
class StreamsGroupTargetAssignmentMetadataKey:
    group_id: str = String()


@data(versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue:
    """The epoch of a Streams group's target assignment."""

    assignment_epoch: int = Int32()


@data(versions="0", flexible="none")
class StreamsGroupTargetAssignmentMemberKey:
    group_id: str = String()
    member_id: str = String()


@data(versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue:
    """The tasks in the target assignment of a Streams group member."""

    @struct
    class TaskIds:
        subtopology_id: str = String()
        partitions: list[int] = Array(Int32)

    active_tasks: list[TaskIds] = Array(TaskIds)
    standby_tasks: list[TaskIds] = Array(TaskIds)
    warmup_tasks: list[TaskIds] = Array(TaskIds)


@data(versions="0", flexible="none")
class StreamsGroupCurrentMemberAssignmentKey:
    group_id: str = String()
    member_id: str = String()


@data(versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue:
    """The tasks in the current assignment of a Streams group member."""

    @struct
    class TaskIds:
        subtopology_id: str = String()
        partitions: list[int] = Array(Int32)
        assignment_epochs: list[int] | None = Array(Int32, null=True, tag=0)

    member_epoch: int = Int32()
    previous_member_epoch: int = Int32()
    state: int = Int8()
    active_tasks: list[TaskIds] = Array(TaskIds)
    standby_tasks: list[TaskIds] = Array(TaskIds)
    warmup_tasks: list[TaskIds] = Array(TaskIds)
    active_tasks_pending_revocation: list[TaskIds] = Array(TaskIds)
    standby_tasks_pending_revocation: list[TaskIds] = Array(TaskIds)
    warmup_tasks_pending_revocation: list[TaskIds] = Array(TaskIds)


@data(versions="0", flexible="none")
class StreamsGroupTopologyKey:
    group_id: str = String()


@data(versions="0", flexible="0+")
class StreamsGroupTopologyValue:
    """The topology of a Streams application: subtopologies and their topics."""

    @struct
    class Subtopology:
        @struct
        class TopicInfo:
            @struct
            class Config:
                key: str = String()
                value: str = String()

            name: str = String()
            partitions: int = Int32()
            replication_factor: int = Int16()
            topic_configs: list[Config] = Array(Config)

        @struct
        class CopartitionGroup:
            source_topics: list[int] = Array(Int16)
            source_topic_regex: list[int] = Array(Int16)
            repartition_source_topics: list[int] = Array(Int16)

        subtopology_id: str = String()
        source_topics: list[str] = Array(String)
        source_topic_regex: list[str] = Array(String)
        state_changelog_topics: list[TopicInfo] = Array(TopicInfo)
        repartition_sink_topics: list[str] = Array(String)
        repartition_source_topics: list[TopicInfo] = Array(TopicInfo)
        copartition_groups: list[CopartitionGroup] = Array(CopartitionGroup)

    epoch: int = Int32()
    subtopologies: list[Subtopology] = Array(Subtopology)
