"""The keyword arguments of fault rules, and their JSON form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

from mockbroker.api.fault_names import ApiName, ErrorName, MalformName


class Occurrence(TypedDict, total=False):
    """The keyword arguments that limit how often a rule applies.

    The conditions ``skip``, ``every``, ``probability`` and ``times`` are tested in this order for each request that
    matches.

    Attributes:
        skip: Number of matching requests at the beginning to which the rule does not apply.
        every: Interval n. After the skipped requests, the rule can apply to the first matching request, and then to
            every n-th.
        probability: Probability, from 0 to 1, that the rule applies to a request that ``skip`` and ``every`` have let
            through.
        seed: Seed of the random numbers, for ``probability`` and ``jitter_ms``.
        times: Number of requests that the rule applies to (1 if absent), or ``"always"``.
    """

    skip: int
    every: int
    probability: float
    seed: int
    times: int | Literal["always"]


class RequestConditions(Occurrence, total=False):
    """The conditions of a rule about requests. All given conditions must hold.

    Texts may contain the wildcards ``*`` and ``?``, except in ``version``, ``where`` and ``name``.

    Attributes:
        version: API versions, such as ``"5-8"``.
        broker: Id of the broker that receives the request.
        listener: Name of the listener.
        client_id: The ``client.id`` of the request header.
        group: Group id.
        member_id: Member id.
        instance_id: The ``group.instance.id``.
        topic: Topic name, also for requests with topic ids.
        partition: Index of a partition.
        transactional_id: The ``transactional.id``.
        principal: The principal of the connection, such as ``User:alice``.
        where: Expression over the fields of the request, in the language of ``kwire capture --where``.
        name: Name of the rule; generated if absent.
        optional: True if the test may pass although the rule is never applied. Otherwise, the pytest fixture fails such
            a test.
    """

    version: str
    broker: int
    listener: str
    client_id: str
    group: str
    member_id: str
    instance_id: str
    topic: str
    partition: int
    transactional_id: str
    principal: str
    where: str
    name: str
    optional: bool


class RuleOptions(RequestConditions, total=False):
    """The keyword arguments of ``add``: conditions, occurrence and one action.

    Attributes:
        api: Kafka's name of an API, or several names; without it, every API to which the rule can apply.
        on: ``"connect"`` for a rule about new connections; absent for a rule about requests.
        address: Address of the client, for a rule about new connections.
        error: Name of the error that is returned for the matching elements of the request.
        delay_ms: Delay in milliseconds of the broker's clock. A rule may have ``delay_ms`` and one further action.
        jitter_ms: Upper bound, in milliseconds, of a random time that is added to ``delay_ms``.
        when: ``"before"`` to delay, hold or drop the request before it is processed; ``"after"`` to do this with the
            response. For ``delay_ms``, ``hold`` and ``no_response``.
        disconnect: ``"before"`` or ``"after"`` to close the connection before or after the request is processed,
            ``"mid-response"`` to close it in the middle of the response.
        bytes: Number of bytes of the response that are sent first, with ``disconnect="mid-response"``.
        reset: Whether the connection is closed by a TCP reset.
        hold: Hold the request until ``release`` is called.
        no_response: Send no response to the request, and do not process later requests of the connection.
        throttle_ms: Throttle time in the response, in milliseconds; the connection is muted for this time.
        respond: Body of the response in JSON form; absent fields have their default.
        bytes_per_second: Rate at which the response is sent, or the request is read.
        of: ``"response"`` or ``"request"``: whether ``bytes_per_second`` limits the sending of the response or the
            reading of the request.
        malform: Kind of malformed response, as docs/faults.md lists them.
        parameters: Parameters of this kind of malformed response.
        evict: Evict the member that has sent the request.
        fail_tls: Abort the TLS handshake of a new connection.
    """

    api: ApiName | Sequence[ApiName]
    on: Literal["connect"]
    address: str
    error: ErrorName
    delay_ms: int
    jitter_ms: int
    when: Literal["before", "after"]
    disconnect: Literal["before", "after", "mid-response"]
    bytes: int
    reset: bool
    hold: Literal[True]
    no_response: Literal[True]
    throttle_ms: int
    respond: Mapping[str, Any]
    bytes_per_second: int
    of: Literal["response", "request"]
    malform: MalformName
    parameters: Mapping[str, int | str]
    evict: Literal[True]
    fail_tls: Literal[True]


RuleGiven: TypeAlias = RuleOptions | Mapping[str, Any]  # keyword arguments of ``add``, or the JSON form of a rule


class PresetParameters(TypedDict, total=False):
    """The parameters of presets; docs/presets.md lists the parameters of each preset.

    All times are measured by the broker's clock.

    Attributes:
        name: Name of the rule, or the start of the names of the rules.
        times: Number of requests that each rule applies to, or ``"always"``.
        duration_ms: Milliseconds after which the rules no longer apply, and the requests that they hold or delay are
            released.
        group: Group id, with the wildcards ``*`` and ``?``.
        client_id: Client id, with wildcards.
        topic: Name of the topic, with wildcards except in ``unclean-leader-election``.
        transactional_id: Transactional id, with wildcards.
        partition: Index of the partition.
        broker: Id of the broker.
        every: Interval n: the response to every n-th heartbeat contains the error.
        form: Kind of malformed record batch.
        count: How many more times the record batches are sent.
        id: Schema id.
        point: What is lost: the first EndTxn request, or its response.
        throttle_ms: Milliseconds of each throttle.
        delay_ms: Milliseconds of each delay.
        jitter_ms: Upper bound of random milliseconds that are added.
        down_ms: Milliseconds for which a broker is stopped.
        pause_ms: Milliseconds until the next broker is stopped.
        records: Number of records that are lost.
    """

    name: str
    times: int | Literal["always"]
    duration_ms: int
    group: str
    client_id: str
    topic: str
    transactional_id: str
    partition: int
    broker: int
    every: int
    form: Literal["crc", "magic", "record_count", "decompression_bomb"]
    count: int
    id: int
    point: Literal["before", "after"]
    throttle_ms: int
    delay_ms: int
    jitter_ms: int
    down_ms: int
    pause_ms: int
    records: int


OCCURRENCE = frozenset(Occurrence.__annotations__)
MATCH = frozenset(RequestConditions.__annotations__) - OCCURRENCE - {"name", "optional"} | {"api", "on", "address"}


def rule_form(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON form of a fault rule: a dict with the keys ``match``, ``occurrence``, ``action``, and ``name`` if
    given.

    ``options``: keyword arguments of ``faults.add``, without ``optional``.
    """
    form: dict[str, Any] = {"match": {}, "occurrence": {}, "action": {}}
    for key, value in options.items():
        if key == "name":
            form["name"] = value
        elif key == "parameters":
            form["action"] |= value
        else:
            section = "occurrence" if key in OCCURRENCE else "match" if key in MATCH else "action"
            form[section][key] = list(value) if isinstance(value, tuple) else value
    return form


def split_given(given: RuleGiven) -> tuple[object, bool]:
    """Return the JSON form of a fault rule, and whether the rule is optional.

    An optional rule may remain unapplied without failing the test. If ``given`` is not a mapping, it is returned
    unchanged, for the parser of rules to reject.

    Args:
        given: keyword arguments of ``add``, such as ``{"api": "Heartbeat", "error": "UNKNOWN_MEMBER_ID"}``; or a rule
            in JSON form, with the key ``match`` or ``action``. In both cases, the key ``optional`` is allowed.
    """
    if not isinstance(given, Mapping):
        return given, False  # refused by parse_rule
    options = dict(given)
    optional = bool(options.pop("optional", False))
    return (options if "match" in options or "action" in options else rule_form(options)), optional
