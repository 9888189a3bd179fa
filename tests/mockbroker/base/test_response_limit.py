"""The size limit of responses: a request whose response would be too large is refused before it is built."""

from __future__ import annotations

from typing import Any

import pytest
from tools.broker_harness import BrokerHarness, commit_without_member, stable_member
from tools.counting import counted
from tools.served_broker import serving

from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.describe_configs import DescribeConfigsRequest
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.describe_producers import DescribeProducersRequest
from kwire.messages.describe_transactions import DescribeTransactionsRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from mockbroker.base.response_limit import ResponseTooLargeError, Room
from mockbroker.base.settings import NO_LIMIT

LIMIT = 2_000
SETTING = "mockbroker.response.max.bytes"
REFUSAL = "above mockbroker.response.max.bytes (2000): request fewer items at once, or raise the setting"


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness(config={SETTING: LIMIT})
    harness.watched = 0
    stable_member(harness, "classic", metadata=b"\0\1\0\0\0\0\xff\xff\xff\xff", assignment=bytes(200))
    commit_without_member(harness, "offsets")
    joining = ConsumerGroupHeartbeatRequest(
        group_id="consumer",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    harness.ask(joining, 1)
    harness.ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000), 4)
    return harness


def described_groups(times: int) -> tuple[Any, int]:
    return DescribeGroupsRequest(groups=["classic"] * times), 5


def described_consumer_groups(times: int) -> tuple[Any, int]:
    return ConsumerGroupDescribeRequest(group_ids=["consumer"] * times), 1


def all_offsets(times: int) -> tuple[Any, int]:
    return OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="offsets", topics=None)] * times), 8


def one_offset(times: int) -> tuple[Any, int]:
    return OffsetFetchRequest(group_id="offsets", topics=[one_topic(times)]), 7


def one_topic(times: int) -> OffsetFetchRequest.Topic:
    return OffsetFetchRequest.Topic(name="t", partition_indexes=[0] * times)


def one_offset_of_groups(times: int) -> tuple[Any, int]:
    kind = OffsetFetchRequest.Group
    topics = [kind.Topic(name="t", partition_indexes=[0] * times)]
    return OffsetFetchRequest(groups=[kind(group_id="offsets", topics=topics)]), 8


def described_transactions(times: int) -> tuple[Any, int]:
    return DescribeTransactionsRequest(transactional_ids=["tx"] * times), 0


def described_producers(times: int) -> tuple[Any, int]:
    topics = [DescribeProducersRequest.Topic(name="t", partition_indexes=[0] * times)]
    return DescribeProducersRequest(topics=topics), 0


def described_configs(times: int) -> tuple[Any, int]:
    resource = DescribeConfigsRequest.Resource(resource_type=2, resource_name="t", configuration_keys=["retention.ms"])
    return DescribeConfigsRequest(resources=[resource] * times), 4


REPEATED = [
    described_groups,
    described_consumer_groups,
    all_offsets,
    one_offset,
    one_offset_of_groups,
    described_transactions,
    described_producers,
    described_configs,
]


@pytest.mark.parametrize("asked", REPEATED)
def test_a_response_beyond_the_limit_closes_the_connection(harness, asked):
    request, version = asked(2)
    assert harness.ask(request, version) is not None
    request, version = asked(1_000)
    sent = harness.send(request, version)
    assert sent.answer is None
    assert sent.closed is not None
    assert REFUSAL in sent.closed


@pytest.mark.parametrize("asked", [described_groups, described_consumer_groups, all_offsets, described_configs])
def test_repeated_names_are_described_once(asked):
    harness = BrokerHarness()
    harness.watched = 0
    stable_member(harness, "classic", assignment=bytes(200))
    commit_without_member(harness, "offsets")
    costs = []
    for times in (1, 101):
        request, version = asked(times)
        with counted() as calls:
            harness.ask(request, version)
        costs.append(calls.count)
    assert costs[1] - costs[0] < 100 * costs[0] / 4


def test_room_ends_at_the_limit():
    room = Room(10)
    room.reserve(10)
    with pytest.raises(
        ResponseTooLargeError, match=r"have at least 11 bytes, above mockbroker\.response\.max\.bytes \(10\)"
    ):
        room.reserve(1)


def test_room_without_limit_never_ends():
    Room(NO_LIMIT).reserve(1 << 60)


async def test_a_response_that_became_too_large_is_not_sent(caplog):
    """For APIs that do not count while they build a response, the size of the encoded response is checked."""
    async with serving(config={SETTING: 100}) as place:
        peer = await place.connect()
        await peer.send((ApiVersionsRequest(client_software_name="c", client_software_version="1"), 3))
        assert await peer.closed() == b""
    (line,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert "closed: the response" in line
    assert "mockbroker.response.max.bytes" in line
