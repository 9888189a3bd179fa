import dataclasses
import json
import math
from typing import Any
from uuid import UUID

import pytest

from kwire import unknown_tags
from kwire.errors import EncodeError, SchemaError
from kwire.json.objects import from_json, to_json, uuid_text
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.produce import ProduceRequest
from kwire.schema import Float64, data


@data(versions="0", flexible="none")
class Measured:
    value: float = Float64()


def test_names_bytes_and_null() -> None:
    protocol = JoinGroupRequest.Protocol(name="range", metadata=b"\x00\xff")
    form = to_json(JoinGroupRequest(group_id="g", protocols=[protocol]), 9)
    assert form["protocols"] == [{"name": "range", "metadata": "AP8="}]
    assert form["reason"] is None
    assert form["group_id"] == "g"


def test_absent_in_this_version() -> None:
    assert "rebalance_timeout_ms" not in to_json(JoinGroupRequest(), 0)
    assert "rebalance_timeout_ms" in to_json(JoinGroupRequest(), 1)


def test_tagged_field_at_its_default_is_absent() -> None:
    assert "cluster_id" not in to_json(FetchRequest(), 15)
    assert to_json(FetchRequest(cluster_id="c"), 15)["cluster_id"] == "c"


def test_unknown_tags() -> None:
    value = ApiVersionsRequest(unknown_tags={3: b"\x01"})  # type: ignore[call-arg]
    form = to_json(value, 3)
    assert form["_unknown_tags"] == {"3": "AQ=="}
    assert unknown_tags(from_json(ApiVersionsRequest, form, 3)) == {3: b"\x01"}


def test_uuid_has_22_characters() -> None:
    assert uuid_text(UUID(int=0)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_text(UUID(int=2**128 - 1)) == "_" * 21 + "w"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 1.5, 0.0])
def test_floats_survive_json(number: float) -> None:
    form = json.loads(json.dumps(to_json(Measured(value=number), 0), allow_nan=False))
    assert repr(from_json(Measured, form, 0).value) == repr(number)


def test_text_that_is_not_utf8_survives_json() -> None:
    value = HeartbeatRequest(group_id="\udcff")
    assert from_json(HeartbeatRequest, json.loads(json.dumps(to_json(value, 0))), 0) == value


NO_FIELD = "unknown field in this version"
NO_TAG = "expected an object with tag numbers as keys"
NO_UUID = "expected a uuid of 22 characters, got"
REFUSED: list[tuple[type, int, object, str]] = [  # message, version, JSON form, text after "Message vN"
    (HeartbeatRequest, 4, [], ": expected an object, got []"),
    (HeartbeatRequest, 4, {"group": 1}, f", group: {NO_FIELD}"),
    (HeartbeatRequest, 0, {"group_instance_id": "i"}, f", group_instance_id: {NO_FIELD}"),
    (HeartbeatRequest, 4, {"group_id": 1}, ", group_id: expected a string, got 1"),
    (HeartbeatRequest, 4, {"generation_id": True}, ", generation_id: expected a value of type int32, got True"),
    (HeartbeatRequest, 4, {"generation_id": 1.0}, ", generation_id: expected a value of type int32, got 1.0"),
    (JoinGroupRequest, 9, {"protocols": {}}, ", protocols: expected an array, got {}"),
    (JoinGroupRequest, 9, {"protocols": [{"metadata": "%"}]}, ", protocols[0].metadata: expected base64, got '%'"),
    (JoinGroupRequest, 9, {"protocols": [{"metadata": 7}]}, ", protocols[0].metadata: expected base64, got 7"),
    (CreateTopicsRequest, 7, {"validate_only": 1}, ", validate_only: expected a value of type bool, got 1"),
    (ProduceRequest, 13, {"topic_data": [{"topic_id": "A"}]}, f", topic_data[0].topic_id: {NO_UUID} 'A'"),
    (ProduceRequest, 13, {"topic_data": [{"topic_id": "!" * 22}]}, f", topic_data[0].topic_id: {NO_UUID} '{'!' * 22}'"),
    (ProduceRequest, 13, {"topic_data": [{"topic_id": 3}]}, f", topic_data[0].topic_id: {NO_UUID} 3"),
    (HeartbeatRequest, 4, {"_unknown_tags": []}, f", _unknown_tags: {NO_TAG}, got []"),
    (HeartbeatRequest, 4, {"_unknown_tags": {"x": ""}}, f", _unknown_tags: {NO_TAG}, got {{'x': ''}}"),
    (HeartbeatRequest, 4, {"_unknown_tags": {"03": ""}}, f", _unknown_tags: {NO_TAG}, got {{'03': ''}}"),
    (HeartbeatRequest, 4, {"_unknown_tags": {"9" * 5000: ""}}, f", _unknown_tags: {NO_TAG}, got {{'{'9' * 12}...{'9' * 13}': ''}}"),
    (HeartbeatRequest, 4, {"_unknown_tags": {"3": "%"}}, ", _unknown_tags.3: expected base64, got '%'"),
    (HeartbeatRequest, 3, {"_unknown_tags": {"3": ""}}, f", _unknown_tags: {NO_FIELD}"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "version", "form", "text"), REFUSED)
def test_refused(message: type, version: int, form: object, text: str) -> None:
    with pytest.raises(EncodeError) as caught:
        from_json(message, form, version)
    assert str(caught.value) == f"{message.__name__} v{version}{text}"


def test_complaint_about_a_long_value_is_short() -> None:
    with pytest.raises(EncodeError) as caught:
        from_json(HeartbeatRequest, {"group_id": [["x" * 10_000]] * 10_000}, 4)
    assert len(str(caught.value)) < 300


def test_complaint_about_a_deep_value_is_not_a_recursion_error() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(EncodeError):
        from_json(HeartbeatRequest, {"group_id": deep}, 4)


def test_unknown_version() -> None:
    with pytest.raises(SchemaError, match="has no version 5: its versions are 0-4"):
        from_json(HeartbeatRequest, {}, 5)
    with pytest.raises(SchemaError, match="has no version 5: its versions are 0-4"):
        to_json(HeartbeatRequest(), 5)


def test_absent_field_has_its_default() -> None:
    assert from_json(JoinGroupRequest, {}, 9) == JoinGroupRequest()
    assert dataclasses.is_dataclass(from_json(JoinGroupRequest, {}, 9))
