"""A program of a user of kwire and mockbroker. tests/test_types.py checks it with mypy --strict and pyright strict.

The types that the packages promise are in ``assert_type``. Nothing here is run.
"""

from __future__ import annotations

from typing import Any, assert_type

import pytest

import kwire
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.offset_commit import OffsetCommitRequest
from mockbroker import (
    ApiName,
    ClockMode,
    ErrorName,
    EventKind,
    GroupState,
    KafkaCluster,
    KafkaClusterFactory,
    open_cluster,
    run_cluster,
)


def frames(frame: bytes) -> None:
    request = kwire.decode_request(frame, JoinGroupRequest)
    assert_type(request.body, JoinGroupRequest)
    assert_type(request.body.protocols[0].name, str)
    anything: kwire.Request = kwire.decode_request(frame)
    print(anything.body.group_id)
    response = kwire.decode_response(frame, 11, 9, JoinGroupResponse)
    assert_type(response.body.generation_id, int)
    assert_type(kwire.decode(JoinGroupRequest, b"", 9), JoinGroupRequest)


@pytest.fixture
def orders(kafka_cluster: KafkaCluster) -> KafkaCluster:
    kafka_cluster.create_topic("orders", 6)
    return kafka_cluster


@pytest.mark.kafka(clock="manual")
def test_requests(orders: KafkaCluster) -> None:
    fault = orders.faults.add(api="OffsetCommit", error="REBALANCE_IN_PROGRESS", times=1)
    (join,) = orders.requests(JoinGroupRequest)
    assert_type(join.body, JoinGroupRequest)
    for commit in orders.requests(OffsetCommitRequest):
        assert_type(commit.body.topics[0].name, str)
    assert orders.requests("JoinGroup")[0].body.group_id == "billing"
    state: GroupState | None = "Stable"
    group = orders.wait_group("billing", state=state, members=3)
    assert_type(group.state, GroupState)
    assert group.state == "Stable"
    for event in orders.events():
        if event.event == "rebalance" or event.event is EventKind.EXPIRE:
            print(event.reason)
    assert fault.applied == 1


def test_factory(kafka_cluster_factory: KafkaClusterFactory) -> None:
    clock: ClockMode = "manual"
    cluster = kafka_cluster_factory(brokers=3, clock=clock)
    cluster.kill_broker(0)


async def waits(cluster: KafkaCluster) -> None:
    group = await cluster.wait_group_async("billing", state="Empty")
    print(group.members)


def run() -> None:
    api: ApiName = "Fetch"
    error: ErrorName = "NOT_COORDINATOR"
    with run_cluster(topics={"orders": 1}, clock="real") as cluster:
        mine: KafkaCluster = cluster
        mine.faults.add(api=api, error=error)
        offsets: dict[tuple[str, int], int] = mine.committed("billing")
        print(offsets)


async def run_trio() -> None:
    async with open_cluster(clock="manual") as cluster:
        events = await cluster.clock.advance(45)
        print([event.to_json() for event in events])
        body: Any = cluster.requests()[0].body
        print(body)
