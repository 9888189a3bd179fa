"""Every frame and blob that Kafka's classes decoded has the same values here, and is encoded to the same bytes."""

from __future__ import annotations

import copy
from typing import Any

import golden
import pytest
from golden import BLOB_FOLDERS, COUNTS, FOLDERS, ROOT, Line

from kwire import codec
from kwire.blobs import BLOBS, STORED, decode_stored, encode_stored
from kwire.layout import versions_of
from kwire.messages import APIS, MODULES

DIRECTIONS = ["request", "response"]


@pytest.mark.parametrize("origin", FOLDERS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("stem", MODULES.values())
def test_frames(stem: str, direction: str, origin: str) -> None:
    lines = list(golden.frames(origin, stem, direction))
    wrong = {position: result for position, line in enumerate(lines) if (result := golden.problems(line))}
    assert not wrong
    assert lines
    COUNTS[f"frames of {origin}"] += len(lines)


# Only of Kafka 3.9; read by every test of control batches; for other forms see test_streams.py.
WITHOUT_LINES = {
    "ShareGroupPartitionMetadataKey",
    "ShareGroupPartitionMetadataValue",
    "ControlRecordKey",
    "AssignmentInfo",
}


@pytest.mark.parametrize("name", [name for name in STORED if name not in WITHOUT_LINES])
def test_blobs(name: str) -> None:
    for origin in BLOB_FOLDERS:
        lines = golden.blobs(origin, name)
        assert not [result for line in lines if (result := blob_problems(STORED[name], line))]
        assert lines or origin == "more"
        COUNTS[f"blobs of {origin}"] += len(lines)


@pytest.mark.skipif("more" not in BLOB_FOLDERS, reason="fixtures/more is not here")
def test_no_shared_blob_is_left_out() -> None:
    assert {path.name.removesuffix(".jsonl.gz") for path in BLOB_FOLDERS["more"].glob("*.gz")} <= {*BLOBS}


def blob_problems(blob: type, line: Line) -> list[str]:
    body, version = bytes.fromhex(line["hex_body"]), line["version"]
    value: object = codec.decode(blob, body, version, strict=True)
    result = golden.value_problems(value, version, line["fields"])
    for engine in codec.ENGINES:
        result += golden.compare("encoded again", codec.encode(value, version, engine=engine), body)
        result += golden.compare("read", codec.decode(blob, body, version, engine=engine), value)
    stored = bytes.fromhex(line["hex_as_stored"])
    result += golden.compare("as stored", decode_stored(blob, stored), (value, version))
    return result + golden.compare("stored again", encode_stored(value, version), stored)


def test_captured_blobs() -> None:
    lines = list(golden.read(ROOT / "fixtures" / "blobs" / "captured.jsonl.gz"))
    for line in lines:
        stored = bytes.fromhex(line["hex"])
        value, version = decode_stored(STORED[line["type"]], stored)
        assert version == line["version"]
        assert golden.value_problems(value, version, line["fields"]) == []
        assert encode_stored(value, version) == stored
    COUNTS["captured blobs"] += len(lines)


def test_the_slice_has_every_version_and_direction() -> None:
    for key, stem in MODULES.items():
        for direction in DIRECTIONS:
            results = {line["api_version"] for line in golden.frames("fixtures", stem, direction)}
            assert results == set(versions_of(APIS[key].versions)), (stem, direction)


def with_tags_and_records() -> dict[str, Any]:
    for line in golden.frames("fixtures", "fetch", "response"):
        records = [found for found in line.get("records", []) if found["hex"]]
        if records and line.get("unknown_tagged") and line.get("header_unknown_tagged"):
            assert golden.problems(line) == []
            return copy.deepcopy({**line, "records": records})
    raise AssertionError("no such frame in the slice")


def change_value(line: dict[str, Any]) -> None:
    line["fields"]["throttleTimeMs"] += 1


def drop_value(line: dict[str, Any]) -> None:
    del line["fields"]["throttleTimeMs"]


def add_value(line: dict[str, Any]) -> None:
    line["fields"]["more"] = 1


def drop_element(line: dict[str, Any]) -> None:
    line["fields"]["responses"].pop()


def change_records(line: dict[str, Any]) -> None:
    line["records"][0]["hex"] += "00"


def move_records(line: dict[str, Any]) -> None:
    line["records"][0]["path"] = "responses[9].partitions[0].records"


def change_tag(line: dict[str, Any]) -> None:
    line["unknown_tagged"][0]["tag"] += 1


def drop_header_tag(line: dict[str, Any]) -> None:
    del line["header_unknown_tagged"]


def change_correlation_id(line: dict[str, Any]) -> None:
    line["correlation_id"] += 1


def add_trailing(line: dict[str, Any]) -> None:
    line["trailing"] = "00"


CHANGES = [change_value, drop_value, add_value, drop_element, change_records, move_records, change_tag]
CHANGES += [drop_header_tag, change_correlation_id, add_trailing]


@pytest.mark.parametrize("change", CHANGES)
def test_the_comparison_notices(change: Any) -> None:
    line = with_tags_and_records()
    change(line)
    assert len(golden.problems(line)) == 1


def test_the_slice_is_small() -> None:
    files = [*(ROOT / "fixtures").rglob("*.gz")]
    assert sum(path.stat().st_size for path in files) < 5_000_000
