"""ListOffsets by timestamp opens batches, whatever they are compressed with; Produce never does."""

from __future__ import annotations

import struct
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from google_crc32c import value as crc32c

import kwire
from kwire import ErrorCode
from kwire.messages.list_offsets import ListOffsetsRequest
from kwire.messages.produce import ProduceRequest
from kwire.records.batch import CRC_FROM, HEADER, Record, build_batch
from kwire.records.compression import NAMES, NONE
from kwire.schema import schema_of
from mockbroker.broker import Broker
from mockbroker.calls import Call, Client, Reply, Ticket
from mockbroker.cluster.model import Node
from mockbroker.journal import Journal
from mockbroker.router import Router
from mockbroker.settings import Settings

MAX_TIMESTAMP = -3
TIMES = [[10, 40, 20], [15, 60, 60], [30]]  # of the records, batch by batch


@pytest.fixture
def router() -> Router:
    ids = count(1)
    broker = Broker([Node(0, "127.0.0.1", 9092)], Settings(), lambda: UUID(int=next(ids)))
    broker.cluster.create_topic("t", broker.cluster.place(1, 1))
    return Router(broker, Journal(0.0))


def ask(router: Router, request: object, version: int) -> Any:
    """The answer, written and read in this version."""
    api = schema_of(type(request)).api
    assert api is not None
    call = Call(Ticket(1, 1, api.key, version), Client(0, "client", "/127.0.0.1"), request)
    (reply,) = router.step(call, 0.0)
    assert isinstance(reply, Reply)
    return kwire.decode(api.response, kwire.encode(reply.response, version), version)


def produce(router: Router, batch: bytes) -> None:
    Topic = ProduceRequest.Topic  # noqa: N806
    topic = Topic(name="t", partition_data=[Topic.Partition(index=0, records=batch)])
    answer = ask(router, ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic]), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0


def look_up(router: Router, timestamp: int) -> tuple[int, int, int]:
    """Offset, timestamp and error code."""
    Topic = ListOffsetsRequest.Topic  # noqa: N806
    topic = Topic(name="t", partitions=[Topic.Partition(partition_index=0, timestamp=timestamp)])
    (found,) = ask(router, ListOffsetsRequest(replica_id=-1, topics=[topic]), 9).topics[0].partitions
    return found.offset, found.timestamp, found.error_code


@pytest.mark.parametrize(("asked", "offset", "timestamp"), [
    (0, 0, 10),
    (10, 0, 10),
    (11, 1, 40),
    (41, 4, 60),  # not in the first batch
    (60, 4, 60),
    (61, -1, -1),
    (MAX_TIMESTAMP, 4, 60),  # the first of two
])  # fmt: skip
@pytest.mark.parametrize("codec", sorted(NAMES))
def test_look_up(router: Router, codec: int, asked: int, offset: int, timestamp: int) -> None:
    for times in TIMES:
        produce(router, build_batch([Record(timestamp=time, value=bytes(100)) for time in times], codec=codec))
    assert look_up(router, asked) == (offset, timestamp, ErrorCode.NONE)


@pytest.mark.parametrize("asked", [0, MAX_TIMESTAMP])
@pytest.mark.parametrize("codec", sorted(set(NAMES) - {NONE}))
def test_records_that_cannot_be_opened(router: Router, codec: int, asked: int) -> None:
    tail = build_batch([Record(timestamp=10)], codec=codec)[CRC_FROM : HEADER.size] + b"not compressed at all"
    produce(router, struct.pack(">qiibI", 0, len(tail) + 9, -1, 2, crc32c(tail)) + tail)
    assert look_up(router, asked) == (-1, -1, ErrorCode.CORRUPT_MESSAGE)
    assert look_up(router, -1) == (1, -1, ErrorCode.NONE)  # the end is known all the same
