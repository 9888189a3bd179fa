"""One connection to a broker without its socket: versions are agreed upon, then answers come in order."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import cast

from kwire.connection import ClientSide
from kwire.errors import EncodeError, WireError
from kwire.messages import APIS
from kwire.messages.api_versions import API_VERSIONS, ApiVersionsRequest, ApiVersionsResponse
from mockbroker.client.call import Failure, OutgoingCall, newest

SOFTWARE = "mockbroker-consumer"
SOFTWARE_VERSION = "1"
UNSUPPORTED_VERSION = 35


class LinkState(Enum):
    """Where a connection stands."""

    OPENING = "opening"
    AGREEING = "agreeing"  # ApiVersions is on its way
    READY = "ready"
    CLOSED = "closed"


class Link:
    """``outgoing``: bytes to send; whoever sends them takes them away. ``why``: it was closed, for people."""

    def __init__(self, host: str, port: int, client_id: str, deadline: float) -> None:
        self.host, self.port = host, port
        self.state = LinkState.OPENING
        self.deadline = deadline  # to be READY
        self.outgoing: list[bytes] = []
        self.why = ""
        self._side = ClientSide(client_id)
        self._served: dict[int, tuple[int, int]] = {}
        self._queue: deque[OutgoingCall] = deque()  # until versions are known
        self._flying: deque[OutgoingCall] = deque()

    @property
    def in_flight(self) -> int:
        """Requests without an answer, sent or to be sent."""
        return len(self._queue) + len(self._flying)

    def opened(self) -> None:
        """The connection is there."""
        self.state = LinkState.AGREEING
        self._ask_versions(newest(API_VERSIONS.key))

    def ask(self, call: OutgoingCall, now: float) -> None:
        """Send it as soon as it can be sent. A closed link fails it."""
        if self.state is LinkState.CLOSED:
            call.failed(Failure.DISCONNECTED, self.why)
        elif self.state is LinkState.READY:
            self._send(call, now)
        else:
            self._queue.append(call)

    def received(self, data: bytes, now: float) -> None:
        """Bytes came. Closes the link if they cannot be answers to what was asked."""
        try:
            self._side.receive(data)
            while self.state is not LinkState.CLOSED and (response := self._side.next_response()) is not None:
                if self.state is LinkState.AGREEING:
                    self._agreed(cast("ApiVersionsResponse", response.body), response.version, now)
                else:
                    self._flying.popleft().answered(response.body)
        except WireError as error:
            self.close(f"{self.host}:{self.port} sent what cannot be: {error}")

    def closed(self) -> None:
        """The other end hung up, or could not be reached."""
        self.close(f"{self.host}:{self.port} hung up")

    def close(self, why: str) -> None:
        """Everything under way fails."""
        if self.state is LinkState.CLOSED:
            return
        self.state, self.why = LinkState.CLOSED, why
        calls = [*self._flying, *self._queue]
        self._flying.clear()
        self._queue.clear()
        for call in calls:
            call.failed(Failure.DISCONNECTED, why)

    def due(self) -> float:
        """When the next thing takes too long."""
        at = min((call.deadline for call in self._flying), default=float("inf"))
        at = min(at, min((call.deadline for call in self._queue), default=float("inf")))
        return at if self.state is LinkState.READY else min(at, self.deadline)

    def expire(self, now: float) -> None:
        """Close the link if an answer is overdue: those behind it would come after it."""
        if now < self.due() or self.state is LinkState.CLOSED:
            return
        for call in [*self._flying, *self._queue]:
            if call.deadline <= now:
                (self._flying if call in self._flying else self._queue).remove(call)
                call.failed(Failure.TIMED_OUT)
        self.close(f"{self.host}:{self.port} did not answer in time")

    def _ask_versions(self, version: int) -> None:
        request = ApiVersionsRequest(client_software_name=SOFTWARE, client_software_version=SOFTWARE_VERSION)
        self.outgoing.append(self._side.send(request, version))

    def _agreed(self, answer: ApiVersionsResponse, version: int, now: float) -> None:
        listed = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        if answer.error_code == UNSUPPORTED_VERSION and version == 0:
            _, highest = listed.get(API_VERSIONS.key, (0, 0))
            self._ask_versions(min(highest, 3))  # below what was just refused: all brokers of version 4 take that
            return
        if answer.error_code:
            self.close(f"{self.host}:{self.port} answers ApiVersions with error {answer.error_code}")
            return
        self._served, self.state = listed, LinkState.READY
        while self._queue and self.state is LinkState.READY:
            self._send(self._queue.popleft(), now)

    def _send(self, call: OutgoingCall, now: float) -> None:
        lowest, highest = call.versions
        served = self._served.get(call.key)
        if served is None or max(lowest, served[0]) > min(highest, served[1]):
            has = "does not have it" if served is None else f"has {served[0]}-{served[1]}"
            call.failed(
                Failure.UNSUPPORTED,
                f"{APIS[call.key].name} v{lowest}-{highest} is needed, {self.host}:{self.port} {has}",
            )
            return
        call.version, call.sent_at = min(highest, served[1]), now
        try:
            data = self._side.send(call.build(call.version), call.version)
        except EncodeError as error:  # what the user wants said does not fit: his call fails, and nothing else
            call.failed(Failure.UNSUPPORTED, str(error))
            return
        self.outgoing.append(data)
        self._flying.append(call)
