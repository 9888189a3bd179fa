"""Encoding of a response in slices (parts of limited size); other connections are served between two slices."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from kwire.codec import encode_in_slices
from kwire.envelope import pack_response
from mockbroker.base.effects import Reply


def encoded(reply: Reply, size: int) -> Generator[None, None, Reply]:
    """Encode a response, and change its bytes if a fault rule requires it.

    Yield after about every ``size`` array elements.

    The generator returns the effect ``Reply`` with the encoded response. Its ``delivery`` contains the bytes to send if
    a fault rule has changed them.

    Args:
        reply: The effect of sending the response.
        size: Number of array elements after which the generator yields.

    Raises:
        kwire.WireError: The response cannot be encoded.
    """
    ticket = reply.ticket
    cache = {} if reply.encoded is None else reply.encoded
    if ticket.version not in cache:
        cache[ticket.version] = yield from encode_in_slices(reply.response, ticket.version, size)
    delivery = reply.delivery
    if delivery is not None and delivery.alter is not None:
        frame = pack_response(cache[ticket.version], ticket.api_key, ticket.version, ticket.correlation_id)
        delivery = replace(delivery, alter=None, frame=(yield from delivery.alter(frame)))
    return Reply(ticket, reply.response, cache, delivery)
