"""The timeout of requests to the controller, such as CreateTopics.

The controller of mockbroker needs no time, so a request expires only if it allows no time. Kafka answers such a request
with REQUEST_TIMED_OUT, and changes nothing. Source: Kafka's QuorumController and KafkaEventQueue.
"""

from __future__ import annotations

from kwire import ErrorCode

TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT


def is_expired(timeout_ms: int) -> bool:
    """Return whether a request to the controller expires before it is processed.

    ``timeout_ms``: the timeout in the request, in milliseconds.
    """
    return timeout_ms <= 0
