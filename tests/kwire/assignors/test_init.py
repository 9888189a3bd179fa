from __future__ import annotations

import doctest
from uuid import UUID

import pytest

import kwire.assignors
from kwire.assignors import SERVER, AssignorError, MemberSubscription, assign

TOPIC = UUID(int=1)


def test_public_names() -> None:
    assert all(hasattr(kwire.assignors, name) for name in kwire.assignors.__all__)


def test_default_is_the_first_assignor() -> None:
    assert list(SERVER) == ["uniform", "range"]


def test_an_assignor_that_is_not_there() -> None:
    with pytest.raises(KeyError):
        assign("zz", {}, {})


@pytest.mark.parametrize("name", SERVER)
@pytest.mark.parametrize("homogeneous", [True, False, None])
def test_a_topic_without_metadata(name: str, homogeneous: bool | None) -> None:
    with pytest.raises(AssignorError, match="not in the metadata"):
        assign(name, {"a": MemberSubscription([TOPIC])}, {}, homogeneous=homogeneous)


def test_the_example() -> None:
    assert doctest.testmod(kwire.assignors) == (0, 3 + 3 + 1)
