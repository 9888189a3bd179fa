"""The address of a recording in a topic: ``kafka://HOST:PORT[,HOST:PORT...]/TOPIC``."""

from __future__ import annotations

import re

TOPIC_ADDRESS = re.compile(r"kafka://(?P<servers>[^/\s]+:[0-9]+)/(?P<topic>[A-Za-z0-9._-]{1,249})")
