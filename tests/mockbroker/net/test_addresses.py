"""Advertised addresses, which clients can reach."""

from __future__ import annotations

import socket

import pytest

from mockbroker.base.settings import Settings, SettingsError
from mockbroker.net.addresses import Addresses, is_loopback, reachable
from mockbroker.net.listeners import Listener

INSIDE, OUTSIDE = Listener("INSIDE", "PLAINTEXT"), Listener("OUTSIDE", "SSL")


def addresses(advertised: str, host: str = "127.0.0.1") -> Addresses:
    given = {"advertised.listeners": advertised, "controller.listener.names": "CONTROLLER"}
    return Addresses(Settings.parse(given), [INSIDE, OUTSIDE], host)


@pytest.mark.parametrize("host", ["0.0.0.0", ""])
def test_wildcard_host_advertises_a_reachable_address(host: str) -> None:
    with socket.create_server((host, 0)) as listener:
        result = reachable(host)
        socket.create_connection((result, listener.getsockname()[1]), timeout=30).close()
    assert result not in ("0.0.0.0", "")


def test_loopback_on_a_machine_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoNetwork(socket.socket):
        def connect(self, address: object) -> None:
            raise OSError("network is unreachable")

    monkeypatch.setattr(socket, "socket", NoNetwork)
    assert [reachable(host) for host in ("0.0.0.0", "::", "10.1.2.3")] == ["127.0.0.1", "::1", "10.1.2.3"]


def test_wildcard_host_advertises_the_route_source(monkeypatch: pytest.MonkeyPatch) -> None:
    class Routed(socket.socket):
        def connect(self, address: object) -> None:
            pass

        def getsockname(self) -> tuple[str, int]:
            return "10.1.2.3", 0

    monkeypatch.setattr(socket, "socket", Routed)
    assert reachable("0.0.0.0") == "10.1.2.3"
    assert addresses("", "0.0.0.0").of("INSIDE", 0, 9092) == ("10.1.2.3", 9092)


ADVERTISED = [  # advertised.listeners, listener, number of the broker, advertised address of a listener bound to 5000
    ("", "INSIDE", 0, ("127.0.0.1", 5000)),
    ("INSIDE://kafka:9092", "INSIDE", 0, ("kafka", 9092)),
    ("INSIDE://kafka:9092", "INSIDE", 2, ("kafka", 9094)),
    ("INSIDE://kafka:0", "INSIDE", 2, ("kafka", 5000)),
    ("INSIDE://kafka:9092", "OUTSIDE", 0, ("127.0.0.1", 5000)),
    ("inside://kafka:9092, OUTSIDE://localhost:29092", "OUTSIDE", 1, ("localhost", 29093)),
    ("INSIDE://[::1]:9092", "INSIDE", 1, ("::1", 9093)),
    ("INSIDE://::1:9092", "INSIDE", 0, ("::1", 9092)),
    ("CONTROLLER://localhost:9093,INSIDE://kafka:1", "INSIDE", 0, ("kafka", 1)),
]


@pytest.mark.parametrize(("text", "listener", "number", "address"), ADVERTISED)
def test_advertised_listeners(text: str, listener: str, number: int, address: tuple[str, int]) -> None:
    result = addresses(text)
    assert result.of(listener, number, 5000) == address
    assert address[0] in result.names


REFUSED = [
    ("kafka:9092", "expected NAME://HOST:PORT, got 'kafka:9092'"),
    ("INSIDE", "expected NAME://HOST:PORT, got 'INSIDE'"),
    ("INSIDE://0.0.0.0:9092", "expected NAME://HOST:PORT"),
    ("INSIDE://[::]:9092", "expected NAME://HOST:PORT"),
    ("INSIDE://[::1:9092", "expected NAME://HOST:PORT"),
    ("INSIDE://:9092", "expected NAME://HOST:PORT"),
    ("INSIDE://kafka:65536", r"port 65536 is out of range \(0-65535\)"),
    ("INSIDE://a:1,INSIDE://b:2", "duplicate listener name INSIDE"),
    ("OTHER://kafka:9092", "unknown listener OTHER; listeners are INSIDE, OUTSIDE"),
]


@pytest.mark.parametrize(("text", "what"), REFUSED)
def test_invalid_advertised_listeners(text: str, what: str) -> None:
    with pytest.raises(SettingsError, match=rf"^advertised\.listeners: .*{what}"):
        addresses(text)


HOSTS = {"127.0.0.1": True, "127.1.2.3": True, "::1": True, "localhost": True, "0.0.0.0": False, "::": False, "": False}


@pytest.mark.parametrize("host", [*HOSTS, "10.0.0.1", "kafka.example"])
def test_loopback(host: str) -> None:
    assert is_loopback(host) is HOSTS.get(host, False)
