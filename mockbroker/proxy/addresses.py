"""The addresses of brokers in responses, and their replacement with addresses of the proxy.

Responses of Metadata, FindCoordinator and DescribeCluster contain addresses. Versions with node endpoints (KIP-951) of
Produce, Fetch, ShareFetch and ShareAcknowledge contain addresses too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, NamedTuple, TypeAlias

from kwire.apikeys import ApiKey
from kwire.lazy_dataclass import dataclass

HOST_AND_PORT = r"(?:\[(?P<ipv6>[0-9a-fA-F:.]+)\]|(?P<host>[^\s\[\]:,]+)):(?P<port>[0-9]{1,5})"
NO_NODE = -1  # node id in a FindCoordinator response with an error


class Address(NamedTuple):
    """The address of a broker.

    Attributes:
        host: host name or IP address.
        port: TCP port.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address | None:
        """Return the address in a text such as ``broker:9092`` or ``[::1]:9092``; None if the text is not an address.

        DNS must allow the host name. The port has up to five digits. The caller must check that the port is in range.
        """
        match = re.fullmatch(HOST_AND_PORT, text)
        if match is None:
            return None
        host = match["ipv6"] or match["host"]
        try:
            host.encode("idna")  # as a connection does
        except UnicodeError:
            return None
        return cls(host, int(match["port"]))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Advertised:
    """The addresses by which clients reach the listeners of a proxy, and the ports of these listeners.

    Attributes:
        host: host of the addresses that are not in ``bootstrap`` and ``brokers``; the port is that of the listener.
        bootstrap: address of the bootstrap listener; None for ``host`` and its port.
        brokers: addresses of the listeners of brokers, by node id.
        ports: ports on which the proxy listens for brokers, by node id. The listener of any other broker has the port
            of its address in ``brokers``, or else a free port.
    """

    host: str
    bootstrap: Address | None = None
    brokers: Mapping[int, Address] = field(default_factory=dict)
    ports: Mapping[int, int] = field(default_factory=dict)

    @property
    def hosts(self) -> list[str]:
        """All hosts, without duplicates; a generated certificate must contain all of them."""
        mapped = [address.host for address in (self.bootstrap, *self.brokers.values()) if address is not None]
        return list(dict.fromkeys([self.host, *mapped]))

    def port(self, node: int) -> int:
        """Return the port on which the proxy listens for a broker; 0 for a free port. ``node``: id of the broker."""
        mapped = self.brokers.get(node)
        return self.ports.get(node, 0 if mapped is None else mapped.port)


Entries: TypeAlias = Callable[[Any], Iterator[tuple[Any, str]]]


def _brokers(response: Any) -> Iterator[tuple[Any, str]]:
    """Yield each broker entry in a decoded response, together with the name of the field that contains the node id."""
    for broker in response.brokers:
        yield broker, "node_id" if hasattr(broker, "node_id") else "broker_id"


def _coordinators(response: Any) -> Iterator[tuple[Any, str]]:
    yield response, "node_id"
    for coordinator in response.coordinators:
        yield coordinator, "node_id"


def _endpoints(response: Any) -> Iterator[tuple[Any, str]]:
    for endpoint in response.node_endpoints:
        yield endpoint, "node_id"


ENTRIES: Mapping[int, Entries] = {
    ApiKey.METADATA: _brokers,
    ApiKey.FIND_COORDINATOR: _coordinators,
    ApiKey.DESCRIBE_CLUSTER: _brokers,
    ApiKey.PRODUCE: _endpoints,
    ApiKey.FETCH: _endpoints,
    ApiKey.SHARE_FETCH: _endpoints,
    ApiKey.SHARE_ACKNOWLEDGE: _endpoints,
}
FIRST_VERSIONS: Mapping[int, int] = {ApiKey.PRODUCE: 10, ApiKey.FETCH: 16}  # with node endpoints


def may_have_addresses(api_key: int, version: int) -> bool:
    """Return whether responses of an API in a version can contain addresses of brokers.

    Args:
        api_key: API key, which may be unknown to kwire.
        version: API version of the response.
    """
    return api_key in ENTRIES and version >= FIRST_VERSIONS.get(api_key, 0)


def addresses_of(api_key: int, response: Any) -> dict[int, Address]:
    """Return the addresses in a decoded response, by node id.

    Args:
        api_key: API key of the response, one for which ``may_have_addresses`` is true.
        response: the decoded response.
    """
    return {
        getattr(entry, node): Address(entry.host, entry.port)
        for entry, node in ENTRIES[api_key](response)
        if entry.host and getattr(entry, node) != NO_NODE
    }


def replace_addresses(api_key: int, response: Any, own: Mapping[int, Address]) -> None:
    """Replace the addresses of brokers in a decoded response with addresses of the proxy.

    Args:
        api_key: API key of the response, one for which ``may_have_addresses`` is true.
        response: the decoded response, which is changed.
        own: address of the proxy for each broker, by node id. The address of a broker that is not in ``own`` is not
            replaced.
    """
    for entry, node in ENTRIES[api_key](response):
        address = own.get(getattr(entry, node))
        if address is not None and entry.host:
            entry.host, entry.port = address


def error_reason(error: OSError) -> str:
    """Return the reason for which an address cannot be used, as the operating system describes it.

    An error of name resolution has a negative number, which only its own text explains.
    """
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
