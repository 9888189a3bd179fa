"""The address of a recording in a topic: ``kafka://HOST:PORT[,HOST:PORT...]/TOPIC``."""

from __future__ import annotations

import re

SCHEME = "kafka://"
TOPIC_ADDRESS = re.compile(rf"{SCHEME}(?P<servers>[^/\s]+:[0-9]+)/(?P<topic>[A-Za-z0-9._-]{{1,249}})")


def is_topic(path: str) -> bool:
    """Return whether a path is the address of a topic."""
    return TOPIC_ADDRESS.fullmatch(path) is not None
