"""The decoded records of one group, by the class of their values."""

from __future__ import annotations

from kwire.blobs.offsets_topic import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
)
from mockbroker.groups.records.stored import StoredRecords


def test_the_last_record_of_a_key_counts():
    members = [(ShareGroupMemberMetadataKey(member_id=name), ShareGroupMemberMetadataValue()) for name in "aba"]
    groups = [(ShareGroupMetadataKey(), ShareGroupMetadataValue(epoch=epoch)) for epoch in (1, 2)]
    stored = StoredRecords([*members, *groups])
    assert stored.value(ShareGroupMetadataValue) is groups[1][1]
    result = stored.values(ShareGroupMemberMetadataValue)
    assert list(result) == ["a", "b"]
    assert result["a"] is members[2][1]
    assert StoredRecords([]).value(ShareGroupMetadataValue) is None
    assert StoredRecords([]).values(ShareGroupMemberMetadataValue) == {}
