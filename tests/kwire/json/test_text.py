import json
import math
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given

from kwire.errors import SchemaError
from kwire.fuzz.strategies import any_message
from kwire.json.objects import to_json
from kwire.json.text import json_text
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.fetch import FetchRequest, FetchResponse
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.schema import Array, Bool, Float64, Uuid, data


@data(versions="0", flexible="none")
class Measured:
    value: float = Float64()
    values: list[float] | None = Array(Float64, null="0+")
    ids: list[UUID] = Array(Uuid)
    right: bool = Bool()


def dumped(value: Any, version: int) -> str:
    return json.dumps(to_json(value, version), separators=(",", ":"))


@given(any_message())
def test_text_is_json_dumps_of_to_json(drawn: tuple[Any, int]) -> None:
    value, version = drawn
    assert json_text(value, version) == dumped(value, version)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 1.5, 0.0, -1e300])
def test_values_that_json_has_not(number: float) -> None:
    for values in (None, [], [number, 1.0]):
        value = Measured(value=number, values=values, ids=[UUID(int=0), UUID(int=7)], right=number == 1.5)
        assert json_text(value, 0) == dumped(value, 0)


def test_text_is_ascii() -> None:
    value = HeartbeatRequest(group_id='"\\\n\x00\u00e9\U0001f600\udcff\x7f', member_id="")
    assert json_text(value, 4) == dumped(value, 4)
    assert json_text(value, 4).isascii()


def test_tags() -> None:
    """Declared tags are present unless they have their default; unknown tags follow all other fields."""
    assert json_text(FetchRequest(), 15) == dumped(FetchRequest(), 15)
    value = FetchRequest(cluster_id="c", unknown_tags={9: b"\x01", 7: b""})  # type: ignore[call-arg]
    assert json_text(value, 15).endswith('"cluster_id":"c","_unknown_tags":{"9":"AQ==","7":""}}')
    assert json_text(value, 15) == dumped(value, 15)


def test_records_are_replaced_by_their_size() -> None:
    parts = [FetchResponse.Topic.Partition(partition_index=n, records=data) for n, data in enumerate((b"x" * 99, None))]
    value = FetchResponse(responses=[FetchResponse.Topic(topic="orders", partitions=parts)])
    (topic,) = json.loads(json_text(value, 12, records=False))["responses"]
    assert [part["records"] for part in topic["partitions"]] == [{"bytes": 99}, None]
    assert json_text(value, 12) == dumped(value, 12)


def test_no_such_version() -> None:
    with pytest.raises(SchemaError):
        json_text(ApiVersionsRequest(), 99)
