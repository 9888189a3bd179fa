"""The settings of listeners: valid and invalid ones, ports, and users."""

from __future__ import annotations

import pytest

from mockbroker.base.settings import Settings, SettingsError
from mockbroker.net.listeners import Listener, check_ports, of_settings, port_for, users_of

MAP = "INSIDE:SASL_SSL, Outside:ssl"
VALID = [  # listeners, map, users; parsed listeners
    ("", "", False, [Listener("PLAINTEXT", "PLAINTEXT")]),
    ("", "", True, [Listener("SASL_PLAINTEXT", "SASL_PLAINTEXT")]),
    ("ssl", "", True, [Listener("SSL", "SSL")]),
    ("PLAINTEXT,SASL_SSL", "", False, [Listener("PLAINTEXT", "PLAINTEXT"), Listener("SASL_SSL", "SASL_SSL")]),
    ("PLAINTEXT://:9092", "", False, [Listener("PLAINTEXT", "PLAINTEXT", 9092)]),
    ("SSL://127.0.0.1:0", "", False, [Listener("SSL", "SSL", 0, "127.0.0.1")]),
    ("SSL://[::1]:9093", "", False, [Listener("SSL", "SSL", 9093, "::1")]),
    ("INSIDE://:1 , OUTSIDE", MAP, False, [Listener("INSIDE", "SASL_SSL", 1), Listener("OUTSIDE", "SSL")]),
]


@pytest.mark.parametrize(("listeners", "protocols", "users", "expected"), VALID)
def test_valid_listeners(listeners, protocols, users, expected):
    settings = Settings.parse({"listeners": listeners, "listener.security.protocol.map": protocols})
    assert list(of_settings(settings, users=users)) == expected


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"listeners": "NOPE"}, "listeners: NOPE has no security protocol: add it to .* or use one of PLAINTEXT, SSL"),
        ({"listeners": "SSL:9093"}, "expected NAME or NAME://:PORT, got 'SSL:9093'"),
        ({"listeners": "SSL://:65536"}, r"listeners: port 65536 is out of range \(0-65535\)"),
        ({"listeners": "SSL://[::1:9093"}, r"expected NAME or NAME://:PORT, got 'SSL://\[::1:9093'"),
        ({"listeners": "SSL,ssl"}, "duplicate listener name in SSL,ssl"),
        ({"listener.security.protocol.map": "A:B"}, "listener.security.protocol.map: expected NAME:"),
    ],
)
def test_invalid_listeners(settings, what):
    with pytest.raises(SettingsError, match=what):
        of_settings(Settings.parse(settings))


PORTS = [  # base, number of the broker, listener, its port: three brokers, the second listener has a port of its own
    (9092, 0, "A", 9092),
    (9092, 2, "A", 9094),
    (9092, 1, "B", 7001),
    (9092, 0, "C", 9098),
    (0, 2, "A", 0),
    (0, 0, "C", 0),
    (9092, 1, "D", 0),
]


@pytest.mark.parametrize(("base", "number", "name", "port"), PORTS)
def test_port_of_each_listener_and_broker(base, number, name, port):
    listeners = [Listener("A", "SSL"), Listener("B", "SSL", 7000), Listener("C", "SSL"), Listener("D", "SSL", 0)]
    assert port_for(listeners, name, base, 3, number) == port


@pytest.mark.parametrize(
    ("port", "both"),
    [
        (9094, "B of broker 1 and A of broker 3 have the same port, 9094: give each listener 3 ports of its own"),
        (9100, "B of broker 1 and C of broker 3 have the same port, 9100"),
    ],
)
def test_port_of_two_listeners(port, both):
    listeners = [Listener("A", "SSL"), Listener("B", "SSL", port), Listener("C", "SSL")]
    with pytest.raises(SettingsError, match=both):
        check_ports(listeners, 9092, 3, first_node=1)


def test_any_free_port_is_no_port_of_two_listeners():
    check_ports([Listener("A", "SSL", 0), Listener("B", "SSL", 0), Listener("C", "SSL")], 0, 3, first_node=0)


def test_users():
    assert users_of(" alice:secret, bob:a:b ") == {"alice": "secret", "bob": "a:b"}
    for wrong in ("alice", ":secret", "alice:", "a:b,a:c"):
        with pytest.raises(SettingsError):
            users_of(wrong)
