"""The listeners of a replay, one for each recorded broker, and the tasks that answer clients."""

from __future__ import annotations

import logging
import math
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from enum import StrEnum
from functools import partial
from typing import Any

import trio

from kwire.apikeys import ApiKey
from kwire.counted import counted
from kwire.envelope import Request, decode_request, decode_response, encode_response, peek_request
from kwire.errors import WireError
from kwire.frames import pack
from kwire.lazy_dataclass import dataclass
from kwire.messages.api_versions import ApiVersionsResponse
from mockbroker.api.cluster import open_cluster
from mockbroker.base.effects import Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.journal import Journal
from mockbroker.net.bound_listeners import listen
from mockbroker.net.listeners import LAST_PORT
from mockbroker.proxy.addresses import ENTRIES, Address, replace_addresses
from mockbroker.replay.clock import ReplayClock
from mockbroker.replay.connection import GONE, ClientConnection, Ended
from mockbroker.replay.player import Answer, Departure, Player
from mockbroker.replay.refusal import refusal
from mockbroker.replay.script import Script

log = logging.getLogger("mockbroker")

UNSUPPORTED_VERSION = 35
MAX_DEPARTED = 10_000  # client ids that continue with the mock; then the oldest is removed
MAX_MOCK_BROKERS = 500  # each one has a listener, and processes usually may open 1,024 files


class Otherwise(StrEnum):
    """The handling of requests that are not in the recording.

    Attributes:
        ERROR: respond with the error UNKNOWN_SERVER_ERROR; close the connection if the response has no error field.
        MOCK: let the mock cluster handle the request, and all later requests of the same client id.
        CLOSE: close the connection.
    """

    ERROR = "error"
    MOCK = "mock"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a replay.

    Attributes:
        otherwise: the handling of requests that are not in the recording.
        speed: factor by which latencies are shorter than in the recording; infinity to respond immediately.
    """

    otherwise: Otherwise = Otherwise.ERROR
    speed: float = 1.0


class Replay:
    """The brokers of a recording. They answer clients while ``running`` is active.

    Args:
        script: the recording.
        options: the options.
        host: address to listen on.
        port: port of the first broker. The next brokers listen on port + 1, port + 2, in the order of their ids. 0
            picks free ports.
        advertised: host in the addresses of brokers in responses.

    Attributes:
        journal: the journal, with an event for each request that is not in the recording.

    Raises:
        OSError: A port cannot be used.
        ValueError: A port is out of range, or the ids of the brokers are too far apart for a mock cluster.
    """

    def __init__(self, script: Script, options: Options, host: str, port: int, advertised: str) -> None:
        nodes = script.nodes or [0]
        if port and port + len(nodes) - 1 > LAST_PORT:
            highest = LAST_PORT + 1 - len(nodes)
            raise ValueError(f"port {port} is out of range (0-{highest} for {counted(len(nodes), 'broker')})")
        if options.otherwise is Otherwise.MOCK and nodes[-1] - nodes[0] >= MAX_MOCK_BROKERS:
            raise ValueError(
                f"the recorded broker ids {nodes[0]} and {nodes[-1]} are too far apart for a mock cluster, which has "
                f"at most {MAX_MOCK_BROKERS} brokers with consecutive ids: use --otherwise error or --otherwise close"
            )
        self.journal = Journal(0.0)
        self._script = script
        self._options = options
        self._player = Player(script)
        self._departed: dict[str | None, None] = {}  # client ids that continue with the mock, the oldest first
        self._mocks: dict[int, Address] = {}
        self._clock: ReplayClock
        self._socks: dict[int, socket.socket] = {}
        for number, node in enumerate(nodes):
            self._socks[node] = listen(host, port + number if port else 0)
        self._own = {node: Address(advertised, sock.getsockname()[1]) for node, sock in self._socks.items()}

    @property
    def bootstrap_servers(self) -> str:
        """The ``bootstrap.servers`` for clients."""
        return ",".join(map(str, self._own.values()))

    @asynccontextmanager
    async def running(self, clock: ReplayClock) -> AsyncIterator[None]:
        """Serve clients during the block. ``clock``: the clock of the latencies and of the journal."""
        self._clock = clock
        async with AsyncExitStack() as stack:
            if self._options.otherwise is Otherwise.MOCK:
                await self._open_mock(stack)
            nursery = await stack.enter_async_context(trio.open_nursery())
            for node, sock in self._socks.items():
                listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
                nursery.start_soon(trio.serve_listeners, partial(self._serve, node), [listener])
            yield
            nursery.cancel_scope.cancel()

    async def _open_mock(self, stack: AsyncExitStack) -> None:
        nodes = sorted(self._own)
        mock = await stack.enter_async_context(
            open_cluster(brokers=nodes[-1] - nodes[0] + 1, first_node=nodes[0], topics=self._script.topics)
        )
        self._mocks = {node.node_id: Address(node.host, node.port) for node in mock.nodes}

    async def _serve(self, node: int, client: trio.SocketStream) -> None:
        connection = ClientConnection(client)
        try:
            async with client, trio.open_nursery() as nursery:
                nursery.start_soon(connection.receive)
                with suppress(*GONE, Ended):
                    await self._handle_all(node, connection)
                nursery.cancel_scope.cancel()
        except Exception:  # must not end the other connections
            log.exception("connection closed: internal error")
        finally:
            if connection.mock is not None:
                await trio.aclose_forcefully(connection.mock)

    async def _handle_all(self, node: int, connection: ClientConnection) -> None:
        try:
            while (frame := await connection.next_frame()) is not None:
                await connection.send(await self._response(node, connection, frame))
        except WireError as error:
            log.warning("connection closed: %s", error)

    async def _response(self, node: int, connection: ClientConnection, frame: bytes) -> bytes | None:
        """Return the response to a request; None if the request needs no response.

        Args:
            node: id of the broker.
            connection: the connection.
            frame: the request, without its length prefix.

        Raises: WireError if the request cannot be decoded; Ended to close the connection.
        """
        key, version = peek_request(frame)
        try:
            request = decode_request(frame)
        except WireError:
            if key != ApiKey.API_VERSIONS:
                raise
            body = ApiVersionsResponse(error_code=UNSUPPORTED_VERSION, api_keys=self._script.api_versions())
            correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
            return encode_response(body, 0, correlation_id=correlation_id)
        if request.header.client_id in self._departed:
            return await self._mocked(node, connection, request, frame)
        found = self._player.answer(version, request.header.client_id, request.body)
        if isinstance(found, Departure):
            return await self._otherwise(node, connection, request, frame, found)
        await connection.delay(trio.sleep if found.waits else self._clock.sleep, found.delay(self._options.speed))
        return None if _needs_no_response(request) else self._encoded(found, request)

    def _encoded(self, found: Answer, request: Request) -> bytes:
        if request.api.key in ENTRIES:
            replace_addresses(request.api.key, found.response, self._own)
        return encode_response(found.response, found.version, correlation_id=request.header.correlation_id)

    async def _otherwise(
        self, node: int, connection: ClientConnection, request: Request, frame: bytes, departure: Departure
    ) -> bytes | None:
        self._note(request, departure)
        if self._options.otherwise is Otherwise.MOCK:
            self._departed[request.header.client_id] = None
            if len(self._departed) > MAX_DEPARTED:
                del self._departed[next(iter(self._departed))]
            return await self._mocked(node, connection, request, frame)
        response = refusal(request.body, request.version) if self._options.otherwise is Otherwise.ERROR else None
        if response is None:
            raise Ended
        if _needs_no_response(request):
            return None
        return self._encoded(Answer(response, request.version, 0.0), request)

    def _note(self, request: Request, departure: Departure) -> None:
        client_id = request.header.client_id
        log.warning("client %s has left the recording: %s", client_id, departure.reason)
        group, member = (getattr(request.body, name, None) or "" for name in ("group_id", "member_id"))
        note = Note(
            event=EventKind.DEPARTURE,
            group=group,
            member_id=member,
            client_id=client_id or "",
            reason=departure.reason,
        )
        self.journal.record(note, self._clock.now())

    async def _mocked(self, node: int, connection: ClientConnection, request: Request, frame: bytes) -> bytes | None:
        """Return the response of the mock cluster, with the addresses of this replay; None if the request needs no
        response.

        The connection to the mock cluster is opened for the first such request of a client's connection.

        Args:
            node: id of the broker.
            connection: the connection.
            request: the decoded request.
            frame: the request, without its length prefix.
        """
        if connection.mock is None:
            address = self._mocks[node]
            connection.mock = await trio.open_tcp_stream(address.host, address.port)
        await connection.mock.send_all(pack(frame))
        if _needs_no_response(request):
            return None
        answered = await connection.mock_response()
        if request.api.key not in ENTRIES:
            return answered
        response = decode_response(answered, request.api.key, request.version)
        return self._encoded(Answer(response.body, response.version, 0.0), request)


def _needs_no_response(request: Request) -> bool:
    body: Any = request.body
    return request.api.key == ApiKey.PRODUCE and body.acks == 0


def speed_of(text: str) -> float:
    """Return the speed in the value of an option: a number above 0, or infinity for ``max``.

    ``text``: the value.

    Raises: ValueError if the value is neither a number above 0 nor ``max``.
    """
    try:
        speed = math.inf if text == "max" else float(text)
    except ValueError:
        speed = math.nan
    if not speed > 0:
        raise ValueError(f"{text} is not a valid speed: use a number above 0, or max")
    return speed
