"""The name, states, events and record keys of the group type of the classic rebalance protocol.

The declaration has its own module because it is always imported. The other modules of the type are imported when its
first group is created.
"""

from __future__ import annotations

from mockbroker.groups.events import Heartbeat, Join, Leave, Sync

CLASSIC = "classic"
STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
EVENTS = (Join, Sync, Heartbeat, Leave)
RECORD_KEYS = ("GroupMetadataKey",)
