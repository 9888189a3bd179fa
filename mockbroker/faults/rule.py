"""Fault rules as data: the conditions of a rule, how often it is applied, and its action."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias

from kwire.lazy_dataclass import dataclass

When: TypeAlias = Literal["before", "after"]

REQUEST, CONNECT = "request", "connect"  # what a rule is about: requests, or new connections


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The conditions of a rule. All conditions that are set must hold.

    Texts are globs, except in ``on``, ``api``, ``version`` and ``where``.

    Attributes:
        on: REQUEST or CONNECT.
        api: Names of APIs; empty for every API to which the other conditions and the action can apply.
        version: API versions, such as ``5-8``; "" for all.
        broker: Id of the broker that received the request or the connection.
        listener: Name of the listener.
        address: Address of the client; only for connections.
        client_id: The ``client.id`` of the request header.
        principal: The principal of the connection, such as ``User:alice``.
        group: Group id.
        member_id: Member id.
        instance_id: The ``group.instance.id``.
        topic: Name of a topic, also if the request has topic ids.
        partition: Index of a partition.
        transactional_id: The ``transactional.id``.
        where: A filter over the request body, in the language of ``kwire capture --where``; "" for none.
    """

    on: str = REQUEST
    api: tuple[str, ...] = ()
    version: str = ""
    broker: int | None = None
    listener: str | None = None
    address: str | None = None
    client_id: str | None = None
    principal: str | None = None
    group: str | None = None
    member_id: str | None = None
    instance_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    transactional_id: str | None = None
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """The settings that limit how often a rule is applied. For each matching request, the attributes are evaluated in
    this order.

    Attributes:
        skip: Number of matching requests that are passed over first, without the fault.
        every: Interval n: of the requests after the skipped ones, the first and then every n-th may get the fault.
        probability: Probability, 0 to 1, that a request selected by ``skip`` and ``every`` gets the fault.
        seed: Seed of the random numbers, for ``probability`` and for the jitter of a delay.
        times: Maximum number of requests to which the rule is applied; None for no limit.
    """

    skip: int = 0
    every: int = 1
    probability: float = 1.0
    seed: int = 0
    times: int | None = 1


# Of each action the first field is always in the JSON form, the others if they differ from their default.


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """The action that waits before the request is processed, before its response is sent, or before a new connection is
    served.

    Attributes:
        delay_ms: The delay, in milliseconds of the broker's clock.
        jitter_ms: Maximum of a random time in milliseconds that is added to the delay.
        when: "before" to wait before the request is processed, "after" to wait before its response is sent.
    """

    delay_ms: int
    jitter_ms: int = 0
    when: When = "before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """The action that responds with an error to the matching elements of a request, such as partitions.

    All other elements are processed.

    Attributes:
        error: Name of the error.
    """

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Disconnect:
    """The action that closes the connection of the request, or a new connection.

    Attributes:
        disconnect: "before" to close the connection before the request is processed; "after" to close it after
            processing, without a response; "mid-response" to close it in the middle of the response.
        bytes: With "mid-response", number of bytes of the response that are sent before the close; None for half of the
            response.
        reset: Whether the connection is closed with a TCP reset.
    """

    disconnect: Literal["before", "after", "mid-response"]
    bytes: int | None = None
    reset: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """The action that holds a request, its response, or a new connection, until a test releases it or the rule ends.

    Attributes:
        hold: Always True.
        when: "before" to hold the request before it is processed, "after" to hold its response.
    """

    hold: bool = True
    when: When = "before"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoResponse:
    """The action that sends no response to a request, and no later response on its connection. The connection stays
    open. On a new connection, no request is answered.

    Attributes:
        no_response: Always True.
        when: "after" to process the request without sending its response, "before" not to process the request.
    """

    no_response: bool = True
    when: When = "before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """The action that throttles the client, as a quota does.

    Attributes:
        throttle_ms: The ``throttle_time_ms`` of the response in milliseconds; the connection is muted for this time.
    """

    throttle_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Respond:
    """The action that sends a given response. The request is not processed.

    Attributes:
        respond: The response body in its JSON form; absent fields have their default.
    """

    respond: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """The action that sends the response, or reads the request, slowly.

    Attributes:
        bytes_per_second: Bytes per second of the broker's clock.
        of: ``response`` to send the response slowly, ``request`` to read the request slowly.
    """

    bytes_per_second: int
    of: Literal["response", "request"] = "response"


@dataclass(frozen=True, slots=True, kw_only=True)
class Malform:
    """The action that sends a malformed response.

    Attributes:
        malform: Name of the form, a key of ``mockbroker.faults.malformed.FORMS``.
        parameters: Parameters of the form, by name; an absent parameter has the default of the form.
    """

    malform: str
    parameters: Mapping[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """The action that evicts the member that sent the request.

    Attributes:
        evict: Always True.
    """

    evict: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FailTls:
    """The action that aborts the TLS handshake of a new connection.

    Attributes:
        fail_tls: Always True.
    """

    fail_tls: bool = True


Effect: TypeAlias = Error | Disconnect | Hold | NoResponse | Throttle | Respond | Bandwidth | Malform | Evict | FailTls


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """The action of a rule, carried out for each request or connection to which the rule is applied: a delay, a fault,
    or both.

    Attributes:
        delay: The delay; None if the rule has none.
        effect: The fault in addition to the delay, such as an Error or a Disconnect; None if the rule only delays.
    """

    delay: Delay | None = None
    effect: Effect | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A fault rule, as data.

    Attributes:
        name: name, unique among the rules; "" for a name that is generated when the rule is added.
        match: conditions on requests or connections.
        occurrence: settings that limit how often the rule is applied.
        action: the fault.
    """

    name: str = ""
    match: Match = Match()
    occurrence: Occurrence = Occurrence()
    action: Action
