"""Buggify points: marks on methods, which cost nothing when the method is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mockbroker.base.buggify import (
    BATCH_DIFFERENTLY,
    FLUSH_PARTIALLY,
    METHODS,
    RESPOND_LATE,
    WAKE_EARLY,
    buggify_point,
)
from mockbroker.base.deadlines import Deadlines
from mockbroker.net.pump import Pump
from mockbroker.storage.data_dir import DataDir

MARKED = {
    RESPOND_LATE: Pump.flush,
    FLUSH_PARTIALLY: DataDir.next_work,
    WAKE_EARLY: Deadlines.set,
    BATCH_DIFFERENTLY: Pump.turn,
}


def test_points_are_the_marked_methods() -> None:
    assert METHODS == MARKED


@pytest.mark.parametrize(("name", "method"), MARKED.items(), ids=list(MARKED))
def test_a_point_does_not_wrap_its_method(name: str, method: Callable[..., Any]) -> None:
    assert buggify_point(name)(method) is method
    assert METHODS == MARKED
