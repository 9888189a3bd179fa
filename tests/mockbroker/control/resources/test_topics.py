"""Topics and records."""

from __future__ import annotations

from struct import pack_into

import pytest
from google_crc32c import value as crc32c_of
from tools.control_api import control_api

from kwire import ErrorCode
from kwire.messages.produce import ProduceRequest
from kwire.records.batch import CRC_AT, CRC_FROM, HEADER, Record, build_batch


async def test_a_topic_is_created_and_deleted() -> None:
    async with control_api(config={"num.partitions": 3}) as api:
        response = await api.ask("POST", "/v1/topics", {"name": "a.b", "config": {"cleanup.policy": "compact"}})
        assert (response.status_code, response.headers["location"]) == (201, "/v1/topics/a.b")
        topic = response.json()
        assert (topic["name"], len(topic["partitions"]), topic["config"]) == ("a.b", 3, {"cleanup.policy": "compact"})
        assert await api.status("POST", "/v1/topics", {"name": "a.b"}) == 409
        assert await api.status("POST", "/v1/topics", {"name": "a_b"}) == 409
        names = [each["name"] for each in (await api.get("/v1/topics"))["items"]]
        assert names == ["__consumer_offsets", "t", "a.b"]
        assert await api.status("DELETE", "/v1/topics/a.b") == 204
        assert await api.status("DELETE", "/v1/topics/a.b") == 404
        assert await api.status("DELETE", "/v1/topics/__consumer_offsets") == 409


@pytest.mark.parametrize(
    "body",
    [
        {"name": "a/b"},
        {"name": ""},
        {"name": "x", "partitions": 0},
        {"name": "x", "config": {"nope": 1}},
        {"partitions": 1},
        {"name": "x\ud800"},
    ],
)
async def test_an_impossible_topic(body: object) -> None:
    async with control_api() as api:
        assert await api.status("POST", "/v1/topics", body) == 422


async def test_records_are_text_or_base64() -> None:
    async with control_api() as api:
        records = [
            {"key": "k", "value": "ä", "partition": 1, "headers": {"h": "v"}, "timestamp_ms": 7},
            {"value": None, "partition": 1, "timestamp_ms": 8},
            {"value": {"base64": "/w=="}, "partition": 1, "headers": [{"key": "h", "value": None}], "timestamp_ms": 9},
        ]
        assert await api.post("/v1/topics/t/records", {"records": records}) == {"offsets": [0, 1, 2]}
        items = (await api.get("/v1/topics/t/records", partition=1))["items"]
        assert items == [
            {
                "partition": 1,
                "offset": 0,
                "timestamp_ms": 7,
                "key": "k",
                "value": "ä",
                "headers": [{"key": "h", "value": "v"}],
            },
            {"partition": 1, "offset": 1, "timestamp_ms": 8, "key": None, "value": None, "headers": []},
            {
                "partition": 1,
                "offset": 2,
                "timestamp_ms": 9,
                "key": None,
                "value": {"base64": "/w=="},
                "headers": [{"key": "h", "value": None}],
            },
        ]


async def test_pages_of_records() -> None:
    async with control_api() as api:
        api.cluster.produce("t", [str(number) for number in range(6)])
        values, after = [], None
        while True:
            page = await api.get("/v1/topics/t/records", limit=4, **({"after": after} if after else {}))
            values += [each["value"] for each in page["items"]]
            if (after := page["next"]) is None:
                break
        assert values == ["0", "2", "4", "1", "3", "5"]
        page = await api.get("/v1/topics/t/records", offset=2, committed="true")
        assert [each["value"] for each in page["items"]] == ["4", "5"]


async def test_only_the_records_of_a_page_are_decoded() -> None:
    """Each batch has two records; the third batch, from offset 4 on, cannot be decoded."""
    async with control_api() as api:
        for name in ("a", "b"):
            api.cluster.produce("t", [name, name], partition=0)
        broken = bytearray(build_batch([Record(value=b"c"), Record(value=b"c")]))
        broken[HEADER.size] = 0x7E  # the length of the first record
        pack_into(">I", broken, CRC_AT, crc32c_of(bytes(broken[CRC_FROM:])))
        partition = ProduceRequest.Topic.Partition(index=0, records=bytes(broken))
        request = ProduceRequest(acks=1, topic_data=[ProduceRequest.Topic(name="t", partition_data=[partition])])
        response = await api.cluster.connect().ask(request, 8)
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        page = await api.get("/v1/topics/t/records", partition=0, limit=2, after="0:0")
        assert ([each["offset"] for each in page["items"]], page["next"]) == ([1, 2], "0:2")
        assert (await api.get("/v1/topics/t/records", partition=0, offset=2, limit=1))["next"] == "0:2"
        for cursor in ("0:9", "0:00", "00:0", "1:0", "0:", "x", "0:" + "9" * 30):
            assert await api.status("GET", f"/v1/topics/t/records?partition=0&limit=1&after={cursor}") == 422
        failed = await api.ask("GET", "/v1/topics/t/records")
        assert failed.status_code == 409
        assert "a batch that cannot be decoded" in failed.json()["detail"]


async def test_records_are_deleted() -> None:
    async with control_api() as api:
        api.cluster.produce("t", ["a", "b", "c"], partition=0)
        assert await api.status("DELETE", "/v1/topics/t/records?partition=0&before=2") == 204
        assert [each["offset"] for each in (await api.get("/v1/topics/t/records"))["items"]] == [2]
        assert await api.status("DELETE", "/v1/topics/t/records?partition=0&before=9") == 422
        assert await api.status("DELETE", "/v1/topics/t/records?partition=0") == 422
        assert await api.status("DELETE", "/v1/topics/t/records?partition=7&before=0") == 404


@pytest.mark.parametrize(
    "record", [{"value": {"base64": "?"}}, {"value": 1}, {"val": "x"}, {"key": "\ud800"}, {"headers": [1]}]
)
async def test_an_impossible_record_appends_nothing(record: object) -> None:
    async with control_api() as api:
        response = await api.ask("POST", "/v1/topics/t/records", {"records": [{"value": "x"}, record]})
        assert response.status_code == 422
        assert response.json()["errors"][0]["path"].startswith("records[1].")
        assert api.cluster.records("t") == []


NOT_DATA: list[tuple[object, str]] = [
    ({"base64": "?"}, "the value is not valid base64: Only base64 data is allowed"),
    ("\ud800", "the value is not valid Unicode text: surrogates not allowed"),
]


@pytest.mark.parametrize(("value", "detail"), NOT_DATA, ids=["base64", "text"])
async def test_value_that_is_no_data_is_explained(value: object, detail: str) -> None:
    async with control_api() as api:
        response = await api.ask("POST", "/v1/topics/t/records", {"records": [{"value": value}]})
        assert response.json()["errors"] == [{"path": "records[0].value", "detail": detail, "possible": []}]


@pytest.mark.parametrize(
    ("config", "record", "detail"),
    [
        pytest.param({"cleanup.policy": "compact"}, {"value": "v"}, "without key in topic partition c-0", id="no key"),
        pytest.param(
            {"max.message.bytes": 100},
            {"key": "k", "value": "v" * 100},
            "its batch has 171 bytes, but max.message.bytes of topic c is 100",
            id="large",
        ),
        pytest.param(
            {"message.timestamp.before.max.ms": 1_000},
            {"key": "k", "timestamp_ms": 5},
            "Timestamp 5 of message with offset 1 is out of range",
            id="old",
        ),
    ],
)
async def test_a_record_that_the_topic_does_not_allow_appends_nothing(
    config: object, record: object, detail: str
) -> None:
    async with control_api() as api:
        await api.post("/v1/topics", {"name": "c", "partitions": 1, "config": config})
        records = {"records": [{"key": "k"}, record]}
        response = await api.ask("POST", "/v1/topics/c/records", records)
        assert response.status_code == 422
        [error] = response.json()["errors"]
        assert error["path"] == "records[1]"
        assert detail in error["detail"]
        assert (await api.get("/v1/topics/c/records"))["items"] == []


async def test_records_of_an_unknown_topic_are_not_found() -> None:
    async with control_api() as api:
        assert await api.status("GET", "/v1/topics/none/records") == 404
        assert await api.status("GET", "/v1/topics/t/records?partition=9") == 404
        assert await api.status("POST", "/v1/topics/none/records", {"records": []}) == 404
