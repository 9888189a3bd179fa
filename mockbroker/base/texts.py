"""Texts of error messages that more than one place needs."""

from __future__ import annotations

from kwire import ErrorCode

LONGEST_QUOTED = 1_000  # characters of a text that are quoted in a message: a client's may fill a string by itself

OF_ERRORS = {  # Kafka's text of an error that has no text of its own
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the client library or"
    " the message was sent to an incompatible broker. See the broker logs for more details.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
}


def shortened(text: str) -> str:
    """What is quoted of a text that a client sent."""
    return text if len(text) <= LONGEST_QUOTED else f"{text[:LONGEST_QUOTED]}..."
