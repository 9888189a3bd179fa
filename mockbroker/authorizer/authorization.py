"""The authorization of one request.

The request is split into an allowed part and denied elements. The response gets an error for each denied element.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any, TypeAlias
from uuid import UUID

from kwire import ErrorCode
from kwire.apikeys import ApiKey
from kwire.lazy_dataclass import dataclass
from kwire.schema import ZERO_UUID
from mockbroker.authorizer.checks import TERMS, Check
from mockbroker.base.effects import Call, Close, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import copy_with
from mockbroker.faults.error_fields import ERROR_TEXT
from mockbroker.faults.errors import ErrorInjection, finished
from mockbroker.faults.identifiers import TOPIC, Identifier, Level, request_level
from mockbroker.faults.lookups import share_session_partitions
from mockbroker.faults.matching import WHOLE_REQUEST, Element, Lookups, Subject, elements_naming
from mockbroker.security.acl import CLUSTER_NAME, Operation, ResourceType
from mockbroker.security.standard_authorizer import Access

# The text beside an error, in APIs that have one.
TEXTS: Mapping[int, str] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
WITH_DEFAULT_TEXT = frozenset(
    {
        ApiKey.FIND_COORDINATOR,
        ApiKey.DELETE_TOPICS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    }
)
WITHOUT_OPERATION = frozenset(  # APIs whose text does not name the operation
    {ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.DESCRIBE_QUORUM, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER}
)
# Fields beside an error of authorization, where they differ from those beside other errors.
BESIDE: Mapping[int, Mapping[str, Any]] = {
    ApiKey.JOIN_GROUP: {"member_id": ""},
}
BATCHED_COORDINATORS_SINCE = 4  # FindCoordinator, without texts of errors


Steps: TypeAlias = Generator[None, None, Effects | None]  # in slices, for requests that may be large


@dataclass(slots=True)
class Authorization:
    """The authorization of one request.

    Attributes:
        call: The request as received.
        broker: The state of the cluster.
        access: The permissions of the client on all resources.
        request: The request without the elements that have been denied so far.
        injections: The errors of the denied elements, to be added to the response.
        adjust: Functions that adapt the response of the handler to the client's permissions. Each function returns the
            response itself or a changed copy. It never modifies the response, which may be cached.
    """

    call: Call[Any]
    broker: Broker
    access: Access
    request: Any = field(init=False)
    injections: list[ErrorInjection] = field(default_factory=list)
    adjust: list[Callable[[Any], Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.request = self.call.request

    @property
    def key(self) -> int:
        return self.call.ticket.api_key

    @property
    def version(self) -> int:
        return self.call.ticket.version

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return the name of the topic with an id; None if no topic has this id."""
        topic = self.broker.cluster.by_id.get(topic_id)
        return None if topic is None else topic.name

    def allows_cluster(self, operation: Operation) -> bool:
        """Return whether the client may perform an operation on the resource CLUSTER."""
        return self.access.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def describes(self, topic: str) -> bool:
        """Return whether the client has DESCRIBE on a topic."""
        return self.access.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic)

    def reads(self, topic: str) -> bool:
        """Return whether the client has READ on a topic."""
        return self.access.allows(Operation.READ, ResourceType.TOPIC, topic)

    def creates(self, topic: str) -> bool:
        """Return whether the client may create a topic: CREATE on the topic or on the cluster."""
        return self.allows_cluster(Operation.CREATE) or self.access.allows(Operation.CREATE, ResourceType.TOPIC, topic)

    def names(self, check: Check) -> Iterator[str]:
        """Yield the names of the resources in the request that have the type of a check, such as the topic names."""
        term = TERMS[check.resource]
        if term == TOPIC and (partitions := self._session_partitions()) is not None:
            yield from dict.fromkeys(name for name, _ in partitions)
            return
        yield from self._names(request_level(self.key, self.version), self.request, term)

    def _session_partitions(self) -> list[tuple[str, int]] | None:
        """Return topic and index of the partitions that a ShareFetch in a share session reads; None for other requests.

        Kafka checks the permissions on all partitions of the session in each request.
        """
        return share_session_partitions(self.broker, self.call) if self.key == ApiKey.SHARE_FETCH else None

    @property
    def refused(self) -> dict[tuple[UUID, int], ErrorCode]:
        """The errors of the denied partitions of a ShareFetch, by topic id and index; empty for other requests."""
        return {partition: error for each in self.injections for partition, error in each.refused.items()}

    def deny_names(self, check: Check, denied: frozenset[str]) -> Steps:
        """Deny the elements of the request that name a denied resource. Yield between slices (parts of limited size) of
        the work.

        Args:
            check: the check that has denied the resources; it determines the type of the resources and the error.
            denied: names of the denied resources.

        Returns:
            The response if no element of the request remains, else None. The result is None too for an OffsetDelete
            whose topics are all denied, because the state of its group must still be checked.
        """
        call = replace(self.call, request=self.request)
        lookups = Lookups(topic_name=self.topic_name, fetch_partitions=lambda _: self._session_partitions())
        subject = Subject(call, lookups)
        return (yield from self.deny(elements_naming(subject, TERMS[check.resource], denied), check.error))

    def deny_all(self, error: ErrorCode, operation: Operation | None = None) -> Effects:
        """Deny the whole request. Return the response; for a Produce with acks=0, return the effect that closes the
        connection.

        Args:
            error: error code for all elements of the request.
            operation: the operation that the client needs, for the error message; None for no message.
        """
        has_text = self.key not in WITHOUT_OPERATION
        text = f"Request {ApiKey(self.key).name} needs {operation.name} permission." if operation and has_text else None
        return self._reply(finished(self._injection([WHOLE_REQUEST], error, text)).error_response())

    def deny(self, elements: Iterable[Element], error: ErrorCode, text: str | None = None) -> Steps:
        """Deny some elements of the request. Yield between slices (parts of limited size) of the work.

        Args:
            elements: the elements to deny.
            error: error code of the elements in the response.
            text: error message; None for the usual message of the API.

        Returns:
            The response if no element of the request remains, else None. The result is None too for an OffsetDelete
            whose topics are all denied, because the state of its group must still be checked.
        """
        injection = yield from self._injection(elements, error, text)
        rest = yield from injection.split_in_slices()
        if rest is None and self.key == ApiKey.OFFSET_DELETE and error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            rest = copy_with(self.request, topics=[])  # the state of the group is checked all the same
        if rest is None:
            return self._reply(injection.error_response())
        self.request = rest
        self.injections.append(injection)
        return None

    def _injection(
        self, elements: Iterable[Element], error: ErrorCode, text: str | None
    ) -> Generator[None, None, ErrorInjection]:
        lookups = Lookups(topic_name=self._visible_name, topic_id=self._topic_id)
        beside = {**BESIDE.get(self.key, {}), ERROR_TEXT: self._text(error) if text is None else text}
        request, version = self.request, self.version
        return (yield from ErrorInjection.in_slices(self.key, version, request, elements, error, lookups, beside))

    @property
    def has_many_denied(self) -> bool:
        """Whether so many elements are denied that the response must be built in slices."""
        return any(injection.is_large for injection in self.injections)

    def final(self, response: Any) -> Any:
        """Return the response to the whole request: the handler's response, with an error for each denied element.

        ``response``: the response of the handler to the request without the denied elements.
        """
        return finished(self.final_in_slices(response))

    def final_in_slices(self, response: Any) -> Generator[None, None, Any]:
        """Do the work of ``final`` in slices (parts of limited size), and yield between two slices.

        The generator returns the result of ``final``.

        ``response``: the response of the handler to the request without the denied elements.
        """
        for adjust in self.adjust:
            response = adjust(response)
        for injection in reversed(self.injections):
            response = yield from injection.merge_in_slices(response)
        return self._completed(response) if self.injections else response

    def _completed(self, response: Any) -> Any:
        """Return a copy of the response with the fields that Kafka sets also for denied elements, such as topic ids.

        If no field must be set, return the response itself.
        """
        if self.key == ApiKey.ALTER_SHARE_GROUP_OFFSETS:
            topics = [
                copy_with(topic, topic_id=self._topic_id(topic.topic_name) or ZERO_UUID) for topic in response.responses
            ]
            return copy_with(response, responses=topics)
        return response

    def _reply(self, response: Any) -> Effects:
        for injection in reversed(self.injections):
            response = injection.merge(response)
        if self.key == ApiKey.PRODUCE and self.call.request.acks == 0:
            return [Close(self.call.ticket, "authorization failed in a Produce with acks=0, which has no response")]
        return [Reply(self.call.ticket, self._completed(response))]

    def _names(self, level: Level, struct: Any, term: str) -> Iterator[str]:
        for identifier in level.identifiers:
            if identifier.term == term and (name := self._name(identifier, struct, getattr(struct, identifier.field))):
                yield name
        for batch in level.batches:
            if term not in batch.terms:
                continue
            for item in getattr(struct, batch.field) or ():
                if isinstance(batch.elements, Level):
                    yield from self._names(batch.elements, item, term)
                    continue
                for identifier in batch.elements:
                    if identifier.term == term and (name := self._name(identifier, struct, item)):
                        yield name

    def _name(self, identifier: Identifier, struct: Any, value: Any) -> str | None:
        """Return the name of the resource that a field of the request identifies; None if it identifies no resource.

        Args:
            identifier: declaration of the field. Its ``type_field`` names the field with the resource type, if the
                struct has one.
            struct: the struct that contains the field.
            value: the value of the field.
        """
        if identifier.type_field and getattr(struct, identifier.type_field) != identifier.type_number:
            return None
        if identifier.kind == "uuid":
            return None if value == ZERO_UUID else self.topic_name(value)
        name: str | None = value
        return name

    def _visible_name(self, topic_id: UUID) -> str | None:
        """Return the name of the topic with an id; None if no topic has this id, or the client lacks DESCRIBE on the
        topic.
        """
        name = self.topic_name(topic_id)
        return name if name is not None and self.describes(name) else None

    def _topic_id(self, name: str) -> UUID | None:
        topic = self.broker.cluster.topics.get(name)
        return None if topic is None else topic.topic_id

    def _text(self, error: ErrorCode) -> str | None:
        if self.key == ApiKey.CREATE_TOPICS:
            return "Authorization failed."
        is_of_topic = error == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        is_topic_of_group = self.key == ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS and is_of_topic
        if self.key not in WITH_DEFAULT_TEXT and not is_topic_of_group:
            return None
        is_batched = self.key == ApiKey.FIND_COORDINATOR and self.version >= BATCHED_COORDINATORS_SINCE
        return "" if is_batched and error != ErrorCode.CLUSTER_AUTHORIZATION_FAILED else TEXTS[error]
