"""The name, states, events and record keys of the group type of Kafka Streams (KIP-1071).

The declaration has its own module because it is always imported. The other modules of the type are imported when its
first group is created.
"""

from __future__ import annotations

from mockbroker.groups.events import StreamsHeartbeat

STREAMS = "streams"
STATES = EMPTY, NOT_READY, ASSIGNING, RECONCILING, STABLE = (
    "Empty",
    "NotReady",
    "Assigning",
    "Reconciling",
    "Stable",
)
EVENTS = (StreamsHeartbeat,)
RECORD_KEYS = (
    "StreamsGroupMetadataKey",
    "StreamsGroupTopologyKey",
    "StreamsGroupMemberMetadataKey",
    "StreamsGroupTargetAssignmentMetadataKey",
    "StreamsGroupTargetAssignmentMemberKey",
    "StreamsGroupCurrentMemberAssignmentKey",
)
