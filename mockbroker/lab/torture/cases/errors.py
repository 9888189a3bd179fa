"""Cases in which every request of an API is answered with the same error, until the misbehaviour stops."""

from __future__ import annotations

from collections.abc import Mapping

from mockbroker.lab.torture.case import Case

ERRORS: Mapping[str, str] = {  # errors by API
    "ApiVersions": "UNSUPPORTED_VERSION",
    "Metadata": "UNKNOWN_TOPIC_OR_PARTITION LEADER_NOT_AVAILABLE TOPIC_AUTHORIZATION_FAILED INVALID_TOPIC_EXCEPTION",
    "FindCoordinator": "COORDINATOR_NOT_AVAILABLE GROUP_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR",
    "JoinGroup": """UNKNOWN_MEMBER_ID MEMBER_ID_REQUIRED NOT_COORDINATOR COORDINATOR_LOAD_IN_PROGRESS
        INCONSISTENT_GROUP_PROTOCOL GROUP_MAX_SIZE_REACHED REBALANCE_IN_PROGRESS UNKNOWN_SERVER_ERROR
        FENCED_INSTANCE_ID""",
    "SyncGroup": "REBALANCE_IN_PROGRESS ILLEGAL_GENERATION UNKNOWN_MEMBER_ID NOT_COORDINATOR FENCED_INSTANCE_ID",
    "Heartbeat": """REBALANCE_IN_PROGRESS ILLEGAL_GENERATION UNKNOWN_MEMBER_ID NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE
        FENCED_INSTANCE_ID""",
    "ConsumerGroupHeartbeat": "FENCED_MEMBER_EPOCH UNKNOWN_MEMBER_ID UNSUPPORTED_ASSIGNOR NOT_COORDINATOR",
    "OffsetFetch": "UNSTABLE_OFFSET_COMMIT COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR UNKNOWN_MEMBER_ID",
    "OffsetCommit": """REBALANCE_IN_PROGRESS ILLEGAL_GENERATION OFFSET_METADATA_TOO_LARGE REQUEST_TIMED_OUT
        NOT_COORDINATOR FENCED_INSTANCE_ID STALE_MEMBER_EPOCH""",
    "ListOffsets": "NOT_LEADER_OR_FOLLOWER OFFSET_NOT_AVAILABLE LEADER_NOT_AVAILABLE UNKNOWN_SERVER_ERROR",
    "Fetch": """NOT_LEADER_OR_FOLLOWER FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH UNKNOWN_TOPIC_ID OFFSET_OUT_OF_RANGE
        KAFKA_STORAGE_ERROR CORRUPT_MESSAGE UNKNOWN_SERVER_ERROR TOPIC_AUTHORIZATION_FAILED INCONSISTENT_TOPIC_ID""",
    "Produce": """NOT_LEADER_OR_FOLLOWER NOT_ENOUGH_REPLICAS OUT_OF_ORDER_SEQUENCE_NUMBER UNKNOWN_PRODUCER_ID
        INVALID_RECORD KAFKA_STORAGE_ERROR REQUEST_TIMED_OUT DUPLICATE_SEQUENCE_NUMBER""",
    "InitProducerId": "COORDINATOR_LOAD_IN_PROGRESS CLUSTER_AUTHORIZATION_FAILED PRODUCER_FENCED",
}
OF_TOPICS = frozenset({"Metadata", "ListOffsets", "Fetch", "OffsetCommit", "Produce"})  # errors are those of topics
SESSION_ERRORS = "FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "FETCH_SESSION_TOPIC_ID_ERROR"


PUBLISHED = {
    ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"): "https://github.com/IBM/sarama/issues/2426",
    ("OffsetFetch", "NOT_COORDINATOR"): "https://github.com/confluentinc/confluent-kafka-javascript/issues/374",
}


def _case(api: str, error: str, **conditions: str) -> Case:
    return Case(
        name=f"{api}-{error}",
        step=api,
        description=f"answers every {api} with {error}",
        rules=({"api": api, "error": error, "times": "always", **conditions},),
        published=PUBLISHED.get((api, error), ""),
    )


CASES = [
    *(
        _case(api, error, **({"topic": "*"} if api in OF_TOPICS else {}))
        for api, errors in ERRORS.items()
        for error in errors.split()
    ),
    *(_case("Fetch", error) for error in SESSION_ERRORS),
]
