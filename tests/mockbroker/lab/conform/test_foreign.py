"""Preparation of an external broker whose responses are slow."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kwire import ErrorCode
from kwire.messages.create_topics import CreateTopicsResponse
from kwire.messages.delete_groups import DeleteGroupsResponse
from kwire.messages.describe_groups import DescribeGroupsResponse
from kwire.messages.init_producer_id import InitProducerIdResponse
from kwire.messages.metadata import MetadataResponse
from mockbroker.lab.conform import foreign
from mockbroker.lab.conform.asker import Asker
from mockbroker.lab.conform.conversation import Conversation, Step

SLOW = foreign.SETTLE_TIMEOUT * 0.6  # seconds until a response


class SlowAsker(Asker):
    """A connection to an external broker whose responses to DeleteGroups and InitProducerId are slow and contain an
    error.

    Attributes:
        cancelled: names of the responses whose requests were cancelled.
    """

    def __init__(self) -> None:
        self.cancelled: list[str] = []

    async def ask(self, request: Any, version: int, kind: type[Any]) -> Any:
        name = kind.__name__
        if name in ("DeleteGroupsResponse", "InitProducerIdResponse"):
            try:
                await trio.sleep(SLOW)
            except trio.Cancelled:
                self.cancelled.append(name)
                raise
        if kind is DeleteGroupsResponse:
            result = DeleteGroupsResponse.Result(group_id="g", error_code=ErrorCode.NON_EMPTY_GROUP)
            return DeleteGroupsResponse(results=[result])
        if kind is InitProducerIdResponse:
            return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert kind in (DescribeGroupsResponse, MetadataResponse, CreateTopicsResponse)
        return kind()


@pytest.mark.parametrize("api", ["DescribeGroups", "InitProducerId"])
async def test_pending_request_is_not_cancelled(api: str, autojump_clock: trio.abc.Clock) -> None:
    step = Step(n=1, event="request", api=api, fields={"groups": ["g"]})
    conversation = Conversation(
        scenario="s", release="Apache Kafka 4.2.0", doc="", config={}, topics={}, names={}, steps=[step]
    )
    asker = SlowAsker()
    await foreign.prepare(asker, conversation)
    assert asker.cancelled == []
    assert trio.current_time() >= foreign.SETTLE_TIMEOUT
