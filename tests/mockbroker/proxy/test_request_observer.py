"""The request log of a proxy: the memory that each request needs."""

from __future__ import annotations

import gc
from uuid import UUID

import pytest

from kwire import encode_request
from kwire.frames import pack
from kwire.messages.produce import ProduceRequest
from mockbroker.base.settings import Settings
from mockbroker.net.clock import BrokerTime
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.interception import Interception
from mockbroker.proxy.link import Link
from mockbroker.proxy.observed_broker import ObservedBroker
from mockbroker.proxy.observer import Connection, Exchange
from mockbroker.proxy.request_observer import RequestObserver

CONNECTION = Connection(1, Address("10.0.0.1", 1), 2, Address("real", 9), Address("proxy", 7))
REQUESTS = 100


def exchanges() -> int:
    gc.collect()
    return sum(isinstance(each, Exchange) for each in gc.get_objects())


@pytest.mark.parametrize(("acks", "kept"), [(1, REQUESTS), (0, 0)], ids=["until the response", "without response"])
async def test_a_request_is_kept_until_its_response(acks: int, kept: int) -> None:
    interception = Interception(ObservedBroker(Settings.parse({}), lambda: UUID(int=1)), BrokerTime())
    observer = RequestObserver(interception, lambda: 0.0)
    link = Link(CONNECTION, [observer], interception.intercepts)
    request = pack(encode_request(ProduceRequest(acks=acks), 9, correlation_id=1))
    before = exchanges()
    for _ in range(REQUESTS):
        assert b"".join(map(bytes, link.requests(request))) == request  # type: ignore[arg-type]
    del link  # the link references the requests that wait for a response
    assert exchanges() - before == kept
    assert len(interception.router.requests) == REQUESTS
