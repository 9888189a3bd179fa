from __future__ import annotations

import re

import pytest
from commands import kwire, printed

from kwire import versions
from kwire.layout import text, versions_of
from kwire.messages import APIS
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.schema import Api

HEARTBEAT_V4 = """\
HeartbeatRequest v4
  group_id: compact_string
  generation_id: int32
  member_id: compact_string
  group_instance_id: compact_nullable_string
  (tagged fields)

HeartbeatResponse v4
  throttle_time_ms: int32
  error_code: int16
  (tagged fields)
"""


@pytest.mark.parametrize("flags", [[], ["--request", "--response"]])
def test_one_version_of_both(flags: list[str]) -> None:
    result = kwire("layout", "Heartbeat", "--version", "4", *flags)
    assert (result.exit_code, result.stdout) == (0, HEARTBEAT_V4)


def test_all_versions() -> None:
    result = kwire("layout", "Heartbeat")
    assert result.exit_code == 0
    assert result.stdout == f"{versions.text(HeartbeatRequest)}\n\n{versions.text(HeartbeatResponse)}\n"
    assert kwire("layout", "Heartbeat", "--response").stdout == f"{versions.text(HeartbeatResponse)}\n"


def test_json() -> None:
    both = printed(kwire("layout", "Heartbeat", "--json"))
    assert both == [versions.json_form(HeartbeatRequest), versions.json_form(HeartbeatResponse)]
    (one,) = printed(kwire("layout", "Heartbeat", "--json", "--request", "--version", "3"))
    assert one["versions"] == ["3"]
    assert one["fields"][3] == {"path": "group_instance_id", "tag": None, "types": {"3": "nullable_string"}}


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_every_api_has_a_table(api: Api) -> None:
    result = kwire("layout", api.name)
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_one_side_of_one_version() -> None:
    assert kwire("layout", "JoinGroup", "--version", "5", "--request").stdout == text(JoinGroupRequest, 5) + "\n"
    assert kwire("layout", "JoinGroup", "--version", "0", "--response").stdout == text(JoinGroupResponse, 0) + "\n"


@pytest.mark.parametrize("name", ["join_group", "JOINGROUP", "joingroup"])
def test_spelling_does_not_matter(name: str) -> None:
    assert kwire("layout", name).stdout.startswith("JoinGroupRequest ")


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_every_version_has_a_text(api: Api) -> None:
    results = [kwire("layout", api.name, "--version", str(version)) for version in versions_of(api.versions)]
    assert all(result.exit_code == 0 for result in results)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("JoinGruop", "JoinGroup"),
        ("offset_fetches", "OffsetFetch"),
        ("metadta", "Metadata"),
        ("syncgroups", "SyncGroup"),
    ],
)
def test_unknown_api(name: str, nearest: str) -> None:
    result = kwire("layout", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"did you mean {nearest}?" in result.stderr


@pytest.mark.parametrize("name", ["Nope", "", "\x00", "x" * 500, "kafka"])
def test_no_name_is_suggested_that_is_far_off(name: str) -> None:
    result = kwire("layout", name)
    assert (result.exit_code, "did you mean" in result.stderr) == (2, False)
    assert "`kwire apis` lists all" in result.stderr


@pytest.mark.parametrize("version", ["10", "-1"])
def test_unknown_version(version: str) -> None:
    result = kwire("layout", "JoinGroup", "--version", version)
    assert result.exit_code == 2
    assert f"JoinGroup has no version {version}: its versions are 0-9" in result.stderr


def test_source() -> None:
    whole = kwire("layout", "JoinGroup", "--version", "5", "--source").stdout
    assert [line for line in whole.splitlines() if re.fullmatch(r"# \w+ v\d+", line)] == [
        *["# JoinGroupRequest v5"] * 2,
        *["# JoinGroupResponse v5"] * 2,
    ]
    compile(whole, "source", "exec")
    assert kwire("layout", "heartbeat", "--request", "--source").stdout.count("# HeartbeatRequest v4\n") == 2
    assert kwire("layout", "heartbeat", "--json", "--source").exit_code == 2
