"""The connection limits of one broker. The conversations connections_* have their effects on clients."""

from __future__ import annotations

import pytest

from mockbroker.base.settings import Settings
from mockbroker.net.connection_limits import connection_limits
from mockbroker.quotas.connection_quotas import UNLIMITED, ConnectionQuotas

ONE, BOTH = frozenset({"PLAINTEXT"}), frozenset({"PLAINTEXT", "OUTSIDE"})
NO_QUOTA = {"127.0.0.1": None}


def quotas(listeners: frozenset[str] = ONE, ip: float | None = None, **config: object) -> ConnectionQuotas:
    given = {name.replace("_", "."): value for name, value in config.items()}
    return ConnectionQuotas(connection_limits(Settings.parse(given)), listeners, lambda _: ip)


def test_limits_of_settings():
    limits = connection_limits(
        Settings.parse(
            {
                "max.connections": 9,
                "max.connections.per.ip": 5,
                "max.connections.per.ip.overrides": "localhost:3, [::1]:4,10.0.0.1:0",
                "listener.name.inside.max.connections": 7,
                "listener.name.outside.max.connection.creation.rate": 6,
                "inter.broker.listener.name": "inside",
            }
        )
    )
    assert (limits.connections, limits.per_ip, limits.rate) == (9, 5, UNLIMITED)
    assert limits.overrides == {"127.0.0.1": 3, "::1": 4, "10.0.0.1": 0}
    assert limits.of_listeners == {"INSIDE": (7, UNLIMITED), "OUTSIDE": (UNLIMITED, 6)}
    assert limits.protected == "INSIDE"


def test_limits_of_listeners_have_an_effect():
    given = {"listener.name.inside.max.connections": 7, "listener.name.inside.ssl.protocol": "TLSv1.3"}
    assert Settings.parse(given).without_effect() == ["listener.name.inside.ssl.protocol"]


RATES = [  # connections per second, windows, waits of connections that begin at the same time
    (2, 2, [0, 0, 0.5, 1.0, 1.0]),
    (1, 11, [0] * 10 + [1.0]),  # the wait is at most one window
    (3, 11, [0] * 30 + [0.333, 0.667, 1.0, 1.0]),
    (0, 2, [1, 1]),
]


@pytest.mark.parametrize(("rate", "windows", "waits"), RATES)
def test_connections_above_the_rate_wait(rate, windows, waits):
    result = quotas(max_connection_creation_rate=rate, quota_window_num=windows)
    assert [result.wait_time("PLAINTEXT", 5.0) for _ in waits] == waits


def test_old_connections_no_longer_count():
    result = quotas(max_connection_creation_rate=1, quota_window_num=2)
    waits = [result.wait_time("PLAINTEXT", now) for now in (0.0, 0.5, 1.0, 3.0, 3.5)]
    assert waits == [0, 0.5, 1, 0, 0.5]


def test_the_rate_of_a_listener_limits_it_alone():
    given = {"listener.name.outside.max.connection.creation.rate": 1, "quota.window.num": 2}
    result = ConnectionQuotas(connection_limits(Settings.parse(given)), BOTH, lambda _: None)
    assert [result.wait_time(name, 0.0) for name in ("OUTSIDE", "PLAINTEXT", "OUTSIDE", "PLAINTEXT")] == [0, 0, 1, 0]


def test_a_protected_listener_needs_no_place():
    result = quotas(BOTH, max_connections=1, max_connection_creation_rate=1)
    result.opened("OUTSIDE", "a")
    assert result.has_place("PLAINTEXT")
    assert not result.has_place("OUTSIDE")
    assert not result.is_excessive()
    result.opened("PLAINTEXT", "a")
    assert result.is_excessive()
    assert [result.may_be_closed(name) for name in ("OUTSIDE", "PLAINTEXT")] == [True, False]
    assert not any(result.wait_time("PLAINTEXT", 0.0) for _ in range(99))


def test_the_only_listener_is_not_protected():
    result = quotas(max_connections=1)
    result.opened("PLAINTEXT", "a")
    assert not result.has_place("PLAINTEXT")
    result.closed("PLAINTEXT", "a")
    assert result.has_place("PLAINTEXT")


def test_connections_of_an_address():
    result = quotas(max_connections_per_ip=1, max_connections_per_ip_overrides="b:2")
    for address in ("a", "b"):
        result.opened("PLAINTEXT", address)
    assert [result.has_place_for(address) for address in ("a", "b", "c")] == [False, True, True]


def test_closed_connections_do_not_count_in_the_quota():
    """Therefore, a client that keeps reconnecting is accepted as soon as the windows have passed."""
    result = quotas(ip=1, quota_window_num=2)
    assert [result.close_time("a", now) for now in (0.0, 0.1, 0.2, 0.9)] == [0, 0.9, 0.8, 0.1]
    assert result.close_time("b", 0.9) == 0
    assert result.close_time("a", 2.0) == 0


def test_an_address_without_quota_is_not_remembered():
    result = quotas()
    assert result.close_time("a", 0.0) == 0
    assert not result._address_rates
