"""The options of ``mockbroker proxy`` for the addresses that clients get: ``--advertise`` and ``--broker-port``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from mockbroker.cli.client_properties import LAST_PORT
from mockbroker.proxy.addresses import Address, Advertised

OF_BROKER = r"(?P<node>[0-9]{1,9})=(?P<rest>.*)"
F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--advertise",
        multiple=True,
        metavar="HOST|[ID=]HOST:PORT",
        help="Host that clients connect to, if it is not --host; HOST:PORT is the address of --port, and ID=HOST:PORT "
        "that of broker ID of the cluster. Repeatable.",
    ),
    click.option(
        "--broker-port",
        "broker_ports",
        multiple=True,
        metavar="ID=PORT",
        help="Port on which the proxy listens for broker ID of the cluster. Without this option, it is the PORT of "
        "--advertise ID=HOST:PORT, or else a free port. Repeatable.",
    ),
)


def advertising_options(command: F) -> F:
    """Add the options --advertise and --broker-port to a command.

    The function of the command gets the arguments ``advertise`` and ``broker_ports``, each a tuple of texts.
    """
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_advertised(advertise: Sequence[str], broker_ports: Sequence[str], host: str, port: int) -> Advertised:
    """Return the addresses in the options --advertise and --broker-port.

    Args:
        advertise: values of --advertise.
        broker_ports: values of --broker-port.
        host: host of addresses without any --advertise.
        port: port of the bootstrap listener; 0 for a free port.

    Raises: click.UsageError if a value is not valid, or if two values contradict each other.
    """
    hosts: list[str] = []
    bootstrap: list[Address] = []
    brokers: dict[int, Address] = {}
    for text in filter(None, advertise):
        option = f"--advertise {text}"
        if (match := re.fullmatch(OF_BROKER, text)) is not None:
            node, address = int(match["node"]), Address.parse(match["rest"])
            if address is None or not 0 < address.port <= LAST_PORT:
                raise click.UsageError(f"{option}: {match['rest']!r} is not an address: use ID=HOST:PORT")
            if node in brokers:
                raise click.UsageError(f"{option}: broker {node} already has the address {brokers[node]}: remove one")
            brokers[node] = address
        elif "=" not in text and (address := Address.parse(text)) is not None:
            if not 0 < address.port <= LAST_PORT:
                raise click.UsageError(f"{option}: port {address.port} is out of range (1-{LAST_PORT})")
            bootstrap.append(address)
        elif re.search(r"[\s=,/\[\]]", text):
            raise click.UsageError(f"{option}: expected HOST, HOST:PORT or ID=HOST:PORT")
        else:
            hosts.append(text)
    for found, form in ((hosts, "HOST"), (bootstrap, "HOST:PORT")):
        if len(found) > 1:
            raise click.UsageError(f"--advertise {found[0]} and --advertise {found[1]}: only one {form} is possible")
    taken: dict[Address, str] = {}
    for name, address in [("the bootstrap port", each) for each in bootstrap] + [
        (f"broker {node}", each) for node, each in brokers.items()
    ]:
        if address in taken:
            raise click.UsageError(f"--advertise: {taken[address]} and {name} have the same address {address}")
        taken[address] = name
    ports = _read_ports(broker_ports)
    advertised = Advertised(hosts[0] if hosts else host, bootstrap[0] if bootstrap else None, brokers, ports)
    _check_ports(advertised, port)
    return advertised


def _read_ports(texts: Sequence[str]) -> dict[int, int]:
    """Return the ports in the values of --broker-port, by broker id. Raises: click.UsageError if one is not valid."""
    ports: dict[int, int] = {}
    for text in texts:
        match = re.fullmatch(OF_BROKER, text)
        if match is None or not re.fullmatch("[0-9]{1,5}", match["rest"]) or not 0 < int(match["rest"]) <= LAST_PORT:
            raise click.UsageError(f"--broker-port {text}: expected ID=PORT with a port in the range 1-{LAST_PORT}")
        if (node := int(match["node"])) in ports:
            raise click.UsageError(f"--broker-port {text}: broker {node} already has port {ports[node]}: remove one")
        ports[node] = int(match["rest"])
    return ports


def _check_ports(advertised: Advertised, port: int) -> None:
    """Raise click.UsageError if two listeners would have the same port. ``port``: that of the bootstrap listener."""
    taken = {port: "--port"} if port else {}
    for node in sorted({*advertised.ports, *advertised.brokers}):
        own = advertised.port(node)
        if own in taken:
            raise click.UsageError(
                f"the listener of broker {node} has port {own}, as has {taken[own]}: add --broker-port {node}=PORT"
            )
        taken[own] = f"the listener of broker {node}"
