"""Loading of conversation files, valid and invalid."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from mockbroker.lab.conform.conversation import ConversationError, load, snake

FILE = {"scenario": "s", "broker": "Apache Kafka 4.2.0", "broker_config": {"a": 1, "topics": {"t": 3}}, "steps": []}
STEP = {"n": 1, "event": "request", "api": "Produce", "api_key": 0, "api_version": 3, "conn": "A", "hex": "00"}


def written(tmp_path: Path, content: object, *, zipped: bool = False) -> Path:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    path = tmp_path / "c.json"
    path.write_bytes(gzip.compress(data) if zipped else data)
    return path


@pytest.mark.parametrize("zipped", [False, True])
def test_load_plain_or_gzip_file(tmp_path: Path, zipped: bool) -> None:
    conversation = load(written(tmp_path, FILE, zipped=zipped))
    assert (conversation.name, conversation.version) == ("s (Apache Kafka 4.2.0)", "4.2.0")
    assert (conversation.config, conversation.topics) == ({"a": 1}, {"t": 3})


def test_records_are_stored_in_their_field(tmp_path: Path) -> None:
    fields = {"topicData": [{"name": "t", "partitionData": [{"index": 0, "records": ""}]}]}
    records = [{"path": "topicData[0].partitionData[0].records", "hex": "0102"}]
    conversation = load(written(tmp_path, FILE | {"steps": [STEP | {"fields": fields, "records": records}]}))
    assert conversation.steps[0].fields["topic_data"][0]["partition_data"][0]["records"] == "AQI="


BAD = [  # content, error
    (b"{", "not valid JSON"),
    (b"\x1f\x8b\x08\0", "not valid JSON|gzip|end-of-stream"),
    ([], "the file must contain a JSON object"),
    ({}, "broker_config"),
    (FILE | {"steps": [{"n": 1}]}, "event"),
    (FILE | {"steps": [{"n": 1, "event": "dance"}]}, "step 1: unknown event 'dance'"),
    (FILE | {"steps": 7}, "missing or invalid"),
    (b"[" * 100_000, "not valid JSON"),
    (FILE | {"steps": [STEP | {"hex": "0"}]}, "missing or invalid"),
    (FILE | {"broker_config": 7}, "missing or invalid"),
    (
        FILE | {"steps": [STEP | {"fields": {"a": []}, "records": [{"path": "a[0].b", "hex": ""}]}]},
        "missing or invalid",
    ),
    (FILE | {"steps": [STEP, {"n": 2, "event": "response", "to": 3}]}, "step 2: no request has step number 3"),
    (FILE | {"steps": [STEP, {"n": 2, "event": "no answer", "to": 3}]}, "step 2: no earlier step has number 3"),
]


@pytest.mark.parametrize(("content", "error"), BAD)
def test_invalid_file_is_refused(tmp_path: Path, content: object, error: str) -> None:
    with pytest.raises((ConversationError, OSError), match=error):
        load(written(tmp_path, content))


@pytest.mark.parametrize(("name", "snaked"), [("groupId", "group_id"), ("enable2Pc", "enable2_pc"), ("name", "name")])
def test_field_names_become_snake_case(name: str, snaked: str) -> None:
    assert snake(name) == snaked


CONFIGS = [  # scenario, configuration; users, connections to their listener
    ("x", {}, {}, set()),
    ("x", {"users": {"a": "b"}}, {"a": "b"}, {"one", "other"}),
    ("x", {"users": {"a": "b"}, "plaintext": ["other"]}, {"a": "b"}, {"one"}),
    ("sasl_plain", {}, {"alice": "alice-secret"}, {"one", "other"}),
]


@pytest.mark.parametrize(("scenario", "config", "users", "sasl"), CONFIGS)
def test_sasl_users_and_connections(tmp_path: Path, scenario: str, config: dict, users: dict, sasl: set[str]) -> None:
    steps = [{"n": n, "event": "note", "conn": conn} for n, conn in enumerate(("one", "other"), 1)]
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"scenario": scenario, "broker": "", "broker_config": config, "steps": steps}))
    conversation = load(path)
    assert (conversation.users, conversation.sasl) == (users, sasl)
    assert {"users", "plaintext"}.isdisjoint(conversation.config)
