"""The clients that push metrics, and the metrics that the broker requests from each (KIP-714).

Source: Kafka's ClientMetricsManager and ClientMetricsInstance (4.2). Kafka removes a client instance after a long time
without use. Here, the least recently used instance is removed if there are more than MAX_INSTANCES.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from math import inf
from uuid import UUID

from kwire import ErrorCode
from kwire.java import bucket_order, string_hash, uuid_hash
from kwire.json.objects import uuid_text
from kwire.lazy_dataclass import dataclass
from kwire.records.checksum import crc32c
from kwire.records.compression import GZIP, LZ4, SNAPPY, ZSTD
from mockbroker.topics import client_metrics_configs
from mockbroker.topics.client_metrics_configs import DEFAULT_INTERVAL_MS

MAX_INSTANCES = 16_384  # of clients, as in Kafka; the one that was unused for the longest time is removed
MAX_SOFTWARE = 20_000  # connections whose client software is remembered
ALL_METRICS = "*"
ZERO, ONE = UUID(int=0), UUID(int=1)
RESERVED = ZERO, ONE  # ids that no client instance may have
ACCEPTED_COMPRESSION = ZSTD, LZ4, GZIP, SNAPPY  # in the order of preference
UNCOMPRESSED = 0
ASK_AGAIN = ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@dataclass(slots=True, kw_only=True)
class ClientInstance:
    """A client that pushes metrics.

    Attributes:
        instance_id: id of the client instance.
        version: version number of the subscriptions from which ``metrics`` and ``push_interval_ms`` were calculated.
        metrics: prefixes of the requested metrics, in Kafka's order.
        push_interval_ms: time between two pushes, in milliseconds.
        last_get: time of the last GetTelemetrySubscriptions that did not come too early, in seconds.
        last_push: time of the last PushTelemetry that did not come too early, in seconds.
        last_error: error of the last request that was neither throttled nor rejected with INVALID_REQUEST.
        terminating: whether the client has announced its last push.
    """

    instance_id: UUID
    version: int
    metrics: list[str]
    push_interval_ms: int
    last_get: float = -inf
    last_push: float = -inf
    last_error: ErrorCode = ErrorCode.NONE
    terminating: bool = False

    @property
    def subscription_id(self) -> int:
        """The id of the requested metrics and interval, a signed 32-bit number. It depends on the instance id too."""
        text = f"[{', '.join(self.metrics)}]{self.push_interval_ms}"
        return _int32(crc32c(text.encode("utf-8", "surrogateescape")) ^ uuid_hash(self.instance_id))

    def accepts_get(self, now: float) -> bool:
        """Return whether a GetTelemetrySubscriptions is accepted; False if it must be throttled.

        A request comes too early if less than the push interval has passed since ``last_get`` or ``last_push``. It is
        throttled, unless the last error makes the client request its subscriptions again.

        An accepted request resets ``last_error`` and ``terminating``. If it does not come too early, it also sets
        ``last_get``.

        ``now``: the broker's time in seconds.
        """
        is_early = now - max(self.last_get, self.last_push) < self.push_interval_ms / 1000
        if is_early and self.last_error not in ASK_AGAIN:
            return False
        if not is_early:
            self.last_get = now
        self.last_error, self.terminating = ErrorCode.NONE, False
        return True

    def accepts_push(self, now: float) -> bool:
        """Return whether a PushTelemetry is accepted, and set ``last_push``; False if it must be throttled.

        A push is throttled if less than the push interval has passed since the last accepted push. The first push after
        a GetTelemetrySubscriptions is always accepted, because clients choose its time at random.

        ``now``: the broker's time in seconds.
        """
        if self.last_get <= self.last_push and now - self.last_push < self.push_interval_ms / 1000:
            return False
        self.last_push = now
        return True


class ClientMetrics:
    """The client instances of all brokers; at most the MAX_INSTANCES that were used last.

    Args:
        subscriptions: function that returns two values: subscription name -> configurations, and a version number that
            increases with each change of a subscription.
        new_uuid: function that returns a new id of a client instance.
    """

    def __init__(
        self, subscriptions: Callable[[], tuple[Mapping[str, Mapping[str, str]], int]], new_uuid: Callable[[], UUID]
    ) -> None:
        self._subscriptions = subscriptions
        self._new_uuid = new_uuid
        self._instances: OrderedDict[tuple[int, UUID], ClientInstance] = OrderedDict()
        self._software: OrderedDict[int, tuple[str, str]] = OrderedDict()

    def record_software(self, connection: int, name: str, version: str) -> None:
        """Store the name and version of the client software from an ApiVersions request.

        Args:
            connection: number of the connection.
            name: name of the client software.
            version: version of the client software.
        """
        self._software[connection] = name, version
        if len(self._software) > MAX_SOFTWARE:
            self._software.popitem(last=False)

    def software(self, connection: int) -> tuple[str, str]:
        """Return the name and the version of the client software of a connection; "unknown" for both before
        ApiVersions.
        """
        return self._software.get(connection, ("unknown", "unknown"))

    def get(
        self, node: int, instance_id: UUID, attributes: Mapping[str, str], now: float
    ) -> tuple[ClientInstance, ErrorCode]:
        """Handle GetTelemetrySubscriptions: return the instance of the client, and an error code.

        The error is THROTTLING_QUOTA_EXCEEDED if the request comes too early, otherwise NONE.

        Args:
            node: id of the broker.
            instance_id: id of the client instance; zero to get a new one.
            attributes: attributes of the client for the patterns of subscriptions, without the instance id.
            now: the broker's time in seconds.
        """
        instance = self._instance(node, instance_id if instance_id != ZERO else self._new_uuid(), attributes)
        accepted = instance.accepts_get(now)
        return instance, ErrorCode.NONE if accepted else ErrorCode.THROTTLING_QUOTA_EXCEEDED

    def push(
        self,
        node: int,
        instance_id: UUID,
        attributes: Mapping[str, str],
        now: float,
        *,
        subscription_id: int,
        terminating: bool,
        compression: int,
        size: int,
        max_size: int,
    ) -> ErrorCode:
        """Validate a PushTelemetry, and return its error or NONE.

        A push with ``terminating`` is never throttled. A push after it is rejected with INVALID_REQUEST.

        Args:
            node: id of the broker.
            instance_id: id of the client instance.
            attributes: attributes of the client for the patterns of subscriptions, without the instance id.
            now: the broker's time in seconds.
            subscription_id: subscription id in the request. It must be equal to the client's current subscription id.
            terminating: whether the client sends no push after this one.
            compression: compression type of the metrics.
            size: size of the metrics in bytes, compressed.
            max_size: maximum size of the metrics in bytes.
        """
        if instance_id in RESERVED:
            return ErrorCode.INVALID_REQUEST
        instance = self._instance(node, instance_id, attributes)
        if instance.terminating:
            return ErrorCode.INVALID_REQUEST
        if not instance.accepts_push(now) and not terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        instance.terminating = terminating
        if subscription_id != instance.subscription_id:
            instance.last_error = ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        elif compression not in (UNCOMPRESSED, *ACCEPTED_COMPRESSION):
            instance.last_error = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        else:
            instance.last_error = ErrorCode.TELEMETRY_TOO_LARGE if size > max_size else ErrorCode.NONE
        return instance.last_error

    def _instance(self, node: int, instance_id: UUID, attributes: Mapping[str, str]) -> ClientInstance:
        """Return a client instance. It is created on first use, and recreated after the subscriptions change.

        Args:
            node: id of the broker.
            instance_id: id of the client instance.
            attributes: attributes of the client for the patterns of subscriptions, without the instance id.
        """
        subscriptions, version = self._subscriptions()
        instance = self._instances.get((node, instance_id))
        if instance is None or instance.version < version:
            own = {**attributes, "client_instance_id": uuid_text(instance_id)}
            instance = _computed(instance_id, version, subscriptions, own)
            self._instances[node, instance_id] = instance
            if len(self._instances) > MAX_INSTANCES:
                self._instances.popitem(last=False)
        self._instances.move_to_end((node, instance_id))
        return instance


def _computed(
    instance_id: UUID, version: int, subscriptions: Mapping[str, Mapping[str, str]], attributes: Mapping[str, str]
) -> ClientInstance:
    ordered = (subscriptions[name] for name in bucket_order(subscriptions, string_hash))
    matching = [configs for configs in ordered if client_metrics_configs.matches(configs, attributes)]
    metrics = {each: None for configs in matching for each in client_metrics_configs.metrics(configs)}
    names = [ALL_METRICS] if ALL_METRICS in metrics else bucket_order(metrics, string_hash)
    interval = min([DEFAULT_INTERVAL_MS, *map(client_metrics_configs.interval_ms, matching)])
    return ClientInstance(instance_id=instance_id, version=version, metrics=names, push_interval_ms=interval)


def _int32(number: int) -> int:
    """Return the lower 32 bits of an integer (``number``), as a signed integer."""
    return (number + 2**31) % 2**32 - 2**31
