"""The addresses that clients of a proxy get: the options --advertise and --broker-port."""

from __future__ import annotations

import click
import pytest

from mockbroker.cli.advertising import read_advertised
from mockbroker.proxy.addresses import Address, Advertised

HOST = "10.0.0.1"  # advertised host without the option --advertise
OUTSIDE = Address("outside", 31_001)

VALID = [  # --advertise, --broker-port, the parsed result
    ([], [], Advertised(HOST)),
    ([""], [], Advertised(HOST)),
    (["outside"], [], Advertised("outside")),
    (["::1"], [], Advertised("::1")),
    (["[::1]:31000"], [], Advertised(HOST, Address("::1", 31_000))),
    (["outside:31000"], [], Advertised(HOST, Address("outside", 31_000))),
    (["1=outside:31001"], [], Advertised(HOST, None, {1: OUTSIDE})),
    (["1=outside:31001"], ["1=9093"], Advertised(HOST, None, {1: OUTSIDE}, {1: 9_093})),
    (["other", "1=outside:31001", "outside:31000"], [], Advertised("other", Address("outside", 31_000), {1: OUTSIDE})),
    ([], ["2=9094", "1=9093"], Advertised(HOST, None, {}, {2: 9_094, 1: 9_093})),
]


@pytest.mark.parametrize(("advertise", "ports", "expected"), VALID)
def test_the_forms_of_addresses(advertise: list[str], ports: list[str], expected: Advertised) -> None:
    assert read_advertised(advertise, ports, HOST, 9_092) == expected


INVALID = [  # --advertise, --broker-port, the error
    (["a b"], [], "--advertise a b: expected HOST, HOST:PORT or ID=HOST:PORT"),
    (["x=outside:1"], [], "--advertise x=outside:1: expected HOST, HOST:PORT or ID=HOST:PORT"),
    (["1=outside"], [], "--advertise 1=outside: 'outside' is not an address: use ID=HOST:PORT"),
    (["1=outside:0"], [], "--advertise 1=outside:0: 'outside:0' is not an address: use ID=HOST:PORT"),
    (["outside:65540"], [], "--advertise outside:65540: port 65540 is out of range (1-65535)"),
    (["a", "b"], [], "--advertise a and --advertise b: only one HOST is possible"),
    (["a:1", "b:2"], [], "--advertise a:1 and --advertise b:2: only one HOST:PORT is possible"),
    (["1=a:1", "1=a:2"], [], "--advertise 1=a:2: broker 1 already has the address a:1: remove one"),
    (["1=a:1", "2=a:1"], [], "--advertise: broker 1 and broker 2 have the same address a:1"),
    (["a:1", "2=a:1"], [], "--advertise: the bootstrap port and broker 2 have the same address a:1"),
    ([], ["1"], "--broker-port 1: expected ID=PORT with a port in the range 1-65535"),
    ([], ["1=65540"], "--broker-port 1=65540: expected ID=PORT with a port in the range 1-65535"),
    ([], ["1=5", "1=6"], "--broker-port 1=6: broker 1 already has port 5: remove one"),
    ([], ["1=9092"], "the listener of broker 1 has port 9092, as has --port: add --broker-port 1=PORT"),
    (
        ["1=a:5", "2=b:5"],
        [],
        "the listener of broker 2 has port 5, as has the listener of broker 1: add --broker-port 2=PORT",
    ),
]


@pytest.mark.parametrize(("advertise", "ports", "message"), INVALID)
def test_invalid_addresses_are_usage_errors(advertise: list[str], ports: list[str], message: str) -> None:
    with pytest.raises(click.UsageError) as error:
        read_advertised(advertise, ports, HOST, 9_092)
    assert error.value.message == message


def test_a_generated_certificate_has_all_hosts() -> None:
    advertised = read_advertised(["a", "b:1", "1=c:2", "2=a:3"], [], HOST, 9_092)
    assert advertised.hosts == ["a", "b", "c"]
