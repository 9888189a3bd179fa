"""The protocol of one connection to a broker, without its socket: ApiVersions first, then requests and responses in
order.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import cast

from kwire.connection import ClientSide
from kwire.errors import EncodeError, WireError
from kwire.messages import APIS
from kwire.messages.api_versions import API_VERSIONS, ApiVersionsRequest, ApiVersionsResponse
from mockbroker.client.call import Failure, OutgoingCall, newest
from mockbroker.client.errors import name as error_name

SOFTWARE = "mockbroker-consumer"
SOFTWARE_VERSION = "1"
UNSUPPORTED_VERSION = 35


class LinkState(Enum):
    """The state of a connection to a broker. Source: ConnectionState of kafka-clients."""

    CONNECTING = "connecting"
    CHECKING_API_VERSIONS = "checking api versions"
    READY = "ready"
    CLOSED = "closed"


class Link:
    """The protocol state of one connection to a broker.

    Args:
        host: Host of the broker.
        port: Port of the broker.
        client_id: Client id of all requests.
        deadline: Time in seconds on the engine's clock. If the connection is not READY at this time, it is closed.

    Attributes:
        state: State of the connection.
        outgoing: Bytes to send. The driver removes the bytes that it sends.
        close_reason: Reason why the connection was closed, for error messages; "" while it is open.
    """

    def __init__(self, host: str, port: int, client_id: str | None, deadline: float) -> None:
        self.host, self.port = host, port
        self.state = LinkState.CONNECTING
        self.deadline = deadline
        self.outgoing: list[bytes] = []
        self.close_reason = ""
        self._side = ClientSide(client_id)
        self._broker_versions: dict[int, tuple[int, int]] = {}
        self._queue: deque[OutgoingCall] = deque()  # until the broker's versions are known
        self._in_flight: deque[OutgoingCall] = deque()

    @property
    def in_flight(self) -> int:
        """The number of requests, sent or queued, that have no response yet."""
        return len(self._queue) + len(self._in_flight)

    def opened(self) -> None:
        """Send ApiVersions, because the connection was established."""
        self.state = LinkState.CHECKING_API_VERSIONS
        self._send_api_versions(newest(API_VERSIONS.key))

    def send_request(self, call: OutgoingCall, now: float) -> None:
        """Send a request as soon as the connection is READY. On a closed connection the request fails immediately.

        ``now``: seconds on the engine's clock.
        """
        if self.state is LinkState.CLOSED:
            call.fail(Failure.DISCONNECTED, self.close_reason)
        elif self.state is LinkState.READY:
            self._send(call, now)
        else:
            self._queue.append(call)

    def received(self, data: bytes, now: float) -> None:
        """Process received bytes, and complete the requests whose responses have arrived.

        If the bytes are not the expected responses, the connection is closed.

        Args:
            data: The bytes.
            now: Seconds on the engine's clock.
        """
        try:
            self._side.receive(data)
            while self.state is not LinkState.CLOSED and (response := self._side.next_response()) is not None:
                if self.state is LinkState.CHECKING_API_VERSIONS:
                    self._handle_api_versions(cast("ApiVersionsResponse", response.body), response.version, now)
                else:
                    self._in_flight.popleft().complete(response.body)
        except WireError as error:
            self.close(f"{self.host}:{self.port} sent an invalid response: {error}")

    def closed(self) -> None:
        """End all requests without a response with a failure, because the broker has closed the connection."""
        self.close(f"{self.host}:{self.port} closed the connection")

    def close(self, reason: str) -> None:
        """Close the connection. All requests without a response fail. ``reason``: text for error messages."""
        if self.state is LinkState.CLOSED:
            return
        self.state, self.close_reason = LinkState.CLOSED, reason
        calls = [*self._in_flight, *self._queue]
        self._in_flight.clear()
        self._queue.clear()
        for call in calls:
            call.fail(Failure.DISCONNECTED, reason)

    def next_deadline(self) -> float:
        """Return the time of the next timeout, in seconds on the engine's clock: of a request or, until the connection
        is READY, of the connection; inf without a timeout.
        """
        at = min((call.deadline for call in self._in_flight), default=float("inf"))
        at = min(at, min((call.deadline for call in self._queue), default=float("inf")))
        return at if self.state is LinkState.READY else min(at, self.deadline)

    def expire(self, now: float) -> None:
        """Close the connection if a response is overdue, or if the connection is not ready by its deadline. As
        responses arrive in order, a missing response blocks all later ones.

        ``now``: seconds on the engine's clock.
        """
        if now < self.next_deadline():
            return
        for call in [*self._in_flight, *self._queue]:
            if call.deadline <= now:
                (self._in_flight if call in self._in_flight else self._queue).remove(call)
                call.fail(Failure.TIMED_OUT)
        self.close(f"{self.host}:{self.port} did not respond within the timeout")

    def _send_api_versions(self, version: int) -> None:
        request = ApiVersionsRequest(client_software_name=SOFTWARE, client_software_version=SOFTWARE_VERSION)
        self.outgoing.append(self._side.send(request, version))

    def _handle_api_versions(self, response: ApiVersionsResponse, version: int, now: float) -> None:
        versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        if response.error_code == UNSUPPORTED_VERSION and version == 0:
            _, highest = versions.get(API_VERSIONS.key, (0, 0))
            self._send_api_versions(min(highest, 3))  # every broker that refuses v4 supports v3
            return
        if response.error_code:
            self.close(f"{self.host}:{self.port} failed ApiVersions: {error_name(response.error_code)}")
            return
        if len(versions) < len(response.api_keys):  # which versions it supports is unknown
            self.close(f"{self.host}:{self.port} sent an invalid response: ApiVersions lists an API twice")
            return
        self._broker_versions, self.state = versions, LinkState.READY
        while self._queue:  # empty if a callback closes the connection
            self._send(self._queue.popleft(), now)

    def _send(self, call: OutgoingCall, now: float) -> None:
        lowest, highest = call.versions
        served = self._broker_versions.get(call.key)
        if served is None or max(lowest, served[0]) > min(highest, served[1]):
            support = "does not support this API" if served is None else f"supports v{served[0]}-{served[1]}"
            call.fail(
                Failure.UNSUPPORTED,
                f"{APIS[call.key].name}: the consumer needs v{lowest}-{highest}, {self.host}:{self.port} {support}",
            )
            return
        call.version, call.sent_at = min(highest, served[1]), now
        try:
            data = self._side.send(call.build(call.version), call.version)
        except EncodeError as error:  # a value of the user does not fit: only this request fails
            call.fail(Failure.UNSUPPORTED, str(error))
            return
        self.outgoing.append(data)
        self._in_flight.append(call)
