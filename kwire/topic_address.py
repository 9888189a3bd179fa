"""The address of a recording in a topic: ``kafka://HOST:PORT[,HOST:PORT...]/TOPIC[?config=FILE]``.

FILE has the properties of a Kafka client (``kwire.client_properties``) for the connections to the cluster.
"""

from __future__ import annotations

import re

SCHEME = "kafka://"
_TOPIC = rf"{SCHEME}(?P<servers>[^/\s]+:[0-9]+)/(?P<topic>[A-Za-z0-9._-]{{1,249}})"
_CONFIG = r"(?:\?config=(?P<config>.+))?"
TOPIC_ADDRESS = re.compile(_TOPIC + _CONFIG)
PARTITION_ADDRESS = re.compile(rf"{_TOPIC}/(?P<partition>[0-9]+){_CONFIG}")


def is_topic(path: str) -> bool:
    """Return whether a path is the address of a topic."""
    return TOPIC_ADDRESS.fullmatch(path) is not None


def is_partition(path: str) -> bool:
    """Return whether a path is the address of a partition: ``/`` and the partition number follow the topic."""
    return PARTITION_ADDRESS.fullmatch(path) is not None


def partition_address(address: str, number: int) -> str:
    """Return the address of a partition.

    Args:
        address: address of the topic.
        number: partition number.
    """
    topic, mark, config = address.partition("?")
    return f"{topic}/{number}{mark}{config}"
