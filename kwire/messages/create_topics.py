"""CreateTopics (key 19): create topics, or check whether they could be created.

v1 adds the flag validate_only and the error message; v2 adds the throttle time; v4 allows -1 partitions or replicas,
which means the default of the broker (KIP-464); v5 is flexible, and adds partitions and configuration to the response
(KIP-525); v7 adds topic ids.
"""

from uuid import UUID

from kwire.schema import Api, Array, Bool, Int8, Int16, Int32, String, Uuid, request, response, struct

CREATE_TOPICS = Api(19, versions="0-7", flexible="5+")


@request(CREATE_TOPICS)
class CreateTopicsRequest:
    @struct
    class Topic:
        @struct
        class Assignment:
            partition_index: int = Int32()
            broker_ids: list[int] = Array(Int32, entity="brokerId")

        @struct
        class Config:
            name: str = String()
            value: str | None = String(null=True)

        name: str = String(entity="topicName")
        num_partitions: int = Int32()
        replication_factor: int = Int16()
        assignments: list[Assignment] = Array(Assignment)
        configs: list[Config] = Array(Config)

    topics: list[Topic] = Array(Topic)
    timeout_ms: int = Int32(default=60000)
    validate_only: bool = Bool("1+")


@response(CREATE_TOPICS)
class CreateTopicsResponse:
    @struct
    class Topic:
        @struct
        class Config:
            name: str = String()
            value: str | None = String(null=True)
            read_only: bool = Bool()
            config_source: int = Int8(default=-1, ignorable=True)
            is_sensitive: bool = Bool()

        name: str = String(entity="topicName")
        topic_id: UUID = Uuid("7+", ignorable=True)
        error_code: int = Int16()
        error_message: str | None = String("1+", null=True, ignorable=True)
        topic_config_error_code: int = Int16("5+", tag=0, ignorable=True)
        num_partitions: int = Int32("5+", default=-1, ignorable=True)
        replication_factor: int = Int16("5+", default=-1, ignorable=True)
        configs: list[Config] | None = Array(Config, "5+", null=True, ignorable=True)

    throttle_time_ms: int = Int32("2+", ignorable=True)
    topics: list[Topic] = Array(Topic)
