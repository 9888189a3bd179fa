from __future__ import annotations

import pytest

from kwire import versions
from kwire.layout import text, versions_of
from kwire.messages import APIS
from kwire.messages.fetch import FetchRequest
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.schema import schema_of
from kwire.versions import Change, changes, rows

JOIN_GROUP = """\
JoinGroupRequest        v0      v1-4   v5               v6-7                     v8-9
  group_id              string  "      "                compact_string           "
  session_timeout_ms    int32   "      "                "                        "
  rebalance_timeout_ms  -       int32  "                "                        "
  member_id             string  "      "                compact_string           "
  group_instance_id     -       -      nullable_string  compact_nullable_string  "
  protocol_type         string  "      "                compact_string           "
  protocols             array   "      "                compact_array            "
    name                string  "      "                compact_string           "
    metadata            bytes   "      "                compact_bytes            "
    (tagged fields)     -       -      -                uvarint                  "
  reason                -       -      -                -                        compact_nullable_string
  (tagged fields)       -       -      -                uvarint                  "\
"""


def test_text() -> None:
    assert versions.text(JoinGroupRequest) == JOIN_GROUP


MESSAGES = [message for api in APIS.values() for message in (api.request, api.response)]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_each_column_is_the_layout_of_its_versions(message: type) -> None:
    """The rows that a version has are the lines of ``layout.text``, in the same order."""
    declared = schema_of(message).versions
    assert declared is not None
    result = rows(message)
    for version in versions_of(declared):
        lines = [
            f"{'  ' * (row.depth + 1)}{row.name}"
            + (f": {row.forms[version]}" if row.field else "")
            + ("" if row.tag is None else f"  [tag {row.tag}]")
            for row in result
            if version in row.forms
        ]
        assert lines == text(message, version).splitlines()[1:]


def test_columns_that_do_not_fit() -> None:
    one, two = versions.text(JoinGroupRequest, 75).split("\n\n")
    assert one.splitlines()[0].split() == ["JoinGroupRequest", "v0", "v1-4", "v5"]
    assert two.splitlines()[:3] == [
        "JoinGroupRequest        v6-7                     v8-9",
        '  group_id              compact_string           "',
        '  session_timeout_ms    int32                    "',
    ]
    assert versions.text(JoinGroupRequest, 1).count("JoinGroupRequest") == 5


def test_json_form() -> None:
    form = versions.json_form(FetchRequest)
    assert form["message"] == "FetchRequest"
    assert form["versions"] == ["0-2", "3", "4", "5-6", "7-8", "9-10", "11", "12", "13-14", "15-16", "17", "18"]
    fields = form["fields"]
    assert isinstance(fields, list)
    (tagged,) = [field for field in fields if field["path"] == "topics.partitions.high_watermark"]
    assert tagged["tag"] == 1
    assert {key for key, value in tagged["types"].items() if value} == {"18"}


CHANGES = [
    Change(1, "added", ("rebalance_timeout_ms",)),
    Change(5, "added", ("group_instance_id",)),
    Change(6, "flexible: compact lengths, tagged fields"),
    Change(8, "added", ("reason",)),
]


def test_changes() -> None:
    assert changes(JoinGroupRequest) == CHANGES
    assert Change(7, "nullable", ("protocol_name",)) in changes(JoinGroupResponse)
    assert Change(15, "added, tagged", ("replica_state",)) in changes(FetchRequest)
    assert Change(8, "removed", ("group_id", "topics")) in changes(OffsetFetchRequest)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_there_is_a_change_where_a_range_begins(message: type) -> None:
    declared = schema_of(message).versions
    assert declared is not None
    result = versions.ranges(rows(message), versions_of(declared))
    assert {change.version for change in changes(message)} == {one.first for one in result[1:]}
