"""Parts of error messages: texts of Kafka that several request handlers return, and lists of names."""

from __future__ import annotations

from collections.abc import Callable, Collection
from heapq import nsmallest
from typing import Any

from kwire import ErrorCode

LISTED = 10  # names in a list; a cluster may have 100,000 groups
LONGEST_QUOTED = 1_000  # maximum characters of a client's text in a message, as the size of a string is limited

OF_ERRORS = {  # Kafka's default message of each error
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.FENCED_LEADER_EPOCH: "The leader epoch in the request is older than the epoch on the broker.",
    ErrorCode.FENCED_STATE_EPOCH: "The share coordinator rejected the request because the share-group state epoch did"
    " not match.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
    ErrorCode.INVALID_GROUP_ID: "The group id is invalid.",
    ErrorCode.LEADER_NOT_AVAILABLE: "There is no leader for this topic-partition as we are in the middle of a"
    " leadership election.",
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the client library or"
    " the message was sent to an incompatible broker. See the broker logs for more details.",
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
}


def shortened(text: str) -> str:
    """Return a text from a client for use in a message, cut to LONGEST_QUOTED characters."""
    return text if len(text) <= LONGEST_QUOTED else f"{text[:LONGEST_QUOTED]}..."


def listed(names: Collection[Any], form: Callable[[Any], str] = str) -> str:
    """Return the first LISTED names in their order, and ``...`` if there are more; ``none`` without names.

    Args:
        names: names, or numbers.
        form: function that returns a name as text.
    """
    more = [] if len(names) <= LISTED else ["..."]
    return ", ".join([*map(form, nsmallest(LISTED, names)), *more]) or "none"
