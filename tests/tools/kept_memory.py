"""The memory that a function keeps when it shows large messages."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

from kwire import blobs
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.messages.join_group import JoinGroupRequest

TOPICS = 20_000  # number of topics in a subscription


def joining(number: int) -> JoinGroupRequest:
    """Return a JoinGroup request with a large subscription. ``number``: makes the names of its topics different."""
    topics = [f"{number} {topic}" for topic in range(TOPICS)]
    metadata = blobs.encode_stored(ConsumerProtocolSubscription(topics=topics), 1)
    return JoinGroupRequest(
        protocol_type="consumer", protocols=[JoinGroupRequest.Protocol(name="range", metadata=metadata)]
    )


def kept_memory(show: Callable[[JoinGroupRequest], None]) -> int:
    """Return the number of bytes that remain allocated after five calls of a function with different requests."""
    show(joining(0))
    tracemalloc.start()
    try:
        for number in range(1, 6):
            show(joining(number))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
