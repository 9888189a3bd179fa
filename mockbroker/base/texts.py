"""Texts of Kafka error messages that several request handlers use."""

from __future__ import annotations

from kwire import ErrorCode

LONGEST_QUOTED = 1_000  # maximum characters of a client's text in a message, as the size of a string is limited

OF_ERRORS = {  # Kafka's default message of each error
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the client library or"
    " the message was sent to an incompatible broker. See the broker logs for more details.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
}


def shortened(text: str) -> str:
    """Return a client's text, cut to LONGEST_QUOTED characters, for use in a message."""
    return text if len(text) <= LONGEST_QUOTED else f"{text[:LONGEST_QUOTED]}..."
