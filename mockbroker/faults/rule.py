"""A fault rule as data: what it matches, how often it applies, and what happens then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

When: TypeAlias = Literal["before", "after"]

REQUEST, CONNECT = "request", "connect"  # what a rule is about: requests, or new connections


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The conditions of a rule; all that are given must hold. Texts are globs, except in ``api`` and ``where``.

    Attributes:
        on: REQUEST or CONNECT.
        api: Names of APIs; empty for every API that has the other conditions and the action.
        version: API versions, such as ``5-8``; "" for all.
        broker: Id of the broker that received the request or the connection.
        listener: Name of the listener.
        address: Address of the client; only for connections.
        client_id: The ``client.id`` of the request header.
        principal: The principal of the connection, such as ``User:alice``.
        group: Group id.
        member_id: Member id.
        instance_id: The ``group.instance.id``.
        topic: Name of a topic, also where the request has topic ids.
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
    """How often a rule applies. The steps are tried in this order, for each request that matches.

    Attributes:
        skip: The first matching requests are passed on.
        every: Of the others, the first and then every n-th one go to the next step.
        probability: Probability that such a request goes to the next step.
        seed: Seed of the random numbers, for the probability and for the jitter of a delay.
        times: Number of requests that the rule applies to; None for no limit.
    """

    skip: int = 0
    every: int = 1
    probability: float = 1.0
    seed: int = 0
    times: int | None = 1


# Of each action the first field is always in the JSON form, the others if they differ from their default.


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Wait before the request is processed, or before its response is sent.

    Attributes:
        delay_ms: Milliseconds of the broker's clock.
        jitter_ms: Upper bound of random milliseconds that are added to the delay.
        when: Before or after the request is processed.
    """

    delay_ms: int
    jitter_ms: int = 0
    when: When = "before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """Answer the matching elements with an error, and process the others.

    Attributes:
        error: Name of the error.
    """

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Disconnect:
    """Close the connection.

    Attributes:
        disconnect: Before the request is processed; after, without a response; or in the middle of the response.
        bytes: Bytes of the response that are sent first, with ``mid-response``; None for half of them.
        reset: Whether the connection is closed by a TCP reset.
    """

    disconnect: Literal["before", "after", "mid-response"]
    bytes: int | None = None
    reset: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Hold the request until it is released.

    Attributes:
        hold: Always True.
        when: Before the request is processed, or before its response is sent.
    """

    hold: bool = True
    when: When = "before"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoResponse:
    """Send nothing more on the connection.

    Attributes:
        no_response: Always True.
        when: Whether this request is processed (``after``) or not (``before``).
    """

    no_response: bool = True
    when: When = "before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """Throttle the client, as a quota does.

    Attributes:
        throttle_ms: The ``throttle_time_ms`` of the response, and how long the connection is muted.
    """

    throttle_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Respond:
    """Answer with a given response; the request is not processed.

    Attributes:
        respond: The response body in its JSON form; absent fields have their default.
    """

    respond: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """Send the response, or read the request, slowly.

    Attributes:
        bytes_per_second: Bytes in a second of the broker's clock.
        of: What is slow.
    """

    bytes_per_second: int
    of: Literal["response", "request"] = "response"


@dataclass(frozen=True, slots=True, kw_only=True)
class Malform:
    """Send a malformed response.

    Attributes:
        malform: A form of ``mockbroker.faults.malformed.FORMS``.
        parameters: Parameters of the form; an absent one has the default of the form.
    """

    malform: str
    parameters: Mapping[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """Evict the member that sent the request.

    Attributes:
        evict: Always True.
    """

    evict: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FailTls:
    """Break off the TLS handshake of a new connection.

    Attributes:
        fail_tls: Always True.
    """

    fail_tls: bool = True


Effect: TypeAlias = Error | Disconnect | Hold | NoResponse | Throttle | Respond | Bandwidth | Malform | Evict | FailTls


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What happens to a request that the rule applies to: a delay, one more effect, or both.

    Attributes:
        delay: The delay.
        effect: The effect beside the delay.
    """

    delay: Delay | None = None
    effect: Effect | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A fault rule.

    Attributes:
        name: Name, unique among the rules; "" until it is added.
        match: The requests or connections.
        occurrence: How often it applies.
        action: What happens.
    """

    name: str = ""
    match: Match = Match()
    occurrence: Occurrence = Occurrence()
    action: Action
