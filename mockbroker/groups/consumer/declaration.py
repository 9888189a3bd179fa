"""The name, states, events and record keys of the group type of consumer groups (KIP-848).

The declaration has its own module because it is always imported. The other modules of the type are imported when its
first group is created.
"""

from __future__ import annotations

from mockbroker.groups.events import ConsumerHeartbeat

CONSUMER = "consumer"
STATES = EMPTY, ASSIGNING, RECONCILING, STABLE = "Empty", "Assigning", "Reconciling", "Stable"
EVENTS = (ConsumerHeartbeat,)
RECORD_KEYS = (
    "ConsumerGroupMetadataKey",
    "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupTargetAssignmentMetadataKey",
    "ConsumerGroupTargetAssignmentMemberKey",
    "ConsumerGroupCurrentMemberAssignmentKey",
    "ConsumerGroupRegularExpressionKey",
)
