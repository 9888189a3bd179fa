"""Events from the package kwire-native equal those of the constructor."""

from __future__ import annotations

import pytest

from kwire.analysis.events import GroupEvent
from kwire.analysis.new_events import native_event, plain_event
from kwire.engines.chosen import available
from kwire.engines.native import package

pytestmark = pytest.mark.skipif("native" not in available(), reason="the native engine is not installed: make native")

VALUES = (5, "g", None, "commit", "m", None, "c", "h", 3, 0, "NONE", "tea", 1, 2**40, "", "b:1", "id", 7, 2)


def test_native_event_equals_one_from_the_constructor() -> None:
    event = native_event()(*VALUES)
    assert event == plain_event(*VALUES)
    event.part = 9
    assert event != plain_event(*VALUES)
    assert native_event()(*VALUES).part == 2


@pytest.mark.parametrize("count", [0, len(VALUES) - 1, len(VALUES) + 1])
def test_wrong_number_of_values_is_refused(count: int) -> None:
    with pytest.raises(TypeError, match="19 arguments are needed"):
        native_event()(*(VALUES * 2)[:count])


@pytest.mark.parametrize(("names", "others"), [(["ts"], {}), (["ts", "sugar"], {}), (["ts", "ts"], {"group_id": 1})])
def test_every_slot_needs_one_value(names: list[str], others: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="each slot must have one argument or one value"):
        package().Maker(GroupEvent, names, others)
