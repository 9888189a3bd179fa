"""Filters of rules by the values in a request body."""

from __future__ import annotations

import pytest

from kwire.apikeys import ApiKey
from kwire.filter import FilterError
from mockbroker.faults.where import arrays_without_index, compile_where, unknown_fields


def test_a_filter_over_the_body():
    matches = compile_where("body.group_id in ['a', 'b'] and body.topics[0].name == 'orders'")
    assert matches({"group_id": "a", "topics": [{"name": "orders"}]})
    assert not matches({"group_id": "a", "topics": []})


@pytest.mark.parametrize("text", ["", "body.", "latency_ms > 1", "__import__('os')", "body.x.y()"])
def test_other_expressions_are_refused(text):
    with pytest.raises(FilterError):
        compile_where(text)


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("body.group_id == 'a'", []),
        ("body.topics[0].partitions[1].partition_index == 3", []),
        ("body.group == 'a' or body.topics[0].nme == 'b'", ["group", "topics.nme"]),
        ("body.session_timeout_ms > 1", ["session_timeout_ms"]),
        ("body.no.such[0].field > 1", ["no"]),
        ("body == null", []),
    ],
)
def test_fields_that_no_request_has(text, unknown):
    assert sorted(unknown_fields(text, [ApiKey.OFFSET_COMMIT])) == unknown


def test_a_field_of_one_of_the_apis_is_known():
    assert unknown_fields("body.session_timeout_ms > 1", [ApiKey.OFFSET_COMMIT, ApiKey.JOIN_GROUP]) == []


@pytest.mark.parametrize(
    ("text", "arrays"),
    [
        ("body.topics.name == 'a'", {"topics": "name"}),
        ("body.topics[0].partitions.committed_offset > 1", {"topics.partitions": "committed_offset"}),
        ("body.topics[0].partitions[1].committed_offset > 1 and body.topics == null", {}),
    ],
)
def test_arrays_need_an_index(text, arrays):
    """A field of an array itself is always null, so a rule with it would never match."""
    assert arrays_without_index(text, [ApiKey.OFFSET_COMMIT]) == arrays
