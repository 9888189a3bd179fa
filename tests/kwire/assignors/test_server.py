from __future__ import annotations

from uuid import UUID

import pytest

from kwire.assignors.server import AssignorError, MemberSubscription, is_homogeneous, partitions_of

T1, T2 = UUID(int=1), UUID(int=2)

SUBSCRIPTIONS = [
    ([], True),
    ([[T1]], True),
    ([[T1, T2], (T2, T1)], True),
    ([[T1], {T1}], True),
    ([[T1], [T1, T2]], False),
    ([[], [T1]], False),
    ([[T1], [T1], [T2]], False),
]


@pytest.mark.parametrize(("subscriptions", "homogeneous"), SUBSCRIPTIONS)
def test_is_homogeneous(subscriptions: list[list[UUID]], homogeneous: bool) -> None:
    assert is_homogeneous([MemberSubscription(topic_ids) for topic_ids in subscriptions]) is homogeneous


def test_partitions_of() -> None:
    assert list(partitions_of([T2, T1], {T1: 1, T2: 0}).items()) == [(T2, 0), (T1, 1)]


def test_a_topic_without_metadata() -> None:
    with pytest.raises(AssignorError, match=str(T2)):
        partitions_of([T1, T2], {T1: 1})
