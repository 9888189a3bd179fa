from __future__ import annotations

from uuid import UUID

import pytest

from kwire.assignors import SERVER, AssignorError, MemberSubscription, assign

TOPIC = UUID(int=1)


def test_default_is_the_first_assignor() -> None:
    assert list(SERVER) == ["uniform", "range"]


def test_unknown_assignor_is_an_error() -> None:
    with pytest.raises(KeyError):
        assign("zz", {}, {})


@pytest.mark.parametrize("name", SERVER)
@pytest.mark.parametrize("homogeneous", [True, False, None])
def test_topic_without_metadata_is_an_error(name: str, homogeneous: bool | None) -> None:
    with pytest.raises(AssignorError, match="not in the metadata"):
        assign(name, {"a": MemberSubscription([TOPIC])}, {}, homogeneous=homogeneous)
