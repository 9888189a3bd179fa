"""What a handler file offers to the router."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kwire.schema import Versions
from mockbroker.broker import Broker
from mockbroker.calls import Call, Effects

ALL_OPERATIONS = 3400  # read, delete, describe, and their configurations, as bits: what Kafka 4.2 tells without ACLs

NO_AUTHORIZER = "No Authorizer is configured."


@dataclass(frozen=True, slots=True)
class Handler:
    """``versions``: those that can be served; the release that the cluster is like leaves some out.

    ``handle``: turns version lore into plain facts, asks the core, and returns effects. It never waits or encodes.
    ``present``: what a version wants to see differently in the answer, also in one that was parked; None: nothing.
    """

    versions: Versions
    handle: Callable[[Broker, Call[Any], float], Effects]
    present: Callable[[Any, int], Any] | None = None
