"""The stage of request processing that authorizes requests, after authentication and before the handlers.

A denied element of a request gets an error in the response, or is missing in the response. The remaining elements are
processed as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any, TypeVar

from kwire.apikeys import ApiKey
from mockbroker.authorizer import responses
from mockbroker.authorizer.authorization import Authorization
from mockbroker.authorizer.checks import CHECKS, Check
from mockbroker.authorizer.special import AFTER_CHECKS, BEFORE_CHECKS, SLICE
from mockbroker.base.effects import (
    Answer,
    AuthorizedCall,
    Call,
    Close,
    Effects,
    Reply,
    Steps,
    Ticket,
    begin,
    with_request,
)
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.session_cache import FINAL, INITIAL
from mockbroker.broker.router import Router
from mockbroker.broker.slices import chunks, copy_with
from mockbroker.broker.stages import Outcome, Stage, outcome_of, remaining
from mockbroker.security.acl import CLUSTER_NAME, Operation, ResourceType
from mockbroker.security.standard_authorizer import Access, StandardAuthorizer

R = TypeVar("R")
READ, WRITE, GROUP, TOPIC = Operation.READ, Operation.WRITE, ResourceType.GROUP, ResourceType.TOPIC


class AuthorizerStage(Stage):
    """The stage of request processing that applies the authorizer to the requests of all connections.

    Args:
        router: The router, which passes the allowed part of each request to its handler.
        authorizer: The authorizer of the router's broker.
    """

    def __init__(self, router: Router, authorizer: StandardAuthorizer) -> None:
        self._router = router
        self._authorizer = authorizer
        self._access: dict[int, Access] = {}  # by connection
        self._pending: dict[Ticket, Authorization] = {}

    def passes(self, call: Call[Any]) -> bool:
        ticket = call.ticket
        access = self._access.get(ticket.connection) or self._access_of(call)
        if access.is_super_user:
            return True
        is_allowed = FAST.get(ticket.api_key)
        return is_allowed is not None and is_allowed(access, call.request, self._router.broker)

    def before(self, call: Call[Any], now: float) -> Outcome:  # noqa: ARG002
        if self.passes(call):
            return None
        steps = self._authorize(Authorization(call, self._router.broker, self._access_of(call)))
        return outcome_of(call.ticket, steps)

    def after(self, call: Call[Any], effects: Effects, now: float) -> Effects:  # noqa: ARG002
        auth = self._pending.pop(call.ticket, None)
        if auth is None:
            return effects
        final: Effects = []
        for effect in effects:
            if isinstance(effect, Reply) and responses.is_large(auth, effect.response):
                final += begin(effect.ticket, _final_in_slices(auth, effect))
            elif isinstance(effect, Reply) and auth.has_many_denied:
                final += begin(effect.ticket, _merged_in_slices(auth, effect))
            else:
                final.append(_final(auth, effect))
        return final

    def forget(self, ticket: Ticket) -> bool:
        self._pending.pop(ticket, None)
        return False

    def forget_connection(self, number: int) -> None:
        self._access.pop(number, None)

    def _access_of(self, call: Call[Any]) -> Access:
        """Return the permissions of the client that sent a request.

        The permissions are looked up once for each connection, because the principal of a connection does not change.
        """
        number = call.ticket.connection
        access = self._access.get(number)
        if access is None:
            principal, host = self._router.principal(number), call.client.host.removeprefix("/")
            access = self._access[number] = self._authorizer.access_of(principal, host)
        return access

    def _authorize(self, auth: Authorization) -> Generator[None, None, Outcome]:
        """Apply all checks of the request's API to a request, and yield between slices (parts of limited size) of the
        work.

        Returns:
            The response if the whole request is denied. Otherwise the request to process: without denied elements, and
            as an AuthorizedCall if the handler needs the permissions. None to process the request unchanged.
        """
        key = auth.key
        if (special := BEFORE_CHECKS.get(key)) is not None and (answer := (yield from _run(special(auth)))) is not None:
            return answer
        for check in CHECKS[key]:
            if auth.version in check.versions and (answer := (yield from _check(auth, check))) is not None:
                return answer
        if (special := AFTER_CHECKS.get(key)) is not None and (answer := (yield from _run(special(auth)))) is not None:
            return answer
        if (adjust := responses.ADJUSTED.get(key)) is not None:
            auth.adjust.insert(0, partial(adjust, auth))
        if not auth.adjust and not auth.injections:
            return _authorized_call(auth) if key in WITH_TOPICS else None
        self._pending[auth.call.ticket] = auth
        return with_request(auth.call, auth.request, auth.refused)


def _run(answer: Effects | Generator[None, None, Effects | None] | None) -> Generator[None, None, Effects | None]:
    """Return the effects of an authorization function of ``special.py``; None if the function has not denied the whole
    request.

    ``answer``: the result of the function. If it is a generator, run the generator to its end, and yield when it
    yields.
    """
    if isinstance(answer, Generator):
        answer = yield from answer
    return answer


def _authorized_call(auth: Authorization) -> Outcome:
    """Return the request as an AuthorizedCall, whose functions check which topics the client may describe, create and
    read.
    """
    call = auth.call
    return AuthorizedCall(
        call.ticket,
        call.client,
        call.request,
        call.frame,
        may_describe=auth.describes,
        may_create=auth.creates,
        may_read=auth.reads,
    )


def _check(auth: Authorization, check: Check) -> Generator[None, None, Effects | None]:
    if check.or_cluster is not None and auth.allows_cluster(check.or_cluster):
        return None
    if check.resource is ResourceType.CLUSTER:
        allowed = auth.access.allows(check.operation, ResourceType.CLUSTER, CLUSTER_NAME)
        return None if allowed else auth.deny_all(check.error, check.operation)
    denied = set()
    for number, name in enumerate(auth.names(check), 1):
        if not auth.access.allows(check.operation, check.resource, name):
            denied.add(name)
        if not number % SLICE:
            yield
    return (yield from auth.deny_names(check, frozenset(denied))) if denied else None


def _final(auth: Authorization, effect: Any) -> Any:
    """Return one effect of a request. If the effect is the response, add the errors of the denied elements.

    If a request without a response (Produce with acks=0) has denied elements, return the effect that closes the
    connection.
    """
    if isinstance(effect, Reply):
        response = auth.final(effect.response)
        return effect if response is effect.response else Reply(effect.ticket, response, delivery=effect.delivery)
    if isinstance(effect, Answer) and auth.injections and not isinstance(effect, Close):
        reason = "authorization failed in a request without response"
        return Close(effect.ticket, reason)
    return effect


def _merged_in_slices(auth: Authorization, reply: Reply) -> Steps:
    """Add the errors of many denied elements to a response, and yield between slices (parts of limited size) of the
    work.

    Args:
        auth: The authorization of the request.
        reply: The response of the handler to the request without the denied elements.
    """
    yield []
    response = yield from remaining(auth.final_in_slices(reply.response))
    return [Reply(reply.ticket, response, delivery=reply.delivery)]


def _final_in_slices(auth: Authorization, reply: Reply) -> Steps:
    """Adapt a large response to the client's permissions: first its elements in slices, and then its other fields.

    Args:
        auth: The authorization of the request.
        reply: The response of the handler.
    """
    adjust, field = responses.ADJUSTED[auth.key], responses.LISTS[auth.key]
    items = getattr(reply.response, field)
    adjusted: list[Any] = []
    part: Any = None
    for chunk in chunks(items, responses.SLICE):
        part = adjust(auth, copy_with(reply.response, **{field: chunk}))
        adjusted += getattr(part, field)
        yield []
    del auth.adjust[0]
    return [Reply(reply.ticket, auth.final(copy_with(part, **{field: adjusted})), delivery=reply.delivery)]


def _is_group_allowed(access: Access, request: Any, _: Broker) -> bool:
    return access.allows(READ, GROUP, request.group_id)


def _is_fetch_allowed(access: Access, request: Any, broker: Broker) -> bool:
    """Return whether the client has READ on all topics of a full Fetch; False for an incremental Fetch.

    A full Fetch opens or ends a fetch session, or uses none.
    """
    if request.session_epoch not in (INITIAL, FINAL) or request.forgotten_topics_data:
        return False
    for topic in request.topics:
        known = None if topic.topic else broker.cluster.by_id.get(topic.topic_id)
        name = topic.topic if known is None else known.name
        if not name or not access.allows(READ, TOPIC, name):
            return False
    return True


def _is_produce_allowed(access: Access, request: Any, _: Broker) -> bool:
    return request.transactional_id is None and all(
        topic.name and access.allows(WRITE, TOPIC, topic.name) for topic in request.topic_data
    )


WITH_TOPICS = frozenset(
    {ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.STREAMS_GROUP_HEARTBEAT}
)
FAST: Mapping[
    int, Callable[[Access, Any, Broker], bool]
] = {  # frequent requests, checked without an Authorization; one that is not allowed is checked again
    ApiKey.FETCH: _is_fetch_allowed,
    ApiKey.HEARTBEAT: _is_group_allowed,
    ApiKey.PRODUCE: _is_produce_allowed,
}
