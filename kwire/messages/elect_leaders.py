"""ElectLeaders (key 43): trigger leader elections of partitions (KIP-183).

Election type 0 elects the preferred leader, and type 1 any live replica. Null partitions mean all partitions. v1 adds
the election type and the top-level error (KIP-460); v2 is flexible.
"""

from kwire.schema import Api, Array, Int8, Int16, Int32, String, request, response, struct

ELECT_LEADERS = Api(43, versions="0-2", flexible="2+")


@request(ELECT_LEADERS)
class ElectLeadersRequest:
    @struct
    class TopicPartition:
        topic: str = String(entity="topicName")
        partitions: list[int] = Array(Int32)

    election_type: int = Int8("1+")
    topic_partitions: list[TopicPartition] | None = Array(TopicPartition, null=True)
    timeout_ms: int = Int32(default=60000)


@response(ELECT_LEADERS)
class ElectLeadersResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_id: int = Int32()
            error_code: int = Int16()
            error_message: str | None = String(null=True)

        topic: str = String(entity="topicName")
        partition_result: list[Partition] = Array(Partition)

    throttle_time_ms: int = Int32()
    error_code: int = Int16("1+")
    replica_election_results: list[Topic] = Array(Topic)
