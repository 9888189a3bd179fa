from __future__ import annotations

from base64 import urlsafe_b64encode
from uuid import UUID

import pytest

from kwire.anonymize import fields
from kwire.anonymize.bodies import Bodies
from kwire.anonymize.pseudonyms import Pseudonyms
from kwire.json.objects import uuid_text
from kwire.messages import APIS
from kwire.messages.describe_configs import DescribeConfigsRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.schema import schema_of

NAMES = Pseudonyms(b"a key for these tests")
TOPIC_ID = UUID(int=2**100 + 7)


def declared() -> set[str]:
    """Yield every field of every message: its name, and its qualified name."""
    results: set[str] = set()

    def visit(message: type) -> None:
        for name, field in schema_of(message).fields.items():
            results.update((name, f"{message.__qualname__}.{name}"))
            of = field if field.of is None else field.of
            if of.struct is not None:
                visit(of.struct)

    for api in APIS.values():
        visit(api.request)
        visit(api.response)
    return results


@pytest.mark.parametrize("marks", [fields.HARMLESS, fields.HOSTS, fields.RESOURCES, fields.COORDINATOR_KEYS])
def test_every_mark_is_a_declared_field(marks: frozenset[str]) -> None:
    assert marks - declared() == set()


@pytest.mark.parametrize(("keep", "kept"), [(False, False), (True, True)])
def test_keys_of_share_partitions_are_replaced_in_parts(keep: bool, kept: bool) -> None:
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[f"group:{uuid_text(TOPIC_ID)}:3", "group"])
    Bodies(NAMES, keep_topics=keep).replace(request, 6)
    topic_id = TOPIC_ID if kept else NAMES.uuid(TOPIC_ID)
    text = urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()
    assert request.coordinator_keys == [f"{NAMES.text('group')}:{text}:3", NAMES.text("group")]


@pytest.mark.parametrize(
    ("kind", "name", "keep", "expected"),
    [
        (2, "orders", False, NAMES.text("orders")),
        (2, "orders", True, "orders"),
        (4, "1", False, "1"),
        (32, "1", False, NAMES.text("1")),
    ],
)
def test_resources_are_replaced_by_their_type(kind: int, name: str, keep: bool, expected: str) -> None:
    resource = DescribeConfigsRequest.Resource(resource_type=kind, resource_name=name)
    Bodies(NAMES, keep_topics=keep).replace(DescribeConfigsRequest(resources=[resource]), 4)
    assert resource.resource_name == expected


def test_unknown_tagged_fields_are_replaced() -> None:
    request = HeartbeatRequest(group_id="g")
    request.unknown_tags = {9: b"secret"}  # type: ignore[attr-defined]
    Bodies(NAMES).replace(request, 4)
    assert request.unknown_tags == {9: NAMES.data(b"secret")}  # type: ignore[attr-defined]
