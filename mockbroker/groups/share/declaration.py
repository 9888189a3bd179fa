"""The name, states, events and record keys of the group type of share groups (KIP-932).

The declaration has its own module because it is always imported. The other modules of the type are imported when its
first group is created.
"""

from __future__ import annotations

from mockbroker.groups.events import AlterShareOffsets, DeleteShareOffsets, ShareHeartbeat

SHARE = "share"
STATES = EMPTY, STABLE = "Empty", "Stable"
EVENTS = (
    ShareHeartbeat,
    AlterShareOffsets,
    DeleteShareOffsets,
)
RECORD_KEYS = (
    "ShareGroupMetadataKey",
    "ShareGroupMemberMetadataKey",
    "ShareGroupTargetAssignmentMetadataKey",
    "ShareGroupTargetAssignmentMemberKey",
    "ShareGroupCurrentMemberAssignmentKey",
    "ShareGroupStatePartitionMetadataKey",
)
