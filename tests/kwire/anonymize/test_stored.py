from __future__ import annotations

import pytest

from kwire.anonymize.bodies import Bodies
from kwire.anonymize.pseudonyms import Pseudonyms
from kwire.anonymize.stored import Context
from kwire.blobs import BLOBS, decode_stored, encode_stored
from kwire.blobs.connect import ConnectAssignment, ConnectWorkerState
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.blobs.sticky import StickyUserData
from kwire.blobs.streams import AssignmentInfo, SubscriptionInfoData, TaskId
from kwire.codec import decode, encode

NAMES = Pseudonyms(b"a key for these tests")
STORED = Bodies(NAMES).stored
METADATA = "JoinGroupRequest.Protocol.metadata"
TOPIC = "orders-of-the-day"


def test_subscriptions_and_their_user_data_are_replaced_inside() -> None:
    owned = [StickyUserData.TopicPartition(topic=TOPIC, partitions=[3])]
    user_data = encode(StickyUserData(previous_assignment=owned, generation=4), 1)
    data = encode_stored(ConsumerProtocolSubscription(topics=[TOPIC], user_data=user_data), 1)
    new = STORED.inside(METADATA, data, Context("consumer", "sticky"))
    value, version = decode_stored(ConsumerProtocolSubscription, new)
    assert (version, value.topics) == (1, [NAMES.text(TOPIC)])
    inner = decode(StickyUserData, value.user_data or b"", 1)
    assert (inner.previous_assignment[0].topic, inner.generation) == (NAMES.text(TOPIC), 4)


def test_workers_of_connect_are_replaced_inside() -> None:
    tasks = [ConnectAssignment.Connector(connector="sink", tasks=[0])]
    allocation = encode_stored(ConnectAssignment(leader="w", leader_url="http://w", assignment=tasks), 1)
    data = encode_stored(ConnectWorkerState(url="http://worker:8083", config_offset=7, allocation=allocation), 1)
    value, _ = decode_stored(ConnectWorkerState, STORED.inside(METADATA, data, Context("connect")))
    assert (value.url, value.config_offset) == (NAMES.text("http://worker:8083"), 7)
    inner, _ = decode_stored(ConnectAssignment, value.allocation or b"")
    assert inner.assignment is not None
    assert inner.assignment[0].connector == NAMES.text("sink")


def test_streams_tasks_are_replaced_inside_user_data() -> None:
    name = [ord(letter) for letter in "topology"]
    info = AssignmentInfo(version=11, active_tasks=[TaskId(subtopology=1, partition=2, named_topology=name)])
    owner = BLOBS["ConsumerProtocolAssignment"]
    new = STORED.user_data(owner, encode_stored(info, 11), Context("consumer", "stream"))
    value, _ = decode_stored(AssignmentInfo, new)
    assert "".join(map(chr, value.active_tasks[0].named_topology)) == NAMES.text("topology")
    sent = encode_stored(SubscriptionInfoData(version=11, user_end_point=b"host:80"), 11)
    new = STORED.user_data(ConsumerProtocolSubscription, sent, Context("consumer", "stream"))
    assert decode_stored(SubscriptionInfoData, new)[0].user_end_point == NAMES.data(b"host:80")


@pytest.mark.parametrize("data", [b"", b"\0", b'{"host": "registry"}', b"\0\1 and more bytes"])
def test_other_bytes_are_replaced_as_bytes(data: bytes) -> None:
    assert STORED.inside(METADATA, data, Context("sr")) == NAMES.data(data)
