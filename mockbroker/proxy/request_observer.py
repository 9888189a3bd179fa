"""An observer that fills the request log and counts the requests of each connection, for the control API."""

from __future__ import annotations

from collections.abc import Callable

from kwire.frames import pack
from kwire.messages import APIS
from kwire.messages.fetch import FetchResponse
from kwire.messages.produce import ProduceRequest
from mockbroker.base.effects import Call, Client, Ticket
from mockbroker.broker.request_log import LARGEST_RESPONSE
from mockbroker.proxy.interception import Interception
from mockbroker.proxy.observer import Connection, Exchange, Moment, Observer, Steps, decoded_request, decoded_response


class RequestObserver(Observer):
    """The observer that logs and counts all requests that are not passed to the fault rules.

    The router of the fault rules itself logs the requests that are passed to the fault rules.

    Args:
        interception: the object that applies fault rules. Its router has the request log.
        now: function that returns the time in seconds.
    """

    def __init__(self, interception: Interception, now: Callable[[], float]) -> None:
        self._interception = interception
        self._now = now
        self._unanswered: dict[int, dict[Exchange, Ticket]] = {}  # by number of the connection

    def needs(self, api_key: int, version: int) -> bool:
        if api_key not in APIS or version not in APIS[api_key].versions:
            return False
        return not self._interception.intercepts(api_key, version)

    def requested(self, exchange: Exchange) -> Steps:
        connection = exchange.connection
        client_id = exchange.client_id or ""
        channel = self._interception.channels.get(connection.number)
        if channel is not None:
            channel.requests += 1
            channel.client_id = client_id
        body = yield from decoded_request(exchange.request)
        if body is None:  # the log has only requests that can be decoded
            return
        ticket = Ticket(connection.number, exchange.correlation_id, exchange.api_key, exchange.version)
        node = self._interception.node_of(connection)
        client = Client(node, client_id, f"/{connection.client.host}", self._interception.listener)
        self._interception.router.requests.record(Call(ticket, client, body, exchange.request), self._now())
        if not isinstance(body, ProduceRequest) or body.acks:  # with acks=0, there is no response
            self._unanswered.setdefault(connection.number, {})[exchange] = ticket

    def answered(self, exchange: Exchange) -> Steps:
        ticket = self._unanswered.get(exchange.connection.number, {}).pop(exchange, None)
        if ticket is None or exchange.response is None:
            return
        response = exchange.decoded
        if response is None:
            response = yield from decoded_response(exchange.response, exchange.api_key, exchange.version)
            if response is None:
                return
        if isinstance(response, FetchResponse):
            yield from self._interception.broker.learn_offsets(response)
        log = self._interception.router.requests
        log.now = self._now()
        is_kept = len(exchange.response) <= LARGEST_RESPONSE
        log.record_response(ticket, pack(exchange.response) if is_kept else exchange.response)

    def closed(self, connection: Connection, at: Moment) -> None:  # noqa: ARG002
        self._unanswered.pop(connection.number, None)
