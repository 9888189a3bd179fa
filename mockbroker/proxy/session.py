"""One proxied connection: the tasks that forward bytes and carry out the orders of the fault rules."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import struct
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

import trio

from kwire.errors import WireError
from mockbroker.net.slices import complete
from mockbroker.net.tls import failure_reason
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.changeable import Changeable
from mockbroker.proxy.interception import Channel, Interception
from mockbroker.proxy.link import Intercepted, Link
from mockbroker.proxy.observer import Connection, Moment
from mockbroker.proxy.orders import End, Forward, Order, Send, SendMore
from mockbroker.proxy.repeated_warnings import RepeatedWarnings
from mockbroker.proxy.splicing import SplicePipe

log = logging.getLogger("mockbroker")

HANDSHAKE_TIMEOUT = 10.0  # seconds
READ_SIZE = 130_990  # bytes of one read: two full packets of a recording
GONE = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)
LARGE_READ = 16_384  # bytes of a read after which the rest of the frame may be received into memory of a recording
MAX_COPIED = 4 * 65_495  # bytes of such a read: full packets of a recording; the bytes that are not sent are copied
MAX_SPLICED = 4 * MAX_COPIED  # bytes of such a read if bytes that are not sent remain in the receive buffer
CAN_RECEIVE_IN_PARTS = hasattr(socket.socket, "recvmsg_into")  # not on Windows
HANDSHAKE_FAILURE = b"\x15\x03\x03\x00\x02\x02\x28"  # TLS record: a fatal alert
TLS_RECORDS = (b"\x15\x03", b"\x16\x03")  # first bytes of an alert and of a handshake message
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close resets the connection


Receive: TypeAlias = Callable[[], Awaitable[bytes | bytearray]]


class Ended(Exception):
    """The exception that ends the tasks of a connection that a fault rule or the client has closed."""


def moment() -> Moment:
    """Return the current time."""
    return Moment(trio.current_time(), time.time())


class Session:
    """One proxied connection of a client, with its tasks.

    Args:
        client: the stream to the client; ``encrypt`` replaces it by a TLS stream.
        sock: the socket of the client.
        interception: the object that applies fault rules; None to apply no fault rules.
        connection: the client's connection, before the connection to the broker exists.
        warnings: the logger of the reasons why connections are closed.
        learn: generator function that gets each decoded response that may contain addresses. It yields between parts of
            its work, and returns the address of the proxy for each broker, by node id.
        pipe: the pipe of the proxy through which recorded bytes move from one socket to the other.
    """

    def __init__(
        self,
        client: trio.abc.Stream,
        sock: trio.socket.SocketType,
        interception: Interception | None,
        connection: Connection,
        warnings: RepeatedWarnings,
        learn: Callable[[Changeable], Generator[None, None, Mapping[int, Address]]],
        pipe: SplicePipe,
    ) -> None:
        self.client = client
        self._sock = sock
        self._connection = connection
        self._warnings = warnings
        self._interception = interception
        self._scope = trio.CancelScope()
        self._open_channel = (
            None if interception is None else interception.open(connection, self.wake, self.cut, moment)
        )
        self._learn = learn
        self._pipe = pipe
        self._sending = False  # responses to earlier requests
        self._woken = trio.Event()
        self._stash = b""  # bytes of the client that were read while a request waits
        self._client_ended = False
        self._slow: tuple[Send, int] | None = None  # a response that is sent slowly, and the number of bytes sent
        self._link: Link
        self._broker: trio.abc.Stream

    def cut(self, reset: bool) -> None:
        """Close the client's connection immediately. ``reset``: True to send a TCP reset."""
        if reset:
            self._reset()
        self._scope.cancel()

    def wake(self) -> None:
        """Wake the task of the connection, because the fault rules have an action for it or have finished a request."""
        self._woken.set()

    @property
    def _channel(self) -> Channel:
        assert self._open_channel is not None
        return self._open_channel

    def connect(self, connection: Connection) -> None:
        """Store the broker to which requests are forwarded, also for the fault rules. The caller has connected to it.

        ``connection``: the connection with the address of the broker.
        """
        self._connection = connection
        if self._interception is not None:
            self._channel.connection = connection

    def close(self) -> None:
        """Remove the connection from the fault rules. Without fault rules, do nothing."""
        if self._interception is not None:
            self._interception.close(self._channel)

    # --- a new connection ---

    async def admitted(self) -> bool:
        """Apply the fault rules to this new connection; return True to serve it, False if it must be closed.

        The method waits while a rule delays or holds the connection.
        """
        if self._interception is None:
            return True
        admission = self._interception.admit(self._channel)
        if admission is None or admission.how == "serve":
            return True
        if admission.how == "mute":
            with suppress(Ended):
                await self._carry_out()
                return True
            return False
        log.warning(
            "connection from %s closed by fault rule %s (action: %s)",
            self._channel.connection.client,
            admission.rule,
            admission.how,
        )
        if admission.how == "reset":
            self._reset()
        elif admission.how == "fail_tls":
            await self._fail_handshake()
        return False

    async def _fail_handshake(self) -> None:
        """Send a TLS alert to the client, before any byte of the TLS handshake."""
        with suppress(*GONE):
            await self.client.send_all(HANDSHAKE_FAILURE)

    async def encrypt(self, tls: ssl.SSLContext) -> bool:
        """Do the TLS handshake with the client; return whether it succeeded. A failure is logged.

        ``tls``: TLS context for the connections of clients.
        """
        encrypted = trio.SSLStream(self.client, tls, server_side=True, https_compatible=True)
        try:
            with trio.fail_after(HANDSHAKE_TIMEOUT):
                await encrypted.do_handshake()
        except (OSError, trio.TooSlowError, trio.BrokenResourceError) as error:
            cause = error.__cause__ or error
            if isinstance(error, trio.TooSlowError):
                reason = f"TLS: no handshake in {HANDSHAKE_TIMEOUT:.0f} s"
            elif isinstance(cause, ssl.SSLError):
                reason = failure_reason(cause)
            else:
                reason = f"TLS: {str(cause) or 'the client has disconnected'}"
            host = self._connection.client.host  # without the port, the text is the same when the client tries again
            self._warnings.warn(f"connection from {host} closed: {reason}", trio.current_time())
            return False
        self.client = encrypted
        return True

    # --- passing bytes on ---

    @property
    def scope(self) -> trio.CancelScope:
        """The cancel scope of all tasks of the connection."""
        return self._scope

    async def run(self, link: Link, broker: trio.abc.Stream) -> None:
        """Forward bytes in both directions until the client or the broker has closed the connection.

        Args:
            link: the protocol side of the connection.
            broker: the stream to the broker.
        """
        self._link, self._broker = link, broker
        async with trio.open_nursery() as nursery:

            async def from_client() -> None:
                try:
                    await self._copy(True, self._receive, self._pass_requests)
                except Ended:
                    nursery.cancel_scope.cancel()
                await end(broker)

            nursery.start_soon(from_client)
            await self._copy(False, lambda: broker.receive_some(READ_SIZE), self._pass_responses)
            nursery.cancel_scope.cancel()

    async def _copy(
        self,
        to_broker: bool,
        receive: Callable[[], Awaitable[bytes | bytearray]],
        send: Callable[[bytes], Awaitable[None]],
    ) -> None:
        """Forward bytes in one direction until the stream ends, sending or receiving fails, or a frame is not valid.

        Args:
            to_broker: True for bytes from the client, False for bytes from the broker.
            receive: function that returns the next bytes from the client or the broker; b"" at the end.
            send: function that processes the bytes and sends them on.
        """
        with suppress(*GONE):
            data: bytes | bytearray = b""
            try:
                while data := await receive():
                    await send(bytes(data))
                    if len(data) >= LARGE_READ:
                        await self._forward_recorded(to_broker)
            except WireError as error:
                reason = self._use_of_tls(to_broker, data) or error
                self._warnings.warn(f"connection closed: {reason}", trio.current_time())

    def _use_of_tls(self, to_broker: bool, data: bytes | bytearray) -> str:
        """Return a text that says which side uses TLS, if invalid bytes are a TLS record; "" otherwise.

        Args:
            to_broker: True for bytes from the client, False for bytes from the broker.
            data: the bytes.
        """
        if not data.startswith(TLS_RECORDS):
            return ""
        if to_broker:
            return "the client uses TLS: start the proxy with --tls"
        broker = self._connection.broker
        return f"the listener of the broker at {broker} uses TLS: start the proxy with --tls-to"

    async def _forward_recorded(self, to_broker: bool) -> None:
        """Forward the next bytes of a large frame that is recorded. This needs fewer copies than the usual way.

        The function returns when the next bytes must be forwarded in the usual way: the rest of the frame is small, the
        connection to the sender is encrypted, or the sender sends no further bytes.

        ``to_broker``: True for bytes from the client, False for bytes from the broker.
        """
        source, target = (self.client, self._broker) if to_broker else (self._broker, self.client)
        if not (CAN_RECEIVE_IN_PARTS and isinstance(source, trio.SocketStream) and self._link.recorded(to_broker)):
            return
        if to_broker and self._stash:
            return
        trio_sock = source.socket
        sock = socket.socket(trio_sock.family, trio_sock.type, trio_sock.proto, trio_sock.fileno())
        try:
            while await self._forward_large(to_broker, sock, target):
                pass
        finally:
            sock.detach()  # the file descriptor is that of the stream

    async def _forward_large(self, to_broker: bool, source: socket.socket, target: trio.abc.Stream) -> bool:
        """Receive bytes of a large frame, record them, and send them on; wait if no bytes have arrived.

        If both connections are plain TCP and the system can splice, the recording gets a copy of the bytes, which are
        then moved within the kernel. Otherwise they are received into memory of the recording, and bytes that the
        receiver does not take at once are copied. In between there is no switch to another task: the memory is not lent
        longer.

        Args:
            to_broker: True for bytes from the client, False for bytes from the broker.
            source: socket of the client or the broker that sends the bytes.
            target: stream to the other one.

        Returns:
            False if the next bytes must be forwarded in the usual way.
        """
        to = target.socket.fileno() if isinstance(target, trio.SocketStream) else None
        spliced = to is not None and self._pipe.is_usable
        wanted = min(self._link.recorded(to_broker), MAX_SPLICED if spliced else MAX_COPIED)
        if not wanted:
            return False
        memory = self._link.lend(to_broker, wanted)
        copy = b""
        try:
            if memory:
                size, *_ = source.recvmsg_into(memory, 0, socket.MSG_PEEK if spliced else 0)
            elif spliced:
                copy = source.recv(wanted, socket.MSG_PEEK)
                size = len(copy)
            else:
                return False
        except BlockingIOError:
            await trio.lowlevel.wait_readable(source)
            return True
        if not size:
            return False
        at = moment()
        if to is None:
            received, rest = size, b"".join(_beginning(memory, size))
        elif spliced:
            received, rest = self._pipe.move(source.fileno(), to, size)
            if not received:  # the bytes are still in the receive buffer
                return False
        else:
            received, rest = size, _send(to, _beginning(memory, size))
        if not to_broker:
            self._sending = True
        if memory:
            self._link.filled(to_broker, received, at)
        else:
            self._link.forwarded(to_broker, copy[:received], at)
        if rest:
            await target.send_all(rest)
        if not to_broker:
            self._end_sending()
        if received == size < (sum(map(len, memory)) or wanted):
            await trio.lowlevel.wait_readable(source)
        else:
            await trio.lowlevel.checkpoint()
        return True

    async def _receive(self) -> bytes | bytearray:
        """Return the next bytes from the client; b"" if the client has ended sending."""
        if self._stash:
            stash, self._stash = self._stash, b""
            return stash
        return b"" if self._client_ended else await self.client.receive_some(READ_SIZE)

    async def _pass_requests(self, data: bytes) -> None:
        for part in self._link.requests(data, moment()):
            if isinstance(part, bytes):
                await self._broker.send_all(part)
            elif isinstance(part, Intercepted):
                await self._intercept(part)
            else:
                await complete(part)

    async def _pass_responses(self, data: bytes) -> None:
        self._sending = True
        for part in self._link.responses(data, moment()):
            if isinstance(part, bytes):
                await self.client.send_all(part)
            elif isinstance(part, Changeable):
                await self._pass_changeable(part)
            else:
                await complete(part)
        self._end_sending()

    async def _pass_changeable(self, response: Changeable) -> None:
        await complete(response.decode())
        own = await complete(self._learn(response))
        await complete(response.replace_addresses(own))
        if response.exchange.is_intercepted:
            assert self._interception is not None
            self._interception.answer(self._channel, response)
        else:
            await complete(response.notify())
            await self.client.send_all(response.changed)

    def _end_sending(self) -> None:
        """Let the fault rules send responses, unless the last response is forwarded only in part."""
        self._sending = self._link.is_within_response
        if not (self._sending or self._link.pending):
            self.wake()

    # --- fault rules ---

    async def _intercept(self, part: Intercepted) -> None:
        """Pass a request to the fault rules, and carry out the actions that they order, until the client's next request
        can be read.
        """
        while self._link.pending or self._sending:
            await self._wait()
        assert self._interception is not None
        await complete(self._interception.request(self._channel, part.exchange, part.frame))
        await self._carry_out()

    async def _carry_out(self) -> None:
        """Carry out the actions that the fault rules have ordered, until the client's next request can be read.

        Raises:
            Ended: An action closes the connection.
        """
        assert self._interception is not None
        channel = self._channel
        while True:
            while channel.orders:
                await self._do(channel.orders.popleft())
            if not channel.busy:
                return
            if self._client_ended and self._interception.is_silent(channel):
                raise Ended
            await self._wait()

    async def _do(self, order: Order) -> None:
        match order:
            case Forward(data=data, is_answered=is_answered, is_intercepted=is_intercepted):
                if is_answered:
                    assert self._channel.exchange is not None
                    self._link.expect(self._channel.exchange, is_intercepted=is_intercepted)
                await self._broker.send_all(data)
            case Send(data=data, pace=pace, before=before):
                if before is not None:
                    await complete(before)
                if pace is None:
                    await self.client.send_all(data)
                else:
                    self._slow = order, 0
                    if pace.finished:  # the rule was removed before
                        await self._send_more()
            case SendMore():
                await self._send_more()
            case End(reason=reason, reset=reset, alert=alert):
                log.warning("connection from %s closed: %s", self._channel.connection.client, reason)
                if alert:
                    await self._fail_handshake()
                if reset:
                    self._reset()
                raise Ended

    async def _send_more(self) -> None:
        """Send the bytes of a slow response that its pace allows now. Without a slow response, do nothing."""
        if self._slow is None:
            return
        order, sent = self._slow
        pace = order.pace
        assert pace is not None
        until = len(order.data) if pace.finished else min(sent + pace.allowed, len(order.data))
        pace.allowed -= until - sent
        self._slow = order, until
        await self.client.send_all(order.data[sent:until])
        if until == len(order.data):
            pace.finished = True
            self._channel.pacing = False
            self._slow = None

    def _reset(self) -> None:
        with suppress(OSError):
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self._sock.close()

    async def _wait(self) -> None:
        """Wait until ``wake`` is called or the client has ended sending (half-closed). Store the bytes that arrive
        meanwhile.

        Raises:
            Ended: The client has reset the connection.
        """
        self._woken = woken = trio.Event()
        if self._client_ended or len(self._stash) >= READ_SIZE:
            await woken.wait()
            return
        failed = False

        async def watch() -> None:
            nonlocal failed
            try:
                while len(self._stash) < READ_SIZE:
                    data = await self.client.receive_some(READ_SIZE)
                    if not data:
                        self._client_ended = True
                        break
                    self._stash += data
            except GONE:
                failed = True
            if failed or self._client_ended:
                woken.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await woken.wait()
            nursery.cancel_scope.cancel()
        if failed:
            raise Ended


def _send(target: int, parts: Sequence[memoryview]) -> bytes:
    """Send bytes without waiting, and return a copy of the bytes that were not sent.

    Args:
        target: file descriptor of a non-blocking socket.
        parts: the bytes.
    """
    sent = 0
    with suppress(BlockingIOError):
        sent = os.writev(target, parts)
    return b"" if sent == sum(map(len, parts)) else b"".join(parts)[sent:]


def _beginning(memory: Sequence[memoryview], size: int) -> list[memoryview]:
    """Return the parts of a memory that contain its first bytes. ``size``: number of these bytes."""
    parts: list[memoryview] = []
    for part in memory:
        parts.append(part[:size])
        size -= len(part)
        if size <= 0:
            break
    return parts


async def end(broker: trio.abc.Stream) -> None:
    """Shut down the sending side of a connection to a broker. The broker then closes the connection after its last
    response.
    """
    with suppress(*GONE):
        if isinstance(broker, trio.SocketStream):
            await broker.send_eof()
        else:
            await broker.aclose()
