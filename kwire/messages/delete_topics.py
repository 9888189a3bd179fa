"""DeleteTopics (key 20): delete topics with all records.

v1 adds the throttle time; v4 is flexible; v5 adds the error message; v6 allows topics by name or id (KIP-516).
"""

from uuid import UUID

from kwire.schema import Api, Array, Int16, Int32, String, Uuid, request, response, struct

DELETE_TOPICS = Api(20, versions="0-6", flexible="4+")


@request(DELETE_TOPICS)
class DeleteTopicsRequest:
    @struct
    class Topic:
        name: str | None = String(null=True, default=None, entity="topicName")
        topic_id: UUID = Uuid()

    topics: list[Topic] = Array(Topic, "6+")
    topic_names: list[str] = Array(String, "0-5", ignorable=True, entity="topicName")
    timeout_ms: int = Int32()


@response(DELETE_TOPICS)
class DeleteTopicsResponse:
    @struct
    class Topic:
        name: str | None = String(null="6+", entity="topicName")
        topic_id: UUID = Uuid("6+", ignorable=True)
        error_code: int = Int16()
        error_message: str | None = String("5+", null=True, default=None, ignorable=True)

    throttle_time_ms: int = Int32("1+", ignorable=True)
    responses: list[Topic] = Array(Topic)
