"""The stage of request processing that applies client quotas (KIP-219).

It is called before and after the handler of a request, adds throttle times to responses, and mutes connections. A muted
connection is not read until the throttle time has passed.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from copy import copy
from dataclasses import field, replace
from typing import Any

from kwire import ErrorCode, encode
from kwire.apikeys import ApiKey
from kwire.lazy_dataclass import dataclass
from kwire.messages.fetch import FetchResponse
from kwire.schema import ZERO_UUID
from mockbroker.base.effects import (
    Call,
    Client,
    Delivery,
    Effects,
    NoReply,
    Reply,
    Steps,
    Ticket,
    Token,
    Unmute,
    begin,
)
from mockbroker.base.timers import StageDue
from mockbroker.broker.router import Router
from mockbroker.broker.stages import Stage, outcome_of, remaining
from mockbroker.broker.topic_creation import creation_error, requested_partitions
from mockbroker.faults.error_fields import AnswerArray, answer_of
from mockbroker.faults.errors import SLICE, ErrorInjection
from mockbroker.faults.matching import Element
from mockbroker.quotas.client_quotas import CLIENT_KEYS, CONSUMER, MUTATION, PRODUCER, REQUEST, Limit
from mockbroker.quotas.rates import WindowedRate

USER_PREFIX = "User:"
LENGTH = 4  # bytes of the size that precedes a response, which Kafka counts in a fetch quota
CODE = ErrorCode.THROTTLING_QUOTA_EXCEEDED
PRODUCE, FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH)
# By API: the first version in which a request that exceeds the mutation quota is refused. Source: Kafka's KIP-599.
STRICT_SINCE = {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
US_PER_PERCENT = 10_000  # microseconds that are one percent of a second
CACHED = 10_000  # maximum number of connections whose quotas are cached


@dataclass(slots=True)
class _Use:
    """A quota of bytes or of request time, and the measured use by all clients that share it.

    Attributes:
        limit: maximum per second: bytes, or percent of request time.
        rate: the measured use per second.
    """

    limit: float
    rate: WindowedRate


@dataclass(slots=True)
class _Limits:
    """The cached quotas of the client that sent the last request on a connection.

    Attributes:
        client: the client.
        by_key: quota name, such as ``producer_byte_rate`` -> quota.
        producer: quota of the bytes of Produce requests; None without such a quota.
        consumer: quota of the bytes of Fetch responses; None without such a quota.
        request: quota of request time; None without such a quota.
    """

    client: Client
    by_key: Mapping[str, Limit]
    producer: _Use | None
    consumer: _Use | None
    request: _Use | None


@dataclass(slots=True)
class _Mutations:
    """The partition mutations of a request, that is, the partitions that it creates or deletes.

    Attributes:
        costs: number of mutated partitions of each accepted topic, by topic name, or by topic id if the request has no
            name.
        refused: the errors of topics that exceed the quota, to be added to the response; None if no topic exceeds it.
        throttles: whether the client is throttled until it has tokens again: in an old version of the API, and after a
            topic was refused. Source: Kafka's PermissiveControllerMutationQuota and StrictControllerMutationQuota.
    """

    throttles: bool
    costs: dict[Any, int] = field(default_factory=dict)
    refused: ErrorInjection | None = None


class QuotaStage(Stage):
    """The stage that applies client quotas to requests. Source: Kafka's KafkaApis and ClientQuotaManager.

    Args:
        router: the router, which calls the stage while the cluster has quotas.
    """

    # SaslAuthenticate: a token without a header has its key
    unchanged = frozenset(map(int, ApiKey)) - {ApiKey.FETCH, ApiKey.SASL_AUTHENTICATE, *STRICT_SINCE}

    def __init__(self, router: Router) -> None:
        self._router = router
        self._settings = router.broker.settings
        router.noticing_stages = (*router.noticing_stages, self)
        self._limits: dict[int, _Limits] = {}  # by connection
        self._mutations: dict[Ticket, _Mutations] = {}
        self._muted: dict[int, Ticket] = {}  # by connection

    def apply_quotas(self) -> None:
        """Make the router call this stage if the cluster has quotas; otherwise make the router stop calling it.

        The cached quotas of clients are discarded. The caller must call the method after a change of the quotas, and
        after the router has got a new cluster.
        """
        self._limits.clear()
        self._settings = self._router.broker.settings
        self._router.broker.quotas.on_eviction = self._limits.clear  # they refer to rates
        others = tuple(stage for stage in self._router.stages if stage is not self)
        self._router.stages = (*others, self) if self._router.broker.quotas.quotas else others

    def only_processes_answer(self, call: Call[Any]) -> bool:
        if call.ticket.api_key != FETCH:
            return False
        consumer = self._limits_of(call).consumer
        return consumer is None or call.request.max_bytes <= self._most_fetched(consumer)

    def before(self, call: Call[Any], now: float) -> Effects | Call[Any] | None:
        if call.request.__class__ is Token:
            return None
        limits = self._limits_of(call)
        if not limits.by_key:
            return None
        if MUTATION in limits.by_key and call.ticket.api_key in STRICT_SINCE:
            return outcome_of(call.ticket, self._count_mutations(call, limits.by_key[MUTATION], now))
        if limits.consumer is not None and call.ticket.api_key == FETCH:
            most = self._most_fetched(limits.consumer)
            if call.request.max_bytes > most:
                request = copy(call.request)
                request.max_bytes, request.min_bytes = most, min(request.min_bytes, most)
                return replace(call, request=request)
        return call

    def after(self, call: Call[Any], effects: Effects, now: float) -> Effects:
        mutations = self._mutations.get(call.ticket) if self._mutations else None
        final: Effects = []
        for effect in effects:
            if not isinstance(effect, (Reply, NoReply)) or effect.ticket is not call.ticket:
                final.append(effect)
            elif isinstance(effect, Reply) and mutations and mutations.refused and mutations.refused.is_large:
                final += begin(call.ticket, self._merged(call, effect, mutations, mutations.refused))
            else:
                final.append(self.process_response(call, effect, now))
        return final

    def _merged(self, call: Call[Any], reply: Reply, mutations: _Mutations, refused: ErrorInjection) -> Steps:
        """Add the errors of many rejected topics to a response, and then the throttle time.

        The generator yields after a limited number of topics, so that other requests are handled in between.

        Args:
            call: the request.
            reply: the response to the accepted topics.
            mutations: the partition mutations of the request.
            refused: the errors of the rejected topics.
        """
        mutations.refused = None
        now = yield []
        response = yield from remaining(refused.merge_in_slices(reply.response))
        merged = Reply(call.ticket, response, delivery=reply.delivery)
        return [self.process_response(call, merged, now)]

    def due(self, ticket: Ticket, now: float) -> Effects:  # noqa: ARG002
        if self._muted.get(ticket.connection) is not ticket:
            return []
        del self._muted[ticket.connection]
        return [Unmute(ticket)]

    def forget(self, ticket: Ticket) -> bool:
        self._mutations.pop(ticket, None)
        return False

    def forget_connection(self, number: int) -> None:
        self._limits.pop(number, None)
        if (ticket := self._muted.pop(number, None)) is not None:
            self._router.broker.deadlines.forget(StageDue(ticket))

    def _limits_of(self, call: Call[Any]) -> _Limits:
        """Return the quotas that apply to the client of a request.

        The quotas are cached for the connection. They are looked up again if the request has a new Client object,
        because the principal or the client id may have changed.

        ``call``: the request.
        """
        number, client, quotas = call.ticket.connection, call.client, self._router.broker.quotas
        known = self._limits.get(number)
        if known is not None and known.client is client:
            return known
        user = self._router.principal(number).removeprefix(USER_PREFIX)
        limits = {key: quotas.limit(key, user, client.client_id) for key in CLIENT_KEYS}
        by_key = {key: limit for key, limit in limits.items() if limit is not None}
        uses = {key: _Use(limit.value, quotas.rate(limit)) for key, limit in by_key.items() if key != MUTATION}
        if len(self._limits) >= CACHED:
            self._limits.clear()
        known = self._limits[number] = _Limits(
            client, by_key, uses.get(PRODUCER), uses.get(CONSUMER), uses.get(REQUEST)
        )
        return known

    def _most_fetched(self, consumer: _Use) -> int:
        """Return the maximum number of bytes in a Fetch response that the quota ``consumer`` allows."""
        return int(consumer.limit * self._router.broker.quotas.longest)

    # --- throttle times ---

    def process_response(self, call: Call[Any], response: Reply | NoReply, now: float) -> Reply | NoReply:
        """Count a request in the quotas of its client, and throttle the client if it exceeds a quota.

        Args:
            call: the request.
            response: the response, or NoReply for a request without a response.
            now: the broker's time in seconds.

        Returns:
            The response, with the errors of the topics that the mutation quota rejects. If the client exceeds a quota,
            a Reply has a throttle time, and the connection is muted for this time. A throttled Fetch response has no
            records.
        """
        ticket, seconds, size = call.ticket, 0.0, 0
        limits = self._limits.get(ticket.connection)
        if limits is None or limits.client is not call.client:
            limits = self._limits_of(call)
        key, request = ticket.api_key, limits.request
        if key == PRODUCE:
            if limits.producer is not None:
                seconds = limits.producer.rate.use(len(call.frame), limits.producer.limit, now)
        elif key == FETCH:
            if limits.consumer is not None and isinstance(response, Reply):
                response, size = _encoded(call, response)
                seconds = limits.consumer.rate.use(size, limits.consumer.limit, now)
        elif self._mutations and isinstance(response, Reply) and (counted := self._mutations.pop(call.ticket, None)):
            mutation = limits.by_key.get(MUTATION)
            body = self._with_refusals(call, response.response, counted, mutation, now)
            response = Reply(call.ticket, body, None, response.delivery)
            if mutation is not None and counted.throttles:
                seconds = self._router.broker.quotas.bucket(mutation).excess(now)
        if request is not None and isinstance(response, Reply):
            settings = self._settings
            excess = request.rate.use(settings.mockbroker_quota_request_us / US_PER_PERCENT, request.limit, now)
            if excess:
                seconds = max(seconds, min(excess, float(settings.quota_window_size_seconds)))
        if not seconds or (milliseconds := round(seconds * 1000)) <= 0:
            return response
        body = response.response if isinstance(response, Reply) else None
        if key == FETCH and body is not None:  # the records come later, and count then
            if limits.consumer is not None:
                limits.consumer.rate.record(-size, now)
            body = FetchResponse(session_id=call.request.session_id if call.request.session_epoch > 0 else 0)
        return self._muting(response, body, milliseconds, now)

    def _muting(self, effect: Reply | NoReply, response: Any, milliseconds: int, now: float) -> Reply | NoReply:
        """Mute a connection, and return a copy of its response. The copy of a Reply has the throttle time.

        A timer is set to unmute the connection after the throttle time.

        Args:
            effect: the response, or NoReply for a request without a response.
            response: the response body; None without a response.
            milliseconds: the throttle time in milliseconds.
            now: the broker's time in seconds.
        """
        ticket = effect.ticket
        self._muted[ticket.connection] = ticket
        self._router.broker.deadlines.set(StageDue(ticket), now + milliseconds / 1000)
        if isinstance(effect, NoReply):
            return replace(effect, mute=True)
        response = copy(response)  # it may be cached
        if hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = milliseconds
        return Reply(ticket, response, delivery=replace(effect.delivery or Delivery(), mute=True))

    # --- mutations ---

    def _count_mutations(
        self, call: Call[Any], limit: Limit, now: float
    ) -> Generator[None, None, Effects | Call[Any] | None]:
        """Take a token from the client's bucket for each partition that a request creates or deletes.

        In newer API versions (STRICT_SINCE), topics for which no tokens remain are rejected. The generator yields after
        a limited number of topics, so that other requests are handled in between.

        Args:
            call: the request.
            limit: the controller mutation quota.
            now: the broker's time in seconds.

        Returns:
            The request without the rejected topics, or the effects that send the error response if all topics are
            rejected.
        """
        key, bucket = ApiKey(call.ticket.api_key), self._router.broker.quotas.bucket(limit)
        strict = call.version >= STRICT_SINCE[key]
        mutations = self._mutations[call.ticket] = _Mutations(throttles=not strict)
        topics = _topics(call)
        refused = []
        for index, topic in enumerate(getattr(call.request, topics.request)):
            if index and index % SLICE == 0:
                yield
            cost = self._cost(key, topic)
            if strict and cost and bucket.tokens(now) < 0:
                refused.append(Element((topics.request, index), {}))
                continue
            bucket.take(cost, now)
            mutations.costs[_name(topic)] = cost
        if not refused:
            return call
        mutations.throttles = True
        injection = yield from ErrorInjection.in_slices(key, call.version, call.request, refused, CODE)
        rest = yield from injection.split_in_slices()
        if rest is None:
            return self.after(call, [Reply(call.ticket, injection.error_response())], now)
        mutations.refused = injection
        return replace(call, request=rest)

    def _cost(self, key: ApiKey, topic: Any) -> int:
        """Return the number of partitions that a topic of a request creates or deletes; 0 if the topic is not valid.

        Args:
            key: API key of the request.
            topic: the topic in the request.
        """
        broker = self._router.broker
        cluster = broker.cluster
        if key == ApiKey.CREATE_TOPICS:
            error = creation_error(cluster, broker.settings, broker.release, topic)
            return requested_partitions(broker.settings, topic) if error is None else 0
        if key == ApiKey.DELETE_TOPICS:
            known = cluster.topics.get(_name(topic)) or cluster.by_id.get(getattr(topic, "topic_id", ZERO_UUID))
            return 0 if known is None else len(known.partitions)
        known = cluster.topics.get(topic.name)
        return 0 if known is None else max(topic.count - len(known.partitions), 0)

    def _with_refusals(
        self, call: Call[Any], response: Any, mutations: _Mutations, limit: Limit | None, now: float
    ) -> Any:
        """Return the response with the errors of the topics that exceed the quota.

        The tokens of topics whose creation or deletion failed are put back into the bucket.

        Args:
            call: the request.
            response: the response of the handler.
            mutations: the partition mutations of the request.
            limit: the quota; None if it was removed while the request was handled.
            now: the broker's time in seconds.
        """
        if limit is not None:
            bucket = self._router.broker.quotas.bucket(limit)
            for result in getattr(response, _topics(call).response):
                if result.error_code:
                    bucket.take(-mutations.costs.get(_name(result), 0), now)
        return response if mutations.refused is None else mutations.refused.merge(response)


def _encoded(call: Call[Any], reply: Reply) -> tuple[Reply, int]:
    """Encode a response; return a copy that contains its bytes, and the size of these bytes plus LENGTH (length
    prefix).

    The copy is not encoded again when it is sent.

    Args:
        call: the request.
        reply: the response.
    """
    encoded = {} if reply.encoded is None else reply.encoded
    if call.version not in encoded:
        encoded[call.version] = encode(reply.response, call.version)
    return Reply(reply.ticket, reply.response, encoded, reply.delivery), LENGTH + len(encoded[call.version])


def _topics(call: Call[Any]) -> AnswerArray:
    """Return the array of topics in a request that mutates topics, paired with their results in the response."""
    (topics,) = answer_of(call.ticket.api_key, call.version).arrays
    return topics


def _name(topic: Any) -> Any:
    """Return the name of a topic in a request or response; the topic id if the topic has no name."""
    if isinstance(topic, str):
        return topic
    return topic.name if topic.name is not None else topic.topic_id
