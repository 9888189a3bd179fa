"""The application of fault rules to the traffic of a proxy.

A request of an API that has rules is decoded and passed to the stages of a router (``mockbroker/broker/stages.py``), as
in ``mockbroker serve``; a stage is a step of request processing, such as the fault rules. Instead of calling a handler,
the proxy sends the request to the real broker, and passes the response to the stages. The stages return orders
(``orders.py``): actions such as sending a response, which the relay carries out.

While the fault rules process a request, no other request of its connection is in flight. A request that a rule delays
therefore blocks the later requests of its connection, as in a broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import field
from math import inf
from typing import Any

from kwire.apikeys import ApiKey
from kwire.codec import decode_at, encode
from kwire.envelope import Request, decode_request, decode_request_in_slices, encode_request, pack_response
from kwire.errors import WireError
from kwire.frames import PREFIX, pack
from kwire.headers import ResponseHeader, response_header_version
from kwire.lazy_dataclass import dataclass
from kwire.messages import APIS
from mockbroker.base.effects import Call, Client, Effects, NoReply, Reply, Ticket
from mockbroker.base.effects import Close as CloseEffect
from mockbroker.base.effects import SendMore as SendMoreEffect
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler
from mockbroker.broker.journal import Journal
from mockbroker.broker.router import Outcome, Router, Unfinished
from mockbroker.faults.matching import NewConnection
from mockbroker.faults.stage import Admission, FaultStage
from mockbroker.net.clock import BrokerTime
from mockbroker.proxy.changeable import Changeable
from mockbroker.proxy.fetch_sessions import INITIAL
from mockbroker.proxy.observed_broker import ObservedBroker
from mockbroker.proxy.observer import (
    LARGE,
    SLICE,
    Connection,
    Exchange,
    Moment,
    Steps,
    notify_answered,
    notify_requested,
    unfinished,
)
from mockbroker.proxy.orders import End, Forward, Order, Send, SendMore


@dataclass(slots=True, eq=False)
class Channel:
    """A client connection of the proxy, with the request that the fault rules process.

    Attributes:
        connection: the client's connection and the connection to the broker.
        wake: function that is called after an order was added or the request was finished.
        cut: function that closes the connection immediately; the argument is True for a TCP reset.
        moment: function that returns the current time.
        since_ms: time at which the connection was accepted, in milliseconds since 1970.
        requests: number of requests that were observed on the connection.
        client_id: the ``client.id`` of the last observed request.
        orders: actions that the relay must carry out, such as sending a response, in the order of execution.
        ticket: ticket of the request in progress; None if no request is in progress.
        exchange: the request in progress with its response, as observers get it.
        decoded: the request as the client has sent it.
        response: the response frame of the broker, with its length prefix; None until it arrives.
        body: the decoded response of the broker, in which the broker addresses are replaced with those of the proxy.
        muted: whether later requests must wait because of a fault rule.
        pacing: whether the proxy is sending a response slowly because of a fault rule.
    """

    connection: Connection
    wake: Callable[[], None]
    cut: Callable[[bool], None]
    moment: Callable[[], Moment]
    since_ms: int = 0
    requests: int = 0
    client_id: str = ""
    orders: deque[Order] = field(default_factory=deque)
    ticket: Ticket | None = None
    exchange: Exchange | None = None
    decoded: Request | None = None
    response: bytes | None = None
    body: Any = None
    muted: bool = False
    pacing: bool = False

    @property
    def busy(self) -> bool:
        """Whether a request is in progress, so that later requests of the connection must wait."""
        return self.ticket is not None or self.muted or self.pacing


class Interception:
    """The part of a proxy that applies fault rules to requests and responses.

    Args:
        broker: the observed state of the real cluster.
        clock: the clock that delays use.
        listener: listener name of all connections, for rules that match only one listener.

    Attributes:
        router: the router, which passes requests to the stage of the fault rules. Its handlers forward each request to
            the real broker.
        stage: the stage that applies the fault rules.
        channels: the open connections, by number.
        clock: the clock that delays use.
        rescheduled: functions that are called when the next deadline may have changed.
    """

    def __init__(self, broker: ObservedBroker, clock: BrokerTime, listener: str = "PLAINTEXT") -> None:
        self.clock = clock
        self.listener = listener
        handlers = {key: Handler(api.versions, self._forward) for key, api in APIS.items()}
        self.router = Router(broker, Journal(clock.read()), handlers)
        self.stage = FaultStage(self.router, lambda number: self.router.principal(number))
        self.channels: dict[int, Channel] = {}
        self.rescheduled: list[Callable[[], object]] = []
        self._unfinished: deque[Unfinished] = deque()
        self._unobserved: deque[Steps] = deque()  # remaining work of observers on responses that were dropped

    @property
    def unfinished(self) -> int:
        """The number of large requests and responses that are processed part by part and are not finished."""
        return len(self._unfinished) + len(self._unobserved)

    @property
    def connections(self) -> Mapping[int, Channel]:
        """The open connections, by number."""
        return self.channels

    @property
    def faults(self) -> FaultStage:
        """The object that has the fault rules and applies them."""
        return self.stage

    @property
    def broker(self) -> ObservedBroker:
        """The observed state of the real cluster."""
        broker = self.router.broker
        assert isinstance(broker, ObservedBroker)
        return broker

    def intercepts(self, key: int, version: int) -> bool:
        """Return whether requests of an API version must be passed to the fault rules, because a rule may apply to
        them.

        The result is False for a version that kwire cannot decode.

        Args:
            key: API key.
            version: API version of the request.
        """
        return key in self.router.outer_stages and version in APIS[key].versions

    # --- connections ---

    def open(
        self,
        connection: Connection,
        wake: Callable[[], None],
        cut: Callable[[bool], None],
        moment: Callable[[], Moment],
    ) -> Channel:
        """Add a connection, and return its channel.

        Args:
            connection: the client's connection and the connection to the broker.
            wake: function that is called after an order was added or a request was finished.
            cut: function that closes the connection immediately; the argument is True for a TCP reset.
            moment: function that returns the current time.
        """
        since_ms = round(moment().wall * 1000)
        channel = self.channels[connection.number] = Channel(connection, wake, cut, moment, since_ms)
        return channel

    def admit(self, channel: Channel) -> Admission | None:
        """Return the decision of the fault rules about a new connection; None to serve the connection as usual.

        If a rule mutes the connection, the attribute ``muted`` of the channel is set.
        """
        connection = channel.connection
        client = NewConnection(self.node_of(connection), self.listener, connection.client.host)
        admission = self.stage.admit(connection.number, client, self.clock.read())
        if admission is not None and admission.how == "mute":
            channel.muted = True
        self.reschedule()
        return admission

    def close(self, channel: Channel) -> None:
        """Remove a closed connection, and drop its request in progress."""
        self.channels.pop(channel.connection.number, None)
        self._note_dropped(channel)
        if channel.ticket is not None:
            self.router.forget(channel.ticket)
        self.router.forget_connection(channel.connection.number)
        self.reschedule()

    def is_silent(self, channel: Channel) -> bool:
        """Return whether a rule with the action ``no_response`` has ended all responses on a connection."""
        return channel.busy and not channel.orders and self.stage.is_silent(channel.connection.number)

    def node_of(self, connection: Connection) -> int:
        """Return the id of the broker that a connection is forwarded to; -1 if the id is not known."""
        if connection.node >= 0:
            return connection.node
        return self.broker.node_at(connection.broker)

    # --- requests and responses ---

    def request(self, channel: Channel, exchange: Exchange, frame: bytes) -> Generator[None, None, None]:
        """Pass a request to the fault rules. If kwire cannot decode the request, forward it unchanged.

        The generator yields between slices (parts of limited size) of a large request. No other request of the
        connection may be in flight.

        Args:
            channel: the connection that the request came from.
            exchange: the exchange that observers get for the request.
            frame: the request, with its length prefix.
        """
        data = frame[PREFIX.size :]
        if exchange.observers:
            yield from notify_requested(exchange, data, None)
        try:
            if len(data) <= LARGE:
                decoded = decode_request(data)
            else:
                decoded = yield from decode_request_in_slices(data, SLICE)
        except WireError:  # the broker responds to it as it does without a proxy
            exchange.forwarded = exchange.request
            channel.exchange = exchange
            channel.orders.append(Forward(frame, is_intercepted=False))
            channel.wake()
            return
        channel.ticket = Ticket(
            channel.connection.number, exchange.correlation_id, exchange.api_key, decoded.header.request_api_version
        )
        channel.exchange, channel.decoded, channel.response, channel.body = exchange, decoded, None, None
        channel.requests += 1
        channel.client_id = decoded.header.client_id or ""
        client = Client(
            self.node_of(channel.connection),
            channel.client_id,
            f"/{channel.connection.client.host}",
            self.listener,
        )
        now = self.clock.read()
        self._deliver(self.router.step(Call(channel.ticket, client, decoded.body, data), now), now)

    def answer(self, channel: Channel, response: Changeable) -> None:
        """Pass the response of the real broker to the fault rules.

        The response is forwarded unchanged in three cases: kwire cannot decode it, it does not belong to the request in
        progress, or it has a different version than the request (ApiVersions).

        Args:
            channel: the connection that the request came from.
            response: the response, in which broker addresses are replaced with those of the proxy.
        """
        ticket, exchange = channel.ticket, channel.exchange
        if ticket is None or exchange is None or response.exchange is not exchange or response.response is None:
            self._pass_unchanged(channel, response)
            return
        if response.version != ticket.version:  # ApiVersions, in a version that the broker does not know
            self._pass_unchanged(channel, response)
            return
        decoded: Any = channel.decoded
        if ticket.api_key == ApiKey.FETCH and response.response.session_id and decoded.body.session_epoch == INITIAL:
            sessions = self.broker.fetch_sessions(self.node_of(channel.connection))
            sessions.begin(response.response.session_id, decoded.body)
        frame = response.changed
        channel.response, channel.body = frame, response.response
        if exchange.observers:
            exchange.answer = response.frame[PREFIX.size :]
        now = self.clock.read()
        encoded = {ticket.version: _body(frame, ticket)}  # a rule that malforms the response changes these bytes
        self._deliver(self.router.finish([Reply(ticket, response.response, encoded)], now), now)

    def _pass_unchanged(self, channel: Channel, response: Changeable) -> None:
        if channel.ticket is not None:
            self.router.forget(channel.ticket)
            channel.ticket = None
        channel.orders.append(Send(response.changed, before=unfinished(response.notify())))
        channel.wake()

    def _forward(self, broker: Broker, call: Call[Any], now: float) -> Effects:  # noqa: ARG002
        """Order the relay to send a request to the real broker. The router uses this function as its handler of all
        APIs.
        """
        channel = self.channels.get(call.ticket.connection)
        if channel is None or channel.ticket is not call.ticket:
            return []  # the client and its broker have disconnected
        assert channel.decoded is not None
        assert channel.exchange is not None
        frame = call.frame
        if call.request is not channel.decoded.body:
            header = channel.decoded.header
            frame = encode_request(call.request, call.version, correlation_id=0, header=header)
        channel.exchange.forwarded = frame
        is_answered = call.ticket.api_key != ApiKey.PRODUCE or call.request.acks != 0
        channel.orders.append(Forward(pack(frame), is_answered))
        channel.wake()
        return [] if is_answered else [NoReply(call.ticket)]

    # --- time, and changes by the user ---

    def perform(self, effects: Effects) -> None:
        """Carry out effects that do not come from a request, such as the release of held requests."""
        now = self.router.requests.now = self.clock.read()
        self._deliver(self.router.finish(effects, now), now)

    def deadline(self) -> float:
        """Return the time on the proxy's clock, in seconds, at which ``tick`` must be called next; -inf if it has work
        now.
        """
        return -inf if self._unfinished or self._unobserved else self.router.deadline()

    def tick(self) -> None:
        """Run the actions that are due, such as sending a delayed response.

        Then process the next part of one large request or response.
        """
        while self.router.deadline() <= (now := self.clock.read()):
            self._deliver(self.router.tick(now), now)
        if self._unfinished:
            work = self._unfinished.popleft()
            if work.ticket.connection in self.channels:
                self._deliver(work.resume(now), now)
        elif self._unobserved and unfinished(self._unobserved[0]) is None:
            self._unobserved.popleft()

    def reschedule(self) -> None:
        """Call the functions in ``rescheduled``, because the next deadline may have changed."""
        for each in self.rescheduled:
            each()

    # --- outcomes ---

    def _deliver(self, outcomes: Iterable[Outcome], now: float) -> None:
        self.router.requests.now = now
        for outcome in outcomes:
            if isinstance(outcome, Unfinished):
                self._unfinished.append(outcome)
                continue
            channel = self.channels.get(outcome.ticket.connection)
            if channel is None:
                continue
            if isinstance(outcome, SendMoreEffect):
                channel.orders.append(SendMore())
            elif isinstance(outcome, CloseEffect):
                self._end(channel, outcome)
            elif isinstance(outcome, Reply):
                if outcome.ticket is channel.ticket:
                    self._send(channel, outcome)
            elif isinstance(outcome, NoReply):
                channel.ticket = None
            else:
                channel.muted = False
            channel.wake()
        self.reschedule()

    def _send(self, channel: Channel, reply: Reply) -> None:
        ticket, exchange, delivery = reply.ticket, channel.exchange, reply.delivery
        assert exchange is not None
        channel.ticket = None
        frame = channel.response
        if frame is None or reply.response is not channel.body:
            try:
                body = None if reply.encoded is None else reply.encoded.get(ticket.version)
                if body is None:
                    body = encode(reply.response, ticket.version)
                frame = pack_response(body, ticket.api_key, ticket.version, ticket.correlation_id)
            except WireError as error:
                channel.orders.append(End(f"fault rule {ticket.fault}: {error}"))
                return
        self.router.requests.record_response(ticket, frame)
        if delivery is not None and delivery.frame is not None:
            frame = delivery.frame
        exchange.fault = ticket.fault
        if ticket.fault:  # the rule has made or delayed the response
            exchange.answered_at = channel.moment()
        rest = None
        if exchange.observers:
            rest = unfinished(notify_answered(exchange, exchange.answer, frame[PREFIX.size :]))
        pace = None if delivery is None else delivery.pace
        channel.orders.append(Send(frame, pace, rest))
        if delivery is not None:
            channel.muted = delivery.mute
            channel.pacing = pace is not None
            if delivery.close:
                channel.orders.append(End(delivery.close, delivery.reset))

    def _end(self, channel: Channel, close: CloseEffect) -> None:
        if close.ticket.api_key >= 0 and close.ticket is not channel.ticket:
            return
        self._note_dropped(channel)
        channel.ticket = None
        channel.orders.append(End(close.reason, close.reset, close.alert))

    def _note_dropped(self, channel: Channel) -> None:
        """Report to the observers that a fault rule drops the broker's response to the request in progress.

        Their method ``answered`` is called, with the response None. If the broker has not responded, nothing is
        reported.
        """
        exchange = channel.exchange
        if exchange is not None and channel.ticket is not None:
            exchange.fault = channel.ticket.fault
            if exchange.observers and exchange.answer is not None:
                rest = unfinished(notify_answered(exchange, exchange.answer, None))
                if rest is not None:
                    self._unobserved.append(rest)


def _body(frame: bytes, ticket: Ticket) -> bytes:
    """Return the body of a response frame.

    Args:
        frame: the response, with its length prefix.
        ticket: identity of the request, with the API key and version of the response.
    """
    header_version = response_header_version(APIS[ticket.api_key], ticket.version)
    return frame[decode_at(ResponseHeader, frame, PREFIX.size, header_version)[1] :]
