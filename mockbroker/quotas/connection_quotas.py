"""The limits on the connections of one broker: their number, and the number of new connections per second.

Source: Kafka's ConnectionQuotas. Times are in seconds of the broker's clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import field

from kwire.lazy_dataclass import dataclass
from mockbroker.quotas.rates import WindowedRate

UNLIMITED = 2**31 - 1
MAX_ADDRESSES = 10_000  # addresses whose rate is remembered


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The settings that limit connections.

    Attributes:
        connections: maximum number of connections of a broker.
        per_ip: maximum number of connections from one address.
        overrides: address -> maximum number of connections from this address, instead of ``per_ip``.
        rate: maximum number of new connections per second.
        of_listeners: listener name -> maximum number of connections, and maximum number of new connections per second.
        protected: name of the inter-broker listener. If there are other listeners, a connection to the inter-broker
            listener is accepted even if the limit ``connections`` is reached.
        windows: number of time windows over which a rate is measured.
        window: length of a window in seconds.
    """

    connections: int = UNLIMITED
    per_ip: int = UNLIMITED
    overrides: Mapping[str, int] = field(default_factory=dict)
    rate: int = UNLIMITED
    of_listeners: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    protected: str = ""
    windows: int = 11
    window: int = 1


class ConnectionQuotas:
    """The connections of one broker, and the decisions about new connections.

    Args:
        limits: the limits.
        listeners: names of the listeners of the broker.
        ip_limit: function that returns the quota ``connection_creation_rate`` of an address; None without a quota.
    """

    def __init__(
        self, limits: ConnectionLimits, listeners: frozenset[str], ip_limit: Callable[[str], float | None]
    ) -> None:
        self.limits = limits
        self._protected = limits.protected if len(listeners) > 1 else None
        self._ip_limit = ip_limit
        self._total = 0
        self._by_listener: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()
        self._rate = self._new_rate()
        self._listener_rates = {listener: self._new_rate() for listener in listeners}
        self._address_rates: dict[str, WindowedRate] = {}

    def _new_rate(self) -> WindowedRate:
        return WindowedRate(self.limits.windows, self.limits.window)

    def opened(self, listener: str, address: str) -> None:
        """Count a new connection.

        Args:
            listener: name of the listener.
            address: address of the client, without port.
        """
        self._total += 1
        self._by_listener[listener] += 1
        self._by_address[address] += 1

    def closed(self, listener: str, address: str) -> None:
        """Subtract a closed connection from the numbers of open connections.

        Args:
            listener: name of the listener.
            address: address of the client, without port.
        """
        self._total -= 1
        self._by_listener[listener] -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def wait_time(self, listener: str, now: float) -> float:
        """Count a new connection in the connection rates of the broker and of the listener; return the throttle time.

        A rate without a limit is not counted. A connection to the protected listener does not count for the broker.

        Args:
            listener: name of the listener.
            now: the broker's time in seconds.

        Returns:
            The seconds for which the connection must wait; 0 if no rate is exceeded.
        """
        _, listener_limit = self.limits.of_listeners.get(listener, (UNLIMITED, UNLIMITED))
        wait = self._excess(self._listener_rates[listener], listener_limit, now)
        return wait if listener == self._protected else max(wait, self._excess(self._rate, self.limits.rate, now))

    def has_place(self, listener: str) -> bool:
        """Return whether a listener and the broker can accept one more connection.

        ``listener``: name of the listener.
        """
        most, _ = self.limits.of_listeners.get(listener, (UNLIMITED, UNLIMITED))
        if self._by_listener[listener] >= most:
            return False
        return listener == self._protected or self._total < self.limits.connections

    def is_excessive(self) -> bool:
        """Return whether the broker has more connections than ``max.connections``.

        If so, the caller must close a connection for which ``may_be_closed`` returns True.
        """
        return self._total > self.limits.connections

    def may_be_closed(self, listener: str) -> bool:
        """Return whether the broker may close connections to a listener when it has too many connections.

        The result is False for the protected listener. ``listener``: name of the listener.
        """
        return listener != self._protected

    def has_place_for(self, address: str) -> bool:
        """Return whether one more connection from an address is allowed.

        ``address``: address of the client, without port.
        """
        return self._by_address[address] < self.limits.overrides.get(address, self.limits.per_ip)

    def close_time(self, address: str, now: float) -> float:
        """Count a new connection in the connection rate of its client address; return the delay before it must be
        closed.

        A connection that exceeds the rate is closed after the delay, and is not counted in the rate. If the address has
        no quota, nothing is counted.

        Args:
            address: address of the client, without port.
            now: the broker's time in seconds.

        Returns:
            The seconds after which the connection must be closed; 0 if the connection does not exceed the rate.
        """
        limit = self._ip_limit(address)
        if limit is None:
            return 0.0
        rate = self._address_rates.get(address)
        if rate is None:
            if len(self._address_rates) >= MAX_ADDRESSES:
                del self._address_rates[next(iter(self._address_rates))]
            rate = self._address_rates[address] = self._new_rate()
        excess = self._excess(rate, limit, now)
        if excess:
            rate.record(-1, now)
        return excess

    def _excess(self, rate: WindowedRate, limit: float, now: float) -> float:
        """Count a new connection in a rate; return the throttle time in seconds, at most the length of one window.

        If the rate is not above the limit, the result is 0.

        Args:
            rate: the rate.
            limit: maximum number of connections per second.
            now: the broker's time in seconds.
        """
        if limit >= UNLIMITED:
            return 0.0
        rate.record(1, now)
        if not limit:
            return float(self.limits.window)
        return min(round(rate.excess(limit, now), 3), self.limits.window)
