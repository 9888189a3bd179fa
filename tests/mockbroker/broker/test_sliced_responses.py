"""Encoding of responses in slices, and changes of encoded slices that the delivery requires."""

from __future__ import annotations

from collections.abc import Generator

from tools.counting import in_slices

from kwire import encode_response
from kwire.apikeys import ApiKey
from kwire.codec import encode
from kwire.frames import pack
from kwire.messages.metadata import MetadataResponse
from mockbroker.base.effects import Delivery, Reply, Ticket
from mockbroker.broker.sliced_responses import encoded

TICKET = Ticket(1, 7, ApiKey.METADATA, 12)
RESPONSE = MetadataResponse(topics=[MetadataResponse.Topic(name=f"t{number}") for number in range(100)])


def altered(frame: bytes) -> Generator[None, None, bytes]:
    for _ in range(3):
        yield
    return frame[::-1]


def test_response_is_encoded_in_slices() -> None:
    slices, reply = in_slices(encoded(Reply(TICKET, RESPONSE), 10))
    assert slices > 10
    assert reply.encoded == {12: encode(RESPONSE, 12)}
    assert reply.delivery is None


def test_cached_response_is_not_encoded_again() -> None:
    reply = Reply(TICKET, RESPONSE, {12: b"cached"})
    assert in_slices(encoded(reply, 10)) == (1, reply)


def test_bytes_are_changed_in_slices_after_the_encoding() -> None:
    frame = pack(encode_response(RESPONSE, 12, correlation_id=7))
    slices, reply = in_slices(encoded(Reply(TICKET, RESPONSE, delivery=Delivery(alter=altered, close="cut")), 1_000))
    assert slices == 1 + 3
    assert reply.delivery == Delivery(frame=frame[::-1], close="cut")
