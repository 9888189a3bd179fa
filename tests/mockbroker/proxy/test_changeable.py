"""Responses with addresses: small ones are changed at once, large ones in slices."""

from __future__ import annotations

import pytest
from tools.counting import in_slices

from kwire.apikeys import ApiKey
from kwire.envelope import encode_response
from kwire.frames import pack
from kwire.messages.metadata import MetadataResponse
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.changeable import Changeable
from mockbroker.proxy.observer import Connection, Exchange, Observer

CONNECTION = Connection(1, Address("client", 1), 0, Address("real", 9), Address("proxy", 7))
OWN = {3: Address("proxy", 7)}


def metadata(host: str, port: int, partitions: int) -> MetadataResponse:
    topic = MetadataResponse.Topic
    return MetadataResponse(
        brokers=[MetadataResponse.Broker(node_id=3, host=host, port=port)],
        topics=[topic(name="t", partitions=[topic.Partition(partition_index=index) for index in range(partitions)])],
    )


@pytest.mark.parametrize(("partitions", "slices"), [(10, 1), (5_000, 6)])
def test_addresses_are_replaced(partitions: int, slices: int) -> None:
    frame = pack(encode_response(metadata("real", 9, partitions), 12, correlation_id=1))
    response = Changeable(frame, Exchange(CONNECTION, ApiKey.METADATA, 12, 1))
    assert in_slices(response.decode())[0] == slices
    assert response.addresses == {3: Address("real", 9)}
    assert response.response == metadata("real", 9, partitions)
    assert in_slices(response.replace_addresses(OWN))[0] == slices
    assert response.changed == pack(encode_response(metadata("proxy", 7, partitions), 12, correlation_id=1))
    assert response.exchange.decoded == metadata("proxy", 7, partitions)


def test_observers_get_both_forms_of_a_response() -> None:
    seen: list[Exchange] = []

    class Recorder(Observer):
        def answered(self, exchange: Exchange) -> None:
            seen.append(exchange)

    answer = encode_response(metadata("real", 9, 1), 12, correlation_id=1)
    response = Changeable(pack(answer), Exchange(CONNECTION, ApiKey.METADATA, 12, 1, observers=(Recorder(),)))
    in_slices(response.decode())
    in_slices(response.replace_addresses(OWN))
    in_slices(response.notify())
    (exchange,) = seen
    assert exchange.answer == answer
    assert exchange.response == encode_response(metadata("proxy", 7, 1), 12, correlation_id=1)
