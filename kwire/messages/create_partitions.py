"""CreatePartitions (key 37): add partitions to topics.

v2 is flexible; v3 has the same fields, and fails with THROTTLING_QUOTA_EXCEEDED if a quota is exceeded (KIP-599).
"""

from kwire.schema import Api, Array, Bool, Int16, Int32, String, request, response, struct

CREATE_PARTITIONS = Api(37, versions="0-3", flexible="2+")


@request(CREATE_PARTITIONS)
class CreatePartitionsRequest:
    @struct
    class Topic:
        @struct
        class Assignment:
            broker_ids: list[int] = Array(Int32, entity="brokerId")

        name: str = String(entity="topicName")
        count: int = Int32()
        assignments: list[Assignment] | None = Array(Assignment, null=True)

    topics: list[Topic] = Array(Topic)
    timeout_ms: int = Int32()
    validate_only: bool = Bool()


@response(CREATE_PARTITIONS)
class CreatePartitionsResponse:
    @struct
    class Result:
        name: str = String(entity="topicName")
        error_code: int = Int16()
        error_message: str | None = String(null=True, default=None)

    throttle_time_ms: int = Int32()
    results: list[Result] = Array(Result)
