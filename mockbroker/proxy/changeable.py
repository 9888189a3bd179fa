"""A response that may contain broker addresses, or that fault rules may change.

A large response is processed in slices (parts of limited size), so that other tasks can run.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import field
from typing import Any

from kwire.codec import encode, encode_in_slices
from kwire.envelope import decode_response, decode_response_in_slices
from kwire.errors import WireError
from kwire.frames import PREFIX, pack
from kwire.headers import response_header_version
from kwire.lazy_dataclass import dataclass
from kwire.messages import APIS
from mockbroker.proxy.addresses import ENTRIES, Address, addresses_of, replace_addresses
from mockbroker.proxy.observer import LARGE, SLICE, Exchange, Steps, notify_answered


@dataclass(slots=True)
class Changeable:
    """A response that may be changed before it is sent to the client.

    ``decode``, ``replace_addresses`` and ``notify`` are generators that yield between slices (parts of limited size) of
    the work. The caller must run each generator to its end.

    Attributes:
        frame: the frame from the broker, with its length prefix.
        exchange: the request with its response.
        changed: the frame for the client, with its length prefix; the same object as ``frame`` if nothing was changed.
        version: API version of the response, which can differ from that of the request in ApiVersions.
        response: the decoded response; None if kwire cannot decode the response.
        addresses: the addresses in the response, by node id; empty if kwire cannot decode the response.
    """

    frame: bytes
    exchange: Exchange
    changed: bytes = b""
    version: int = 0
    response: Any = None
    addresses: dict[int, Address] = field(default_factory=dict)
    _header: Any = None

    def __post_init__(self) -> None:
        self.changed = self.frame
        self.version = self.exchange.version

    def decode(self) -> Generator[None, None, None]:
        """Decode the response, and set ``response``, ``version`` and ``addresses``, and ``decoded`` of the exchange.

        If decoding fails, leave all of them unchanged.
        """
        key, version = self.exchange.api_key, self.exchange.version
        data = self.frame[PREFIX.size :]
        try:
            if len(data) <= LARGE:
                decoded = decode_response(data, key, version)
            else:
                decoded = yield from decode_response_in_slices(data, key, version, SLICE)
        except WireError:
            return
        self.version, self.response, self._header = decoded.version, decoded.body, decoded.header
        self.exchange.decoded = decoded.body
        if key in ENTRIES:
            self.addresses = addresses_of(key, self.response)

    def replace_addresses(self, own: Mapping[int, Address]) -> Generator[None, None, None]:
        """Replace the broker addresses in ``response`` and ``changed``. If ``addresses`` is empty, do nothing.

        Args:
            own: address of the proxy for each broker, by node id.
        """
        if not self.addresses:
            return
        key = self.exchange.api_key
        replace_addresses(key, self.response, own)
        header = encode(self._header, response_header_version(APIS[key], self.version))
        if len(self.frame) <= LARGE:
            body = encode(self.response, self.version)
        else:
            body = yield from encode_in_slices(self.response, self.version, SLICE)
        self.changed = pack(header + body)

    def notify(self) -> Steps:
        """Report the response to the observers of the exchange: call their method ``answered``."""
        if self.exchange.observers or self.exchange.byte_observers:
            answer = self.frame[PREFIX.size :]
            changed = answer if self.changed is self.frame else self.changed[PREFIX.size :]
            yield from notify_answered(self.exchange, answer, changed)
