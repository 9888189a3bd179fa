"""Explanations as JSON."""

from __future__ import annotations

import json

import pytest

from kwire import encode_request
from kwire.explain import explain_request
from kwire.messages.metadata import MetadataRequest
from mockbroker.control.resources import explanation
from mockbroker.control.resources.explanation import explanation_json

FRAME = encode_request(
    MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in ("a", "b" * 5_000)]), 9, correlation_id=1
)


def test_pieces_have_name_type_value_and_place() -> None:
    tree = explanation_json(explain_request(FRAME))
    topics = next(piece for piece in tree["children"] if piece["name"] == "topics")
    name = topics["children"][1]["children"][0]
    assert {key: name[key] for key in ("name", "path", "type", "value", "length")} == {
        "name": "name",
        "path": "topics[0].name",
        "type": "compact_string",
        "value": "a",
        "length": 2,
    }
    assert FRAME[name["offset"] + 1 : name["offset"] + 2] == b"a"


def test_a_long_value_is_cut() -> None:
    assert len(max(json.dumps(explanation_json(explain_request(FRAME))).split('"'), key=len)) == 1_003


def test_pieces_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explanation, "PIECES", 3)
    tree = explanation_json(explain_request(FRAME))
    assert len(tree["children"]) == 1
    assert len(tree["children"][0]["children"]) == 2
    assert tree["left_out"] == len(explain_request(FRAME).pieces) - 1


def test_bytes_that_cannot_be_decoded_have_a_reason() -> None:
    tree = explanation_json(explain_request(FRAME[:40]))
    assert "error" in tree
    assert "value" not in tree["children"][-1]["children"][-1] or tree["children"][-1]["type"] == "unread"
