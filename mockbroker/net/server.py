"""The trio shell: listeners, one watch over all connections, one timer task. What is below knows no clock.

A connection that is readable is read once, every complete frame is answered, and sent once; then comes the next one.
There is no task and no time limit per request or connection. What cannot be sent at once is drained by a task of its
own, and the connection is not read until it is.

With a data directory no answer leaves before everything is on disk that was appended before it: answers are held
while one flush runs in a thread, and what comes meanwhile goes into the next.
"""

from __future__ import annotations

import errno
import logging
import secrets
import socket
import ssl
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from math import inf

import trio
from trio.lowlevel import notify_closing, wait_readable, wait_writable

from kwire import WireError
from mockbroker.base.budget import Budget
from mockbroker.base.effects import Client, Dismiss, Effects, NoReply, Reply
from mockbroker.base.response_limit import ResponseTooLargeError
from mockbroker.broker.authentication import Gate
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.broker.router import Outcome, Router
from mockbroker.net.clock import BrokerTime
from mockbroker.net.connection import Session
from mockbroker.net.in_process import HOST, Line
from mockbroker.net.readiness import Ready, Watch, best
from mockbroker.net.sasl_connection import SaslSession
from mockbroker.net.tls import TlsError, TlsSocket
from mockbroker.storage.data_dir import DataDir
from mockbroker.storage.disk import DataDirError

log = logging.getLogger("mockbroker")

READ_SIZE = 65_536  # bytes asked for at once
READ_AHEAD = 65_536  # bytes kept for a connection whose request is parked; then it is not read
WRITE_AHEAD = 1 << 20  # bytes of answers collected before they are sent
SEND_TIMEOUT = 30.0  # seconds without progress after which a peer that does not read is given up
FRAME_TIMEOUT = 30.0  # seconds a request may take to come in whole, however slowly
LOOK_AROUND = 5.0  # seconds between two looks for connections that are idle or too slow
ROUNDING = 1e-6  # seconds by which a sum of steps may miss a deadline that it was meant to reach
LATE = 0.1  # seconds; when the timer wakes so late, something held up the broker, and clients are waiting to be read
BACK_OFF = 0.1  # seconds to wait when the process has no more files to accept with
BACKLOG = 1_024
ACCEPTS = 64  # connections taken at once
CLOSED = -1  # the file number of a closed socket
OUT_OF_FILES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a socket that is closed forgets what it has to send
NONCE_BYTES = 18  # of randomness, in the server's half of a nonce


@dataclass(frozen=True, slots=True)
class Door:
    """A bound socket of a listener: ``node``: of which broker; ``tls``, ``sasl``: what is spoken there first."""

    node: int
    sock: socket.socket
    name: str = ""
    tls: ssl.SSLContext | None = None
    sasl: bool = False


@dataclass(slots=True)
class _Away:
    """Where a broker that ended listened. ``held``: a socket that keeps the port for it, None if that cannot be had."""

    door: Door
    address: tuple[str, int]
    held: socket.socket | None = None

    def hold(self) -> None:
        """Bind, and do not listen: who connects is refused, and the system gives the port to nobody."""
        with suppress(OSError):
            self.held = _bound(*self.address)

    def let_go(self) -> None:
        if self.held is not None:
            self.held.close()
            self.held = None

    def listen(self) -> Door:
        """Raises: OSError; then the port is held as before, if it can be."""
        sock = self.held = self.held or _bound(*self.address)
        try:
            sock.listen(BACKLOG)
        except OSError:
            self.let_go()
            self.hold()
            raise
        self.held = None
        return replace(self.door, sock=sock)


class _Connection:
    """A socket and what belongs to it. ``out``: bytes to be sent; ``draining``: a task is at it.

    ``watched``: it is read when something comes in; ``ended``: the peer has said all that it will.
    ``active``: when something last came in or was answered; ``begun``: when a request began that is not here whole;
    both in seconds. ``gate``: what a client of a SASL listener must pass.
    ``after``: the change that must be on disk before ``out`` is sent; ``held``: it is not yet, and nothing was sent.
    ``given_up``: it is closed once what is held has been sent.
    """

    __slots__ = (
        "active",
        "after",
        "begun",
        "closed",
        "draining",
        "ended",
        "gate",
        "given_up",
        "held",
        "out",
        "peer",
        "session",
        "sock",
        "taken",
        "watched",
    )

    def __init__(self, sock: socket.socket, session: Session, peer: str, now: float, gate: Gate | None = None) -> None:
        self.sock = sock
        self.gate = gate
        self.session = session
        self.peer = peer
        self.out = bytearray()
        self.draining = False
        self.closed = False
        self.watched = False
        self.ended = False
        self.active = now
        self.begun: float | None = None
        self.taken = 0  # requests taken when last something came in
        self.after = 0
        self.held = False
        self.given_up = False

    def note(self, now: float) -> None:
        """Something came in: it is not idle, and a request may have begun."""
        self.active = now
        if not self.session.partial:
            self.begun = None
        elif self.begun is None or self.session.taken != self.taken:
            self.begun = now
        self.taken = self.session.taken

    @property
    def full(self) -> bool:
        """True while more input would only pile up: its responses are not taken, or the request before is parked."""
        if self.draining or self.stuffed:
            return True
        return self.session.ticket is not None and self.session.buffered > READ_AHEAD

    @property
    def stuffed(self) -> bool:
        """True if no more answers shall be made that would only be held."""
        return self.held and len(self.out) > WRITE_AHEAD


class Server:
    """Listens for the brokers of one cluster: ``doors`` are bound already.

    ``watch``: makes what tells it which connections are readable. ``data_dir``: where the cluster is kept, None if
    nowhere; ``failure``: why it could not be written, which is the end. ``clock``: the time that the router is told.
    """

    def __init__(
        self,
        router: Router,
        doors: Sequence[Door],
        watch: Callable[[Ready[_Connection]], Watch[_Connection]] = best,
        data_dir: DataDir | None = None,
        clock: BrokerTime | None = None,
    ) -> None:
        self.router = router
        self.clock = clock or BrokerTime()
        self.doors = doors
        self.connections: dict[int, _Connection] = {}
        self.failure: DataDirError | None = None
        self._data_dir = data_dir
        self._held: list[_Connection] = []
        self._unsure = trio.Event()  # something is to be written
        self.lines: dict[int, Line] = {}
        self._ids = count(1)
        self._wake = trio.Event()
        self._wake_at = 0.0
        self._pause = trio.CancelScope()  # between two looks around
        self._make_watch = watch
        self._watch: Watch[_Connection]
        self._nursery: trio.Nursery | None = None
        self._away: list[_Away] = []  # brokers that ended, and where they listened
        self._keep_clock()
        self._set_budgets()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled, or the data directory fails; then every socket is closed."""
        self._watch = self._make_watch(self._read)
        try:
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._watch.run)
                for door in self.doors:
                    self._nursery.start_soon(self._accept, door)
                self._nursery.start_soon(self._keep_time)
                self._nursery.start_soon(self._look_around)
                if self._data_dir is not None:
                    self._nursery.start_soon(self._keep_data, self._data_dir)
                task_status.started()
        finally:
            self._hang_up()
            self._close_doors()
            self._forget_away()
            self._watch.close()

    def restart(self, broker: Broker, doors: Sequence[Door] | None = None) -> None:
        """Go on with another broker, and everything else empty. Every connection is closed, parked requests with it.

        ``doors``: serve at these instead; whoever comes back to the old ones is refused.
        """
        assert self._nursery is not None
        self._hang_up()
        self.router.restart(broker, self.clock.read())
        self._keep_clock()
        self._set_budgets()
        if doors is not None:
            self._close_doors()
            self._forget_away()
            self.doors = doors
            for door in doors:
                self._nursery.start_soon(self._accept, door)
        self._wake.set()
        self._pause.cancel()

    def leave(self, node: int, *, abruptly: bool) -> None:
        """A broker ends: its listeners and connections are closed; ``abruptly``: they are reset."""
        staying = [door for door in self.doors if door.node != node]
        for door in self.doors:
            if door.node == node:
                away = _Away(door, door.sock.getsockname()[:2])
                notify_closing(door.sock)
                door.sock.close()
                away.hold()
                self._away.append(away)
        self.doors = staying
        for connection in list(self.connections.values()):
            if connection.session.node == node:
                if abruptly:
                    with suppress(OSError):
                        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    connection.out.clear()
                self._close(connection)
        for line in list(self.lines.values()):
            if line.session.node == node:
                self._cut(line, f"broker {node} has ended")

    @property
    def nodes_away(self) -> list[int]:
        """Brokers that ended and did not come back."""
        return sorted({away.door.node for away in self._away})

    def come_back(self, node: int) -> None:
        """A broker that left listens again, where it did. Raises: OSError if somebody else does by now."""
        assert self._nursery is not None
        returning = [away for away in self._away if away.door.node == node]
        opened: list[Door] = []
        try:
            for away in returning:
                door = away.listen()
                opened.append(door)
        except OSError:
            for door, away in zip(opened, returning, strict=False):
                door.sock.close()
                away.hold()
            raise
        self._away = [away for away in self._away if away.door.node != node]
        self.doors = [*self.doors, *opened]
        for door in opened:
            self._nursery.start_soon(self._accept, door)

    def perform(self, effects: Effects) -> None:
        """Carry out what a change from inside brings, as answers to fetches that wait for records."""
        now = self.clock.read()
        self._pump(self._deliver(self.router.finish(effects, now)), now)

    # --- time in other hands ---

    def stop_clock(self) -> None:
        """Time stands. Groups that waited for the last JoinGroups to come do so no more."""
        if self.clock.running:
            self.clock.stop()
            self._pass(self.router.broker.groups.settle)
            self._keep_clock()

    def resume_clock(self) -> None:
        """Time runs on from where it stood."""
        self.clock.resume()
        self._keep_clock()

    async def advance(self, seconds: float) -> list[Event]:
        """Hear what clients have said up to now, and let time pass; what happened."""
        happened: list[Event] = []
        self.router.journal.listeners.append(happened.append)
        try:
            for _ in range(2):  # whoever has just connected is taken in
                await trio.lowlevel.checkpoint()
            await self._watch.catch_up()
            self._pass(seconds)
        finally:
            self.router.journal.listeners.remove(happened.append)
        return happened

    def _pass(self, seconds: float) -> None:
        """Everything that is due within this time happens, each at its own; nobody says anything meanwhile."""
        broker, clock, ran = self.router.broker, self.clock, self.clock.running
        clock.stop()
        until = clock.read() + seconds
        broker.groups.quiet_until = until
        while (due := broker.waits.next()) <= until + ROUNDING:
            clock.move_to(max(due, clock.read()))
            self._tick(clock.read(), trio.current_time())
        broker.groups.quiet_until = -inf
        clock.move_to(max(until, clock.read()))
        if ran:
            clock.resume()
        self._wake.set()

    def _keep_clock(self) -> None:
        """The broker, which may be new, is told how time goes."""
        self.router.broker.outside = self.clock.outside
        self.router.broker.stand(not self.clock.running)
        self._wake.set()

    # --- what all connections may hold ---

    def _set_budgets(self) -> None:
        """The broker, which may be new, has the limits; no connection is open."""
        settings = self.router.broker.settings
        requests, responses = settings.queued_max_request_bytes, settings.mockbroker_queued_max_response_bytes
        self._requests = Budget("bytes of unfinished requests", "queued.max.request.bytes", requests)
        self._responses = Budget("bytes of unread responses", "mockbroker.queued.max.response.bytes", responses)

    def _weigh(self, connection: _Connection) -> None:
        """Count what a connection holds; where that is too much for all, those that hold the most are closed."""
        if connection.closed:
            return
        number = connection.session.connection
        self._requests.hold(number, connection.session.buffered)
        self._responses.hold(number, len(connection.out))
        for budget in (self._requests, self._responses):
            while budget.exceeded:
                largest = budget.largest()
                closed = self.connections[largest]
                log.warning("%s: closed, %s", closed.peer, budget.complaint(largest))
                self._close(closed)

    # --- clients without a socket ---

    def connect(self, node: int, client_id: str) -> Line:
        """A connection to this broker from inside."""
        number, listener = next(self._ids), self.doors[0].name
        session = Session(number, node, HOST, self.router, listener)
        line = self.lines[number] = Line(session, client_id, self._hear, self._forget, self._newest)
        return line

    def _hear(self, line: Line) -> None:
        now = self.clock.read()
        freed: list[_Connection] = []
        try:
            if (call := line.session.next_call()) is not None:
                freed = self._deliver(self.router.step(call, now))
        except WireError as error:
            self._cut(line, str(error))
        except Exception as error:
            log.exception("a request from inside failed")
            self._cut(line, f"its request failed: {error!r}")
        self._pump(freed, now)

    def _forget(self, line: Line) -> None:
        if self.lines.pop(line.session.connection, None) and line.session.ticket is not None:
            self.router.forget(line.session.ticket)

    def _cut(self, line: Line, why: str) -> None:
        self._forget(line)
        line.end(why)

    def _newest(self, api_key: int) -> int:
        newest = self.router.broker.served[api_key].last
        assert newest is not None
        return newest

    # --- tasks ---

    async def _accept(self, door: Door) -> None:
        assert self._nursery is not None
        listener = door.sock
        while listener.fileno() != CLOSED:
            try:
                await wait_readable(listener)
                for _ in range(ACCEPTS):
                    self._open(door, *listener.accept())
            except trio.ClosedResourceError:
                return  # by a restart
            except OSError as error:
                if error.errno in OUT_OF_FILES:
                    log.warning("cannot accept: %s", error)
                    await trio.sleep(BACK_OFF)
                # else there is no other, or the peer was faster in going away than we in accepting

    def _open(self, door: Door, sock: socket.socket, address: Sequence[object]) -> None:
        sock.setblocking(False)
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number, host, peer = next(self._ids), f"/{address[0]}", f"{address[0]}:{address[1]}"
        if door.tls is not None:
            sock = door.tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        if door.sasl:
            broker = self.router.broker
            gate = Gate(broker.users, broker.settings, _new_nonce)
            session: Session = SaslSession(number, Client(door.node, "", host, door.name), self.router, gate)
            connection = _Connection(sock, session, peer, trio.current_time(), gate)
        else:
            connection = _Connection(
                sock, Session(number, door.node, host, self.router, door.name), peer, trio.current_time()
            )
        if not self.connections:
            self._pause.cancel()  # there is somebody to look at
        self.connections[number] = connection
        connection.watched = True
        self._watch.add(sock, connection)

    async def _look_around(self) -> None:
        """Close connections that say nothing for long, or never finish what they began to say."""
        while True:
            idle_ms = self.router.broker.settings.connections_max_idle_ms
            idle_limit = inf if idle_ms < 0 else idle_ms / 1000
            pause = min(LOOK_AROUND, idle_limit) if self.connections else inf
            with trio.move_on_after(pause) as self._pause:
                await trio.sleep_forever()
            now = trio.current_time()
            for connection in list(self.connections.values()):
                late = connection.begun is not None and now - connection.begun > FRAME_TIMEOUT
                if late and connection.watched:  # else it is the broker that does not read
                    log.warning("%s: closed, a request took more than %g s to come in", connection.peer, FRAME_TIMEOUT)
                    self._close(connection)
                elif now - connection.active > FRAME_TIMEOUT and _shakes_hands(connection.sock):
                    log.warning("%s: closed, its TLS handshake took more than %g s", connection.peer, FRAME_TIMEOUT)
                    self._close(connection)
                elif connection.session.ticket is None and now - connection.active > idle_limit:
                    self._close(connection)

    async def _drain(self, connection: _Connection) -> None:
        """Send what the peer was too slow to take; give it up if it takes nothing for a while."""
        try:
            while connection.out and not connection.closed:
                with trio.fail_after(SEND_TIMEOUT):
                    await wait_writable(connection.sock)
                if self._hold(connection):  # another answer has joined
                    break
                with suppress(BlockingIOError):  # writable, and then not
                    sent = connection.sock.send(connection.out)
                    del connection.out[:sent]
                    self._weigh(connection)
        except (OSError, trio.ClosedResourceError):
            self._close(connection)
        except trio.TooSlowError:
            log.warning("%s: closed, it did not read its answers for %g s", connection.peer, SEND_TIMEOUT)
            self._close(connection)
        connection.draining = False
        connection.active = trio.current_time()
        if connection.begun is not None:  # the rest was not read meanwhile
            connection.begun = connection.active
        self._pump([connection], self.clock.read())
        self._close_if_over(connection)

    async def _keep_time(self) -> None:
        """The only timer: wakes when something is due, or when that moves closer."""
        while True:
            self._wake_at = self._next_due()
            self._wake = trio.Event()
            with trio.move_on_at(self._wake_at):
                await self._wake.wait()
            if trio.current_time() - self._wake_at > LATE:  # what came in meanwhile counts first
                await self._watch.catch_up()
            outside = trio.current_time()
            while self._next_due() <= outside:
                due, now = self.router.broker.waits.next(), self.clock.read()
                self._tick(max(now, due) if self.clock.when(due) <= outside else now, outside)  # times are rounded
            await trio.lowlevel.checkpoint()

    async def _keep_data(self, data_dir: DataDir) -> None:
        """Write what changed, again and again, and let go of the answers that waited for it.

        Where that fails nobody knows what is on the disk, so nobody is answered any more.
        """
        assert self._nursery is not None
        while True:
            await self._unsure.wait()
            self._unsure = trio.Event()
            while (work := data_dir.take()) is not None:
                try:
                    await trio.to_thread.run_sync(data_dir.perform, work)
                except DataDirError as error:
                    self.failure = error
                    self._nursery.cancel_scope.cancel()
                    return
                held, self._held = self._held, []
                for connection in held:
                    connection.held = False
                    self._flush(connection)  # before it is heard again: what it says next has to wait for the next sync
                self._pump(held, self.clock.read())
                for connection in held:
                    if connection.given_up:
                        self._give_up(connection)
                    self._close_if_over(connection)

    def _next_due(self) -> float:
        """When something is due, in the time outside."""
        broker = self.router.broker
        return min(self.clock.when(broker.waits.next()), broker.patience.next())

    def _tick(self, now: float, outside: float) -> None:
        """One thing that is due in either time."""
        try:
            self._pump(self._deliver(self.router.tick(now, outside)), now)
        except Exception:
            log.exception("a deadline failed; the broker goes on")

    # --- between sockets and router; nothing here waits ---

    def _read(self, connections: Sequence[_Connection]) -> None:
        """These have something to read: one recv each, every complete frame answered, one send."""
        outside = trio.current_time()
        now = outside if self.clock.real else self.clock.read()
        for connection in connections:
            if not connection.watched:
                continue  # it was closed or has to wait, by what one before it asked
            try:
                data = connection.sock.recv(READ_SIZE)
            except BlockingIOError:
                continue
            except TlsError as error:
                log.warning("%s: closed, %s", connection.peer, error)
                self._close(connection)
                continue
            except OSError:  # reset by the peer
                self._close(connection)
                continue
            if data:
                connection.session.receive(data)
                self._pump([connection], now)
                connection.note(outside)
            else:
                connection.ended = True
                self._rest(connection)
                self._close_if_over(connection)

    def _pump(self, connections: Iterable[_Connection], now: float) -> None:
        """Handle every complete request of these connections, and of those that are thereby free to go on."""
        todo = list(connections)
        for connection in todo:  # grows while it is walked
            todo += self._serve(connection, now)
        for connection in todo:
            self._flush(connection)
            self._weigh(connection)
            if connection.watched:
                if connection.full:
                    self._rest(connection)
            elif not (connection.closed or connection.ended or connection.given_up or connection.full):
                connection.watched = True
                self._watch.add(connection.sock, connection)
        if self._next_due() < self._wake_at:
            self._wake.set()
        if self._data_dir is not None and self._data_dir.collected > self._data_dir.synced:
            self._unsure.set()

    def _rest(self, connection: _Connection) -> None:
        """Do not read it for now: it has ended, or more input would only pile up."""
        connection.watched = False
        self._watch.remove(connection.sock)

    def _close_if_over(self, connection: _Connection) -> None:
        """A peer that closed its half may still read what it asked for."""
        if connection.ended and not connection.draining and not connection.held:
            self._close(connection)

    def _serve(self, connection: _Connection, now: float) -> list[_Connection]:
        """Handle every complete request of a connection; others that were answered by it.

        What cannot be read, and a handler that raises, closes this connection only.
        """
        freed: list[_Connection] = []
        session = connection.session
        while not (connection.closed or connection.draining or connection.given_up or connection.stuffed):
            try:
                call = session.next_call()
            except WireError as error:
                log.warning("%s: closed, %s", connection.peer, error)
                self._give_up(connection)
                break
            except Exception:
                log.exception("%s: closed, its request could not be read", connection.peer)
                self._give_up(connection)
                break
            if call is None:
                break
            try:
                admitted = None if connection.gate is None else self.router.admit(connection.gate, call, now)
                outcomes = self.router.step(call, now) if admitted is None else admitted
            except Exception:
                log.exception("%s: closed, its request failed", connection.peer)
                self._give_up(connection)
                break
            freed += self._deliver(outcomes, connection)
        return freed

    def _deliver(self, outcomes: Iterable[Outcome], served: _Connection | None = None) -> list[_Connection]:
        """Put answers where they belong; the connections that got one, but for the one that is being served."""
        found: list[_Connection] = []
        for outcome in outcomes:
            connection = self.connections.get(outcome.ticket.connection)
            if connection is None or connection.session.ticket is not outcome.ticket:
                self._tell(outcome)
                continue
            if connection is not served:
                found.append(connection)
                connection.active = trio.current_time()
            if isinstance(outcome, Reply):
                self._answer(connection, outcome)
            elif isinstance(outcome, NoReply):
                connection.session.skip_answer()
            else:
                if isinstance(outcome, Dismiss) and outcome.response is not None:
                    self._answer(connection, Reply(outcome.ticket, outcome.response))
                log.warning("%s: closed, %s", connection.peer, outcome.reason)
                self._give_up(connection)
        return found

    def _tell(self, outcome: Outcome) -> None:
        """The same for a line, unless whoever asked has gone."""
        line = self.lines.get(outcome.ticket.connection)
        if line is None or line.session.ticket is not outcome.ticket:
            return
        try:
            if isinstance(outcome, Reply | NoReply):
                line.take(outcome)
            else:
                self._cut(line, outcome.reason)
        except Exception as error:
            log.exception("an answer inside could not be written")
            self._cut(line, f"its answer could not be written: {error!r}")

    def _answer(self, connection: _Connection, reply: Reply) -> None:
        try:
            connection.out += connection.session.answer(reply)
            if self._data_dir is not None:
                connection.after = self._data_dir.collected
            if len(connection.out) > WRITE_AHEAD:
                self._flush(connection)
                self._weigh(connection)
        except ResponseTooLargeError as error:
            log.warning("%s: closed, %s", connection.peer, error)
            self._give_up(connection)
        except Exception:
            log.exception("%s: closed, its answer could not be written", connection.peer)
            self._give_up(connection)

    def _flush(self, connection: _Connection) -> None:
        """Send what can be sent now; the rest is left to a task."""
        if connection.closed or connection.draining or connection.held or not connection.out:
            return
        if self._data_dir is not None and self._hold(connection):
            return
        try:
            sent = connection.sock.send(connection.out)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._close(connection)
            return
        if sent == len(connection.out):
            connection.out.clear()
            return
        del connection.out[:sent]
        if self._nursery is not None:
            connection.draining = True
            self._nursery.start_soon(self._drain, connection)

    def _hold(self, connection: _Connection) -> bool:
        """True if nothing may be sent, as something is not on disk yet; it is sent when that is."""
        if self._data_dir is None or connection.after <= self._data_dir.synced:
            return False
        if not connection.held:
            connection.held = True
            self._held.append(connection)
        return True

    def _hang_up(self) -> None:
        for connection in list(self.connections.values()):
            self._close(connection)
        for line in list(self.lines.values()):
            self._cut(line, "the cluster is gone, or started over")

    def _close_doors(self) -> None:
        for door in self.doors:
            notify_closing(door.sock)
            door.sock.close()

    def _forget_away(self) -> None:
        for away in self._away:
            away.let_go()
        self._away.clear()

    def _give_up(self, connection: _Connection) -> None:
        """Close; what was answered before still goes out, as far as the peer takes it then."""
        self._flush(connection)
        if connection.held:
            connection.given_up = True
            self._rest(connection)
        else:
            self._close(connection)

    def _close(self, connection: _Connection) -> None:
        if connection.closed:
            return
        connection.closed = True
        connection.out = bytearray()  # a task that drains it has yet to notice
        self._rest(connection)
        del self.connections[connection.session.connection]
        self._requests.hold(connection.session.connection, 0)
        self._responses.hold(connection.session.connection, 0)
        if connection.session.ticket is not None:
            self.router.forget(connection.session.ticket)
        notify_closing(connection.sock)
        connection.sock.close()


def _new_nonce() -> str:
    return secrets.token_urlsafe(NONCE_BYTES)


def _shakes_hands(sock: socket.socket) -> bool:
    return isinstance(sock, TlsSocket) and not sock.established


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 picks a free one. Raises: OSError."""
    sock = _bound(host, port)
    try:
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _bound(host: str, port: int) -> socket.socket:
    """Raises: OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setblocking(False)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock
