"""Expanded forms are those of ``to_json`` with additional keys."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from captures import COMMITTED
from hypothesis import given, settings
from hypothesis import strategies as st
from tools.kept_memory import TOPICS, kept_memory

from kwire import blobs, codec
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.blobs.sticky import StickyUserData
from kwire.capture import read
from kwire.fuzz.strategies import messages
from kwire.json.expanded import Context, error_of, form_of
from kwire.json.objects import UNKNOWN_TAGS, to_json
from kwire.messages import APIS
from kwire.messages.heartbeat import HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.offset_commit import OffsetCommitResponse
from kwire.messages.produce import ProduceRequest
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.records import Record, build_batch
from kwire.redact import REDACTED

CELLS = [
    (side, version)
    for api in APIS.values()
    for side in (api.request, api.response)
    for version in range(api.versions.first, (api.versions.last or 0) + 1)
]


def plain(form: Any) -> Any:
    """Return a form without the additional keys."""
    if isinstance(form, dict):
        return {k: plain(v) for k, v in form.items() if not k.startswith("_") or k == UNKNOWN_TAGS}
    return [plain(item) for item in form] if isinstance(form, list) else form


@settings(max_examples=300)
@given(st.data())
def test_plain_form_is_to_json(data: st.DataObject) -> None:
    message, version = data.draw(st.sampled_from(CELLS))
    value = codec.decode(message, codec.encode(data.draw(messages(message, version)), version), version)
    assert plain(form_of(value, version)) == to_json(value, version)


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_the_same_for_real_frames(path: Any) -> None:
    for call in read(path, redacted=False).calls():
        for body, version in ((call.request, call.api_version), (call.response, call.response_version)):
            if body is not None and version is not None:
                assert plain(form_of(body, version)) == to_json(body, version)
                json.dumps(form_of(body, version, Context(records=True)))


def test_blobs_stand_beside_their_bytes() -> None:
    sticky = codec.encode(StickyUserData(generation=4), 1)
    metadata = blobs.encode_stored(ConsumerProtocolSubscription(topics=["orders"], user_data=sticky), 1)
    protocol = JoinGroupRequest.Protocol(name="sticky", metadata=metadata)
    for kind, found in (("consumer", True), ("connect", False)):
        form = form_of(JoinGroupRequest(protocol_type=kind, protocols=[protocol]), 9)["protocols"][0]
        assert ("_metadata" in form) == found
    inside = form_of(JoinGroupRequest(protocol_type="consumer", protocols=[protocol]), 9)["protocols"][0]["_metadata"]
    assert (inside["type"], inside["version"], inside["fields"]["topics"]) == (
        "ConsumerProtocolSubscription",
        1,
        ["orders"],
    )
    assert inside["fields"]["_user_data"]["fields"]["generation"] == 4


def test_topic_names_records_and_secrets() -> None:
    batch = build_batch([Record(timestamp=5, key=b"k", value=b"v")], codec=4)
    part = ProduceRequest.Topic.Partition(records=batch)
    request = ProduceRequest(topic_data=[ProduceRequest.Topic(topic_id=UUID(int=9), partition_data=[part])])
    topic = form_of(request, 13, Context({UUID(int=9): "orders"}.get, records=True))["topic_data"][0]
    assert topic["_topic_name"] == "orders"
    assert topic["partition_data"][0]["_records"][0]["records"][0]["value"] == "dg=="
    damaged = ProduceRequest.Topic.Partition(records=batch[:-3] + b"???")
    request = ProduceRequest(topic_data=[ProduceRequest.Topic(partition_data=[damaged])])
    assert "error" in form_of(request, 13, Context(records=True))["topic_data"][0]["partition_data"][0]["_records"][-1]
    assert form_of(SaslAuthenticateRequest(auth_bytes=REDACTED), 2)["auth_bytes"] == "[redacted]"


@pytest.mark.parametrize(
    "headers",
    [(("h", b"x" * 2**20),), (("h" * 2**20, None),)],
    ids=["value", "name"],
)
def test_headers_count_toward_the_display_limit(headers: tuple[tuple[str, bytes | None], ...]) -> None:
    """A field with compressed batches cannot become much larger than MAX_OPENED."""
    records = build_batch([Record(timestamp=5, headers=headers)], codec=4) * 40
    part = ProduceRequest.Topic.Partition(records=records)
    request = ProduceRequest(topic_data=[ProduceRequest.Topic(partition_data=[part])])
    batches = form_of(request, 8, Context(records=True))["topic_data"][0]["partition_data"][0]["_records"]
    assert "limit" in batches[-1]["error"]
    assert sum(len(batch["records"]) for batch in batches if "records" in batch) == 15


def test_large_nested_messages_are_not_kept() -> None:
    """The cache of nested messages needs little memory, whatever a capture contains."""

    def show(request: JoinGroupRequest) -> None:
        form = form_of(request, 9)
        assert len(form["protocols"][0]["_metadata"]["fields"]["topics"]) == TOPICS

    assert kept_memory(show) < 1_000_000  # bytes; a cached message takes 2,000,000


def test_error_codes() -> None:
    assert error_of(HeartbeatResponse(error_code=27), 4) == 27
    partitions = [OffsetCommitResponse.Topic.Partition(error_code=code) for code in (0, 22)]
    assert error_of(OffsetCommitResponse(topics=[OffsetCommitResponse.Topic(partitions=partitions)]), 8) == 22
    assert error_of(OffsetCommitResponse(), 8) == 0
    assert error_of(JoinGroupRequest(), 9) is None
