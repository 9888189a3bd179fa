"""The process of the brokers in the simulation: the pump of net/, with a simulated network, disk and timer.

The pump is the loop that handles received requests and sends responses; it also serves real sockets. It decides the
order of requests, holds responses until the disk has synced, and handles closed connections. This module adds the
simulated connections, virtual time, and the calls of the invariant checkers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from math import inf, nextafter
from typing import Any, TypeAlias, cast

from kwire import WireError
from kwire.apikeys import ApiKey
from mockbroker.authorizer.checks import CHECKS
from mockbroker.authorizer.stage import AuthorizerStage
from mockbroker.base.effects import Call, Effects, Proceed, Reply, Ticket
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker import failover
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.broker.router import Outcome, Router
from mockbroker.faults.rule import Rule
from mockbroker.faults.rules import Rules
from mockbroker.faults.stage import FaultStage
from mockbroker.lab.simulation import network
from mockbroker.lab.simulation.buggify import Buggify
from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.disk import Disk
from mockbroker.lab.simulation.network import Network
from mockbroker.lab.simulation.queue import Queue
from mockbroker.lab.simulation.tcp.client_end import ClientEnd
from mockbroker.lab.simulation.tcp.network import ByteNetwork
from mockbroker.lab.simulation.tcp.served import AUTHENTICATION, Answer, ServedConnection, ServedSockets
from mockbroker.lab.simulation.tcp.sockets import SimulatedSocket
from mockbroker.lab.simulation.trace import Trace
from mockbroker.lab.simulation.watching import Broken, GroupTypes, Watchers, has_no_response
from mockbroker.lab.simulation.words import describe_request, describe_response
from mockbroker.net.pump import Connection, Pump
from mockbroker.net.sockets import CHECK_INTERVAL
from mockbroker.security.identity import ANONYMOUS
from mockbroker.throttling.stage import QuotaStage

LOOK_EVERY = 32  # minimum number of events between two inspections of the whole state
NOTES_KEPT = 100  # maximum number of events in the journal
SLICE_TIME = 0.005  # maximum duration of a slice, seconds
RESTART = 0.5  # seconds until the process restarts after a disk failure
JOINING = (ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT)  # requests that may replace an empty group


class Inbox:
    """The received requests of one simulated connection.

    Attributes:
        node: broker id.
        ticket: ticket (identity) of the request that was taken from ``calls`` and has no response yet; None if no
            request is being handled.
        calls: received requests that are not handled yet, in order.
    """

    def __init__(self, node: int) -> None:
        self.node = node
        self.ticket: Ticket | None = None
        self.calls: deque[Call[Any]] = deque()

    def next_call(self) -> Call[Any] | None:
        if self.ticket is not None or not self.calls:
            return None
        call = self.calls.popleft()
        self.ticket = call.ticket
        return call

    def skip_answer(self) -> None:
        self.ticket = None


class SimulatedConnection(Connection):
    """The broker's end of a connection in the simulated network.

    Args:
        shell: the simulated process of all brokers.

    Attributes:
        wire: the connection in the simulated network.
        requests: received requests.
        out: unsent responses, each with its request.
        pending: the last request that was handled; None before the first.
    """

    __slots__ = ("_shell", "pending", "wire")

    requests: Inbox
    out: list[Answer]

    def __init__(self, shell: Shell, wire: network.Wire) -> None:
        super().__init__(wire.number, Inbox(wire.node), wire.client.client_id)
        self.wire = wire
        self.pending: Call[Any] | None = None
        self._shell = shell
        self.out = []

    def answer(self, reply: Reply) -> int:
        call = self.pending
        assert call is not None
        self.requests.ticket = None
        self._shell.answered(call, reply.response)
        if reply.delivery is None or reply.delivery.frame is None:  # else the client cannot read it
            self.out.append((call, reply.response))
        return len(self.out)

    def send(self) -> bool:
        answers, self.out = self.out, []
        for answer in answers:
            self._shell.send(self.wire, *answer)
        return True

    def hang_up(self, reason: str) -> None:
        answers, self.out = self.out, []
        self._shell.closed(self, answers)
        self._shell.network.break_off(self.wire)


Observed: TypeAlias = SimulatedConnection | ServedConnection


class ObservedPump(Pump):
    """The pump of the broker (the loop that handles requests and sends responses), extended to call the invariant
    checkers.

    An exception in a handler ends the run.

    Args:
        shell: the simulated process of all brokers.
    """

    def __init__(self, shell: Shell) -> None:
        super().__init__(shell.router, lambda: 0.0, shell.disk, in_a_row=1, reschedule=shell.keep_time)
        self._shell = shell

    def handle(self, connection: Connection, call: Call[Any], now: float) -> None:
        shell = self._shell
        observed = cast("Observed", connection)
        observed.pending = call
        if shell.sockets is not None:
            assert isinstance(observed, ServedConnection)
            observed.check_request(call)
            if call.ticket.api_key in AUTHENTICATION:
                super().handle(connection, call, now)
                return
        shell.begin_request(call, now)
        shell.served = call
        super().handle(connection, call, now)
        shell.handled(call, now)
        shell.forget_silent(connection, call)

    def resume(self, connection: Connection, now: float) -> bool:
        shell = self._shell
        assert connection.work is not None
        # a request that is not waiting is being encoded
        call = shell.waiting.get(connection.work.ticket) or cast("Observed", connection).pending
        assert call is not None
        shell.served = call
        broker = shell.broker
        for resumed in shell.watchers.resumed[call.ticket.api_key]:
            resumed(broker, call, now)
        more = super().resume(connection, now)
        shell.handled(call, now)
        shell.forget_silent(connection, call)
        return more

    def unclaimed(self, outcome: Outcome) -> None:
        self._shell.unclaimed(outcome)

    def fail(self, connection: Connection, what: str, error: Exception) -> None:
        raise error

    def refuse_request(self, connection: Connection, error: WireError) -> None:
        raise Broken("I40", f"connection {connection.number}: the broker cannot read a request: {error}") from error


class ObservedRouter(Router):
    """The broker's router, extended to call the invariant checkers for due deadlines, and for requests that a fault
    rule has delayed or held.

    Attributes:
        shell: the process of the brokers.
    """

    shell: Shell

    def tick(self, now: float, client_time: float | None = None) -> list[Outcome]:
        self.shell.watchers.notify("due")
        return super().tick(now, client_time)

    def _handle(self, call: Call[Any], now: float) -> Effects:
        self.shell.proceed(call, now)
        return super()._handle(call, now)

    def _proceed(self, proceed: Proceed, now: float) -> list[Outcome]:
        call = self.shell.waiting.get(proceed.ticket)
        if call is None:
            return super()._proceed(proceed, now)
        outcomes = super()._proceed(proceed, now)
        self.shell.handled(call, now)
        return outcomes

    def finish(self, effects: Effects, now: float) -> list[Outcome]:
        """Return the outcomes of a request's effects. An outcome is something that the pump has to do, such as sending
        a response.

        Responses that a fault rule delays, holds or encodes in parts are reported to the invariant checkers.

        Args:
            effects: effects of a request.
            now: broker time, seconds.
        """
        outcomes = super().finish(effects, now)
        for effect in effects:
            if isinstance(effect, Reply) and effect.ticket.fault:
                sent = any(isinstance(each, Reply) and each.ticket is effect.ticket for each in outcomes)
                call = None if sent else self.shell.waiting.get(effect.ticket)
                if call is not None:
                    self.shell.answered(call, effect.response)
        return outcomes


class Shell:
    """The simulated process of all brokers.

    Args:
        queue: event queue of the run.
        trace: trace of the run.
        router: router of the broker.
        watchers: invariant checkers.
        disk: disk; responses wait for its syncs. None for a broker without a disk.
        successor: function that returns a broker with the state from the disk, for a restart.
        slices: random number generator for the durations of slices (parts of limited size of a large request).
        buggify: active buggify points; None to change nothing.
        bytes_: random number generator for cuts and sizes, and the security protocol, for a network that transports
            bytes; None for a network that transports messages.

    Attributes:
        sockets: connections that transport bytes; None if the network transports messages.
        skew: difference between the broker's clock and virtual time, seconds.
        stalled: virtual time at which a stall of the event loop ends, seconds.
        down: whether the process has crashed and not restarted yet.
        away: ids of brokers that are stopped while the process runs.
        waiting: ticket -> request without a response.
        served: request that is being handled; None while no request is being handled.
    """

    def __init__(
        self,
        queue: Queue,
        trace: Trace,
        router: ObservedRouter,
        watchers: Watchers,
        disk: Disk | None,
        successor: Callable[[Disk], Broker],
        slices: Dice | None = None,
        buggify: Buggify | None = None,
        bytes_: tuple[Dice, str] | None = None,
    ) -> None:
        self.queue = queue
        self.trace = trace
        self.router = router
        router.shell = self
        self._faults = FaultStage(router, lambda _: ANONYMOUS)
        self.watchers = watchers
        self.disk = disk
        self._bytes = bytes_
        self.network = Network(queue, self) if bytes_ is None else ByteNetwork(queue, self, *bytes_)
        self.skew = 0.0
        self.stalled = 0.0
        self.down = False
        self.away: dict[int, None] = {}
        self._buggify = buggify
        self._collects_until = 0.0  # virtual time until which arriving requests are collected (buggify)
        self.sockets: ServedSockets | None = None
        self.pump = self._new_pump()
        self._successor = successor
        self.waiting: dict[Ticket, Call[Any]] = {}
        self.served: Call[Any] | None = None
        self._begun: set[Ticket] = set()  # requests that no fault rule has kept from being handled
        self._slices = slices or Dice("slices")
        # Number of the last change, and a response whose connection was closed.
        self._unsent: deque[tuple[int, Answer]] = deque()
        self._life = 0  # number of crashes
        self._tick_at = inf
        self._types = GroupTypes()
        self._looked = 0
        self._quotas: QuotaStage | None = None
        self._authorize()
        self._throttle()
        router.journal.listeners.append(self._noted)
        router.journal.max_events = NOTES_KEPT

    def _new_pump(self) -> Pump:
        pump = ObservedPump(self)
        if self._buggify is not None:
            self._buggify.change_pump(pump, lambda: self.pump is pump)
        return pump

    def _open_sockets(self) -> None:
        """Create the sockets of a new pump, if the network transports bytes."""
        if self._bytes is not None:
            self.sockets = sockets = ServedSockets(self, *self._bytes)
            self.router.identity = lambda number: sockets.connections[number].requests.identity
            self.queue.after(CHECK_INTERVAL, sockets.check_timeouts)

    def _authorize(self) -> None:
        """Make the router authorize requests if the cluster has an authorizer, as the broker of ``mockbroker serve``
        does.
        """
        router = self.router
        router.noticing_stages = tuple(each for each in router.noticing_stages if not isinstance(each, AuthorizerStage))
        router.authorizing_stages = {}
        if router.broker.authorizer is not None:
            stage = AuthorizerStage(router, router.broker.authorizer)
            router.authorizing_stages = dict.fromkeys(CHECKS, (stage,))
            router.noticing_stages = (*router.noticing_stages, stage)

    def _throttle(self) -> None:
        """Make the router throttle clients while the cluster has client quotas, as the broker of ``mockbroker serve``
        does.

        A restarted process has not measured any rate yet.
        """
        router = self.router
        router.stages = tuple(each for each in router.stages if not isinstance(each, QuotaStage))
        router.noticing_stages = tuple(each for each in router.noticing_stages if not isinstance(each, QuotaStage))
        self._quotas = None
        router.broker.quotas.changed.append(self._apply_quotas)
        self._apply_quotas()

    def _apply_quotas(self) -> None:
        if self._quotas is None and self.router.broker.quotas.quotas:
            self._quotas = QuotaStage(self.router)
        if self._quotas is not None:
            self._quotas.apply_quotas()

    @property
    def broker(self) -> Broker:
        return self.router.broker

    @property
    def now(self) -> float:
        """The time on the broker's clock in seconds: virtual time plus skew."""
        return self.queue.now + self.skew

    def begin(self) -> None:
        """Start the process of the brokers. Call this method before the first request."""
        self._open_sockets()
        self.broker.groups.schedule_offset_expiration(self.now)
        if self.disk is not None:
            self.disk.flush()
        self.keep_time()

    # --- the network ---

    def receive(self, connection: network.Wire, call: Call[Any]) -> None:
        if not self.is_listening(connection.node):
            self.network.refuse(connection)
            return
        served = self.pump.connections.get(connection.number)
        if served is None:
            served = SimulatedConnection(self, connection)
            self.pump.open(served)
        assert isinstance(served, SimulatedConnection)
        served.requests.calls.append(call)
        self.pump.enqueue(served)
        self.turn()

    def is_listening(self, node: int) -> bool:
        """Return whether a broker accepts connections: True while it is running. ``node``: broker id."""
        return not self.down and node not in self.away

    def accept(self, wire: network.Wire, sock: SimulatedSocket, end: ClientEnd) -> SimulatedSocket:
        """Accept a connection that transports bytes. Return its socket.

        Args:
            wire: the connection in the simulated network.
            sock: the broker's plain socket.
            end: the client's end of the connection.
        """
        assert self.sockets is not None
        return self.sockets.accept(wire, sock, end)

    def disconnected(self, connection: network.Wire) -> None:
        served = self.pump.connections.get(connection.number)
        if served is None:
            return
        if isinstance(served, ServedConnection):
            served.simulated.break_off()  # the broker notices it when it reads or sends
        else:
            self.pump.close(served)

    @property
    def busy(self) -> bool:
        """Whether the process handles no requests and timers now: it is down, or its event loop is stalled."""
        return self.down or self.queue.now < self.stalled

    def turn(self) -> bool:
        """Handle waiting requests, then sync the disk, set the timer and call the invariant checkers.

        Do nothing while the event loop is stalled or the process is down, or the buggify point ``batch-differently``
        postpones the handling of requests. If requests remain, the method schedules its next call.

        Returns: always False.
        """
        time = self.queue.now
        if self.down or time < self.stalled or time < self._collects_until:
            return False
        postponed = 0.0 if self._buggify is None or not self.pump.queued else self._buggify.postpones_turn()
        if postponed:
            self._collects_until = self.queue.now + postponed
            self.watchers.notify("stalled", postponed)  # a request that is ready must wait as long
            self.queue.at(self._collects_until, self.turn)
            return False
        pump, now = self.pump, time + self.skew
        if pump.turn(now):
            sliced = any(connection.work is not None for connection in pump.connections.values())
            self.queue.after(self._slices.between(0.0, SLICE_TIME) if sliced else 0.0, self.turn)
        if pump.unsynced:
            self._sync()
        if self._unsent:
            self._acknowledge_unsent()
        self.keep_time()
        self._look(now)
        return False

    # --- what the pump and its connections report ---

    def handled(self, call: Call[Any], now: float) -> None:
        """Notify the invariant checkers that a request, or a slice (part of limited size) of the request, was handled.

        A request that a fault rule has answered or held is ignored.

        Args:
            call: the request.
            now: broker time, seconds.
        """
        self.served = None
        ticket = call.ticket
        if ticket not in self._begun:  # a fault rule has answered or held it
            return
        if ticket.api_key in JOINING:
            self._notice_replacement(call.request.group_id)
        broker = self.router.broker
        for handled in self.watchers.handled[ticket.api_key]:
            handled(broker, call, now)

    def forget_silent(self, connection: Connection, call: Call[Any]) -> None:
        """Remove a request from ``waiting`` if it gets no response (acks=0) and has been handled completely.

        Args:
            connection: connection of the request.
            call: the request.
        """
        if connection.work is None and has_no_response(call):
            self.waiting.pop(call.ticket, None)

    def begin_request(self, call: Call[Any], now: float) -> None:
        """Add a received request to the trace, and notify the invariant checkers with ``proceed``.

        If fault rules apply to the API of the request, ``proceed`` is not called here, because a rule may prevent the
        request from being handled.

        Args:
            call: the request.
            now: broker time, seconds.
        """
        ticket, client = call.ticket, call.client
        self.trace.add(now, f"{client.client_id}>{client.node} {describe_request(ticket.api_key, call.request)}")
        self.waiting[ticket] = call
        if ticket.api_key not in self.router.outer_stages:  # else a rule may keep it from being handled
            self.proceed(call, now)

    def proceed(self, call: Call[Any], now: float) -> None:
        """Notify the invariant checkers that a request is about to be handled.

        Args:
            call: the request.
            now: broker time, seconds.
        """
        self.served = call
        ticket, broker = call.ticket, self.router.broker
        self._begun.add(ticket)
        if ticket.api_key in JOINING:
            self._types.begin(broker, call.request.group_id)
        for before in self.watchers.before[ticket.api_key]:
            before(broker, call, now)

    def answered(self, call: Call[Any], response: Any) -> None:
        """Notify the invariant checkers that the broker has produced the response to a request.

        The response may not be sent yet, because it waits for a disk sync. A response that was reported before, or that
        a fault rule has made, is ignored.

        Args:
            call: the request.
            response: the response body.
        """
        ticket = call.ticket
        if self.waiting.pop(ticket, None) is None:  # reported when a fault rule delayed or held it
            return
        if ticket not in self._begun:  # a fault rule has answered it
            return
        broker, now = self.router.broker, self.queue.now + self.skew
        for answered in self.watchers.answered[ticket.api_key]:
            answered(broker, call, response, now)

    def send(self, wire: network.Wire, call: Call[Any], response: Any) -> None:
        """Notify the invariant checkers of a response that is sent, and add it to the trace.

        If the network transports messages, the response is sent here. Nothing is sent or traced on a cut connection.

        Args:
            wire: the connection.
            call: the request.
            response: the response body.
        """
        self._acknowledge(call, response)
        if not wire.cut:
            client, text = call.client, describe_response(call.ticket.api_key, response)
            self.trace.add(self.now, f"{client.client_id}<{client.node} {text}")
            if self.sockets is None:
                self.network.answer(wire, call, response)

    def closed(self, connection: SimulatedConnection | ServedConnection, answers: Iterable[Answer]) -> None:
        """Handle a closed connection: store its unsent responses, and notify the invariant checkers of its pending
        request.

        The pending request remains pending in the broker, because groups do not depend on connections.

        Args:
            connection: the closed connection.
            answers: responses of the connection that were not sent.
        """
        self._keep_unsent(answers)
        call = connection.pending
        if connection.requests.ticket is not None and call is not None and not self.down:
            self.watchers.notify("closed", self.broker, call, self.now)

    def unclaimed(self, outcome: Outcome) -> None:
        """Handle the response to a request whose connection was closed.

        ``outcome``: result of the request.

        Raises: Broken if the connection is open, or the request is not pending. A request that is not pending is
        ignored if a fault rule was applied to it, or if it belongs to the authentication.
        """
        ticket = outcome.ticket
        call = self.waiting.get(ticket)
        if call is None and (ticket.fault or ticket.api_key in AUTHENTICATION):
            return
        if call is None:
            raise Broken(
                "I7",
                f"a response was sent to request {ticket.correlation_id} of connection {ticket.connection}, which is "
                "not pending: it already had a response, or was never received",
            )
        if ticket.connection in self.pump.connections:
            raise Broken(
                "I8",
                f"the response to request {ticket.correlation_id} of connection {ticket.connection} was not sent in "
                "the order of the requests",
            )
        if isinstance(outcome, Reply):
            self.answered(call, outcome.response)
            self._keep_unsent([(call, outcome.response)])

    def _keep_unsent(self, answers: Iterable[Answer]) -> None:
        """Store the unsent responses of a closed connection.

        When all changes that the broker has made until now are synced, the checkers treat these responses as
        acknowledged.

        ``answers``: the requests with their responses.
        """
        written = 0 if self.disk is None else self.disk.collected
        self._unsent += [(written, answer) for answer in answers]

    def _acknowledge_unsent(self) -> None:
        synced = 0 if self.disk is None else self.disk.synced
        while self._unsent and self._unsent[0][0] <= synced:
            _, (call, response) = self._unsent.popleft()
            self._acknowledge(call, response)

    def _acknowledge(self, call: Call[Any], response: Any) -> None:
        """Notify the invariant checkers of a response whose changes are synced. Ignore a response that a fault rule has
        made.

        Args:
            call: the request.
            response: the response body.
        """
        acknowledging = self.watchers.acknowledged[call.ticket.api_key]
        if acknowledging and call.ticket in self._begun:
            for acknowledged in acknowledging:
                acknowledged(self.broker, call, response, self.now)

    # --- the disk ---

    def _sync(self) -> None:
        assert self.disk is not None
        seconds = self.disk.start()
        if seconds is not None:
            self.queue.after(seconds, self._synced, self._life, self.disk)

    def _synced(self, life: int, disk: Disk) -> None:
        if life != self._life:
            return
        if not disk.finish():
            self.trace.add(self.now, "the disk fails, and the process ends")
            self.crash(RESTART)
            return
        self._acknowledge_unsent()  # before the responses to later requests
        self.pump.release()
        if self.pump.unsynced:
            self._sync()
        self._acknowledge_unsent()
        self.turn()

    def crash(self, seconds: float) -> None:
        """Crash the process of the brokers, and restart it after ``seconds`` of virtual time.

        The process loses its memory and some unsynced bytes. Do nothing if the process is down, or the brokers have no
        disk.
        """
        if self.down or self.disk is None:
            return
        self.disk.crash()
        self.trace.add(self.now, "the process is gone, with what was not synced")
        self.down = True
        self._life += 1
        connections = list(self.pump.connections.values())
        self.pump = self._new_pump()
        self._faults.drop_requests()
        self.waiting.clear()
        self._begun.clear()
        self._unsent.clear()
        self._tick_at = inf
        for connection in connections:
            self.network.break_off(cast("Observed", connection).wire)
        self._open_sockets()
        self.watchers.notify("crashed", self.broker, self.now)
        self.queue.after(seconds, self.restart)

    def restart(self) -> None:
        """Restart all brokers of the cluster with the state on the disk. Do nothing if the process is running."""
        if not self.down or self.disk is None:
            return
        self.down = False
        self.away.clear()
        now = self.now
        self.router.restart(self._successor(self.disk), 0.0)
        self._authorize()
        self._throttle()
        self.pump.deliver(self.router.finish(failover.recover(self.broker, now), now))
        self.broker.groups.schedule_offset_expiration(now)
        self.trace.add(now, f"the process is back, with {len(self.broker.groups)} groups")
        self.watchers.notify("restarted", self.broker, now)
        self.turn()

    # --- fault rules ---

    @property
    def rules(self) -> Rules:
        """The fault rules of the simulated broker, in order."""
        return self._faults.rules

    def add_rule(self, rule: Rule) -> None:
        """Add a fault rule to the simulated broker."""
        self._faults.add(rule)

    def remove_rules(self) -> None:
        """Remove all fault rules, and release the requests and responses that they hold."""
        if len(self._faults.rules):
            self.change(self._faults.remove("*", self.now)[1])

    # --- brokers that stop and restart ---

    def change(self, effects: Effects) -> None:
        """Carry out the effects of a change that is not a request, and notify the invariant checkers.

        ``effects``: responses and journal events of the change, such as a leader change or the removal of fault rules.
        """
        now = self.now
        self.pump.deliver(self.router.finish(effects, now))
        self.watchers.notify("ticked", self.broker, now)
        self.turn()

    def take_away(self, node: int) -> None:
        """Make a broker unreachable and close its connections. ``node``: broker id."""
        self.away[node] = None
        self.pump.stop(node)
        self._faults.stop(node)
        for connection in list(self.pump.connections.values()):
            if connection.requests.node == node:
                self.pump.close(connection)

    # --- time ---

    def keep_time(self) -> None:
        """Schedule the timer for the earliest deadline.

        Do nothing if the timer is already scheduled for this time or earlier, or the process is down.
        """
        deadline = self.router.deadline()
        if self.down or deadline == inf:
            return
        at = max(deadline - self.skew, self.queue.now)
        if at >= self._tick_at:
            return
        while at + self.skew < deadline:  # a time that is rounded down would always be before the deadline
            at = nextafter(at, inf)
        if at < self._tick_at:
            self._tick_at = at
            self.queue.at(at, self._tick, at)

    def _tick(self, at: float) -> None:
        if at != self._tick_at or self.down:
            return  # an earlier tick was scheduled
        self._tick_at = inf
        if self.queue.now < self.stalled:
            return
        now = self.now
        if self.router.deadline() <= now:
            self.trace.add(now, "tick")
            while self.router.deadline() <= now:
                self.pump.deliver(self.router.tick(now))
            self.watchers.notify("ticked", self.broker, now)
            self.turn()
        self.keep_time()

    def stall(self, seconds: float) -> None:
        """Block the event loop of the broker for some time.

        After that, received requests are handled before due deadlines.

        ``seconds``: duration, virtual time in seconds.
        """
        self.stalled = max(self.stalled, self.queue.now + seconds)
        self.watchers.notify("stalled", seconds)
        self.queue.at(self.stalled, self._resume, self.stalled)

    def _resume(self, until: float) -> None:
        if until == self.stalled:
            self.end_stall()

    def end_stall(self) -> None:
        """End a stall of the event loop: handle the requests that arrived during the stall."""
        self.stalled = 0.0
        if self.sockets is not None and not self.down:
            self.sockets.simulated_watch.read_all()
        self.turn()

    def jump(self, seconds: float) -> None:
        """Advance the broker's clock by ``seconds``, as a clock correction does."""
        self.skew += seconds
        self.watchers.notify("stalled", seconds)
        self._tick_at = inf
        self.keep_time()

    # --- checkers ---

    def _notice_replacement(self, group_id: str) -> None:
        if self._types.is_replaced(self.broker, group_id):
            self.watchers.notify("replaced", self.broker, group_id)

    def _noted(self, event: Event) -> None:
        self._notice_replacement(event.group)
        broker = self.router.broker
        for journaled in self.watchers.journaled:
            journaled(broker, event)
        served = self.served
        if event.event == EventKind.COMMIT and served is not None and served.ticket.api_key == ApiKey.OFFSET_COMMIT:
            self.watchers.notify("stored", self.broker, served, event.offsets, self.now)

    def _look(self, now: float) -> None:
        if self.trace.events - self._looked >= LOOK_EVERY:
            self._looked = self.trace.events
            self.watchers.notify("inspect", self.broker, now)
