from __future__ import annotations

import pytest

from kwire.assignors import CLIENT, AssignorError, assignor


@pytest.mark.parametrize("name", CLIENT)
def test_each_call_returns_a_new_assignor(name: str) -> None:
    assert isinstance(assignor(name), CLIENT[name])  # type: ignore[arg-type]
    assert assignor(name) is not assignor(name)


def test_unknown_assignor_is_an_error() -> None:
    with pytest.raises(AssignorError, match="unknown assignor 'zz': use one of range, roundrobin, sticky"):
        assignor("zz")
