"""The quotas of a cluster by entity, and their use by clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import fmod, isfinite

from kwire.lazy_dataclass import dataclass
from mockbroker.quotas.entity import CLIENT_ID, IP, USER, Default, Entity, candidates
from mockbroker.quotas.rates import TokenBucket, WindowedRate

PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
REQUEST, MUTATION, CONNECTION = "request_percentage", "controller_mutation_rate", "connection_creation_rate"
CLIENT_KEYS = (PRODUCER, CONSUMER, REQUEST, MUTATION)
MAX_VALUES = {  # quotas without fractions: the Java type of the value, with its article, and the maximum
    PRODUCER: ("a LONG", float(2**63)),  # as Kafka, which compares with Long.MAX_VALUE as a double
    CONSUMER: ("a LONG", float(2**63)),
    CONNECTION: ("an INT", float(2**31 - 1)),
}
MAX_FRACTION = 1e-6  # fraction that a value without fractions may have
MAX_ENTITIES = 10_000  # entities with quotas in a cluster, and clients whose use is remembered


class QuotaError(ValueError):
    """The error for quotas that are not valid. The message is Kafka's."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The quota that applies to a client.

    Attributes:
        key: name of the quota, such as ``producer_byte_rate``.
        value: the limit: bytes, partition mutations or connections per second, or percent of one thread's time,
            depending on ``key``; a finite number.
        shared_by: the entity whose clients share the quota.
    """

    key: str
    value: float
    shared_by: Entity


class ClientQuotas:
    """The quotas of a cluster. Source: Kafka's ClientQuotaControlManager and ClientQuotaManager.

    Args:
        quotas: entity -> quota key -> limit; ``alter`` changes this dictionary.
        windows: number of time windows of a rate (``quota.window.num``).
        window: length of a window in seconds (``quota.window.size.seconds``).
        burst_seconds: time in seconds whose quota of partition mutations a client may use at once:
            ``controller.quota.window.num`` times ``controller.quota.window.size.seconds``.

    Attributes:
        quotas: entity -> quota key -> limit.
        changed: functions without arguments that ``alter`` calls after each change.
        on_eviction: function without arguments that is called after the oldest measured rate was removed to keep to the
            limit of MAX_ENTITIES rates.
    """

    def __init__(
        self, quotas: dict[Entity, dict[str, float]], windows: int, window: float, burst_seconds: float
    ) -> None:
        self._windows = windows
        self._window = window
        self._burst_seconds = burst_seconds
        self.quotas = quotas
        self.changed: list[Callable[[], object]] = []
        self.on_eviction: Callable[[], object] = lambda: None
        self._rates: dict[tuple[str, Entity], WindowedRate] = {}
        self._buckets: dict[Entity, TokenBucket] = {}

    @property
    def longest(self) -> float:
        """The length of all windows but one, in seconds: the minimum time over which a rate is averaged."""
        return (self._windows - 1) * self._window

    def alter(self, entity: Entity, changes: Mapping[str, float | None], *, validate_only: bool) -> None:
        """Set or remove quotas of an entity.

        Unless ``validate_only`` is True, the token buckets of all entities are then full again, and the functions in
        ``changed`` are called.

        Args:
            entity: a user, a client id, both, or an address, whose quotas are changed.
            changes: new limits by quota key; None removes the quota.
            validate_only: True to check the changes without applying them.

        Raises: QuotaError if a change is not valid, or too many entities would have quotas. After an error, no quota
        has changed.
        """
        for key, value in changes.items():
            _check(entity, key, value)
        if entity not in self.quotas and len(self.quotas) >= MAX_ENTITIES:
            raise QuotaError(
                f"{MAX_ENTITIES} entities have quotas, which is the limit: remove the quotas of an entity first"
            )
        if validate_only:
            return
        quotas = self.quotas.setdefault(entity, {})
        for key, value in changes.items():
            if value is None:
                quotas.pop(key, None)
            else:
                quotas[key] = value
        if not quotas:
            del self.quotas[entity]
        self._buckets.clear()  # their rates may have changed
        for function in self.changed:
            function()

    def limit(self, key: str, user: str, client_id: str) -> Limit | None:
        """Return the quota that applies to a client; None if no quota applies.

        A quota of NaN or Infinity is never exceeded, and applies instead of less specific quotas.

        Args:
            key: name of the quota.
            user: name of the user, without ``User:``.
            client_id: the ``client.id``.
        """
        for entity, shared_by in candidates(user, client_id):
            value = self.quotas.get(entity, {}).get(key)
            if value is not None:
                return Limit(key, value, shared_by) if isfinite(value) else None
        return None

    def rate(self, limit: Limit) -> WindowedRate:
        """Return the measured rate of all clients that share a quota (``limit``). The rate is created on first use."""
        known = self._rates.get((limit.key, limit.shared_by))
        if known is None:
            if len(self._rates) >= MAX_ENTITIES:
                del self._rates[next(iter(self._rates))]
                self.on_eviction()
            known = self._rates[limit.key, limit.shared_by] = WindowedRate(self._windows, self._window)
        return known

    def bucket(self, limit: Limit) -> TokenBucket:
        """Return the token bucket of a controller mutation quota (``limit``).

        The clients of the entity ``limit.shared_by`` share the bucket. It is created on first use, with all tokens. A
        token is one partition mutation.
        """
        known = self._buckets.get(limit.shared_by)
        if known is None:
            if len(self._buckets) >= MAX_ENTITIES:
                del self._buckets[next(iter(self._buckets))]
            known = self._buckets[limit.shared_by] = TokenBucket(limit.value, limit.value * self._burst_seconds)
        return known


def keys_of(entity: Entity) -> tuple[str, ...]:
    """Return the quota keys that an entity may have."""
    return CLIENT_KEYS if entity.ip is None else (CONNECTION,)


def check_entity(names: Mapping[str, str | Default]) -> None:
    """Check the entity types and names of an entity. ``names``: name by entity type.

    Raises: QuotaError if the types or names are not valid.
    """
    if not names:
        raise QuotaError("Invalid empty client quota entity")
    for entity_type, name in names.items():
        if entity_type not in (USER, CLIENT_ID, IP):
            raise QuotaError(f"Unhandled client quota entity type: {entity_type}")
        if name == "":
            raise QuotaError(f"Empty {entity_type} not supported")
    if IP in names and len(names) > 1:
        raise QuotaError("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")


def _check(entity: Entity, key: str, value: float | None) -> None:
    if key not in keys_of(entity):
        raise QuotaError(f"Invalid configuration key {key}")
    if isinstance(entity.ip, str) and not _is_address(entity.ip):
        raise QuotaError(f"{entity.ip} is not a valid IP or resolvable host.")
    if value is None:
        return
    if value <= 0:
        raise QuotaError(f"Quota {key} must be greater than 0")
    if key not in MAX_VALUES:
        return
    kind, most = MAX_VALUES[key]
    if value > most:
        raise QuotaError(f"Proposed value for {key} is too large for {kind}.")
    if fmod(value, 1) > MAX_FRACTION:
        raise QuotaError(f"{key} cannot be a fractional value.")


def _is_address(text: str) -> bool:
    from ipaddress import ip_address  # on demand: only quotas of addresses need it

    try:
        ip_address(text)
    except ValueError:
        return text == "localhost"
    return True


def matching(
    quotas: Mapping[Entity, Mapping[str, float]], parts: Mapping[str, str | Default | None], *, strict: bool
) -> Iterator[tuple[Entity, Mapping[str, float]]]:
    """Yield the entities that match a filter of DescribeClientQuotas, with their quotas.

    Args:
        quotas: entity -> quota key -> limit.
        parts: the filter: entity type -> required name; None matches any name, including the default. An entity that
            lacks one of these types does not match.
        strict: True to yield only entities whose entity types are all in ``parts``.
    """
    for entity, limits in quotas.items():
        names = dict(entity.names())
        if strict and names.keys() - parts.keys():
            continue
        if all(kind in names and wanted in (None, names[kind]) for kind, wanted in parts.items()):
            yield entity, limits
