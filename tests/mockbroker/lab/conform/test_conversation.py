"""Files that are conversations, and files that are not."""

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
def test_a_file_zipped_or_not(tmp_path: Path, zipped: bool) -> None:
    found = load(written(tmp_path, FILE, zipped=zipped))
    assert (found.name, found.version) == ("s (Apache Kafka 4.2.0)", "4.2.0")
    assert (found.config, found.topics) == ({"a": 1}, {"t": 3})


def test_records_stand_in_their_field(tmp_path: Path) -> None:
    fields = {"topicData": [{"name": "t", "partitionData": [{"index": 0, "records": ""}]}]}
    records = [{"path": "topicData[0].partitionData[0].records", "hex": "0102"}]
    found = load(written(tmp_path, FILE | {"steps": [STEP | {"fields": fields, "records": records}]}))
    assert found.steps[0].fields["topic_data"][0]["partition_data"][0]["records"] == "AQI="


BAD = [  # content, what is said
    (b"{", "not JSON"),
    (b"\x1f\x8b\x08\0", "not JSON|gzip|end-of-stream"),
    ([], "not an object"),
    ({}, "broker_config"),
    (FILE | {"steps": [{"n": 1}]}, "event"),
    (FILE | {"steps": [{"n": 1, "event": "dance"}]}, "step 1: unknown event 'dance'"),
    (FILE | {"steps": 7}, "wrong kind"),
]


@pytest.mark.parametrize(("content", "said"), BAD)
def test_what_is_wrong_is_said(tmp_path: Path, content: object, said: str) -> None:
    with pytest.raises((ConversationError, OSError), match=said):
        load(written(tmp_path, content))


@pytest.mark.parametrize(("name", "snaked"), [("groupId", "group_id"), ("enable2Pc", "enable2_pc"), ("name", "name")])
def test_names(name: str, snaked: str) -> None:
    assert snake(name) == snaked


CONFIGS = [  # scenario, configuration; users, connections to their listener
    ("x", {}, {}, set()),
    ("x", {"users": {"a": "b"}}, {"a": "b"}, {"one", "other"}),
    ("x", {"users": {"a": "b"}, "plaintext": ["other"]}, {"a": "b"}, {"one"}),
    ("sasl_plain", {}, {"alice": "alice-secret"}, {"one", "other"}),
]


@pytest.mark.parametrize(("scenario", "config", "users", "sasl"), CONFIGS)
def test_users_and_their_connections(tmp_path: Path, scenario: str, config: dict, users: dict, sasl: set[str]) -> None:
    steps = [{"n": n, "event": "note", "conn": conn} for n, conn in enumerate(("one", "other"), 1)]
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"scenario": scenario, "broker": "", "broker_config": config, "steps": steps}))
    found = load(path)
    assert (found.users, found.sasl) == (users, sasl)
    assert {"users", "plaintext"}.isdisjoint(found.config)
