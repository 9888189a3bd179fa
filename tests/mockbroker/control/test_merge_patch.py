"""Merge patches: the patch changes the old object to the new one."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tools.merge_patches import applied

from mockbroker.control.merge_patch import difference, without_null

ITEMS = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats(0, 2) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text("ab", max_size=2), ITEMS, max_size=4)


@given(OBJECTS, OBJECTS)
def test_the_patch_turns_the_old_object_into_the_new_one(old: dict[str, Any], new: dict[str, Any]) -> None:
    before, after = without_null(old), without_null(new)
    assert applied(before, difference(before, after)) == after


@given(OBJECTS)
def test_equal_objects_have_an_empty_patch(given_object: dict[str, Any]) -> None:
    value = without_null(given_object)
    assert difference(value, without_null(given_object)) == {}


def test_a_patch_has_only_what_changed() -> None:
    old = {"g": {"state": "Stable", "members": {"a": {"host": "h"}, "b": {}}}, "t": [1, 2]}
    new = {"g": {"state": "Empty", "members": {"a": {"host": "h"}}}, "t": [1, 2]}
    assert difference(old, new) == {"g": {"state": "Empty", "members": {"b": None}}}


def test_true_is_not_1() -> None:
    assert difference({"a": 1}, {"a": True}) == {"a": True}
