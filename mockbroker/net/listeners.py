"""Parsers of the listener settings and of the SASL users.

The settings are ``listeners``, ``advertised.listeners``, ``listener.security.protocol.map`` and ``mockbroker.users``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from kwire.lazy_dataclass import dataclass
from mockbroker.base.settings import CONTROLLERS, Settings, SettingsError

PLAINTEXT, SASL_PLAINTEXT = "PLAINTEXT", "SASL_PLAINTEXT"
PROTOCOLS = (PLAINTEXT, "SSL", SASL_PLAINTEXT, "SASL_SSL")
HOST = r"(?P<bracket>\[)?(?P<host>[^][,/]*)(?(bracket)\])"  # Kafka has IPv6 addresses in brackets
FORM = rf"(?P<name>[A-Za-z0-9_.-]+)(?:://{HOST}:(?P<port>[0-9]{{1,5}}))?"
LAST_PORT = 65_535
WILDCARDS = ("", "0.0.0.0", "::")  # noqa: S104 - hosts that no client can connect to


@dataclass(frozen=True, slots=True)
class Advertised:
    """An entry of the setting ``advertised.listeners``.

    Attributes:
        host: Host that clients connect to; "" for the host that the listener is bound to.
        port: Port of the first broker; the broker with index n advertises ``port + n``. 0 means the port to which the
            listener is bound.
    """

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Listener:
    """An entry of the setting ``listeners``.

    Attributes:
        name: Name of the listener, in capitals.
        protocol: Security protocol, one of PROTOCOLS.
        port: Port of the first broker; 0 for any free port, None if the entry contains no port.
        host: Host name or address; "" if the entry contains no host.
    """

    name: str
    protocol: str
    port: int | None = None
    host: str = ""

    @property
    def tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def sasl(self) -> bool:
        return self.protocol.startswith("SASL_")


def of_settings(settings: Settings, *, users: bool = False) -> tuple[Listener, ...]:
    """Return the listeners that each broker has, at least one.

    A listener whose name is a security protocol needs no entry in ``listener.security.protocol.map``.

    Args:
        settings: The broker configuration.
        users: True if the cluster has SASL users. Without ``listeners``, the only listener then uses SASL_PLAINTEXT
            instead of PLAINTEXT.

    Raises:
        SettingsError: ``listeners`` or ``listener.security.protocol.map`` is invalid.
    """
    protocols = {name: name for name in PROTOCOLS} | _security_protocols(settings.listener_security_protocol_map)
    entries = _entries(settings.listeners, settings)
    listeners = [_listener(entry, protocols) for entry in entries or [SASL_PLAINTEXT if users else PLAINTEXT]]
    names = [listener.name for listener in listeners]
    if len(set(names)) < len(names):
        raise SettingsError(
            f"listeners: duplicate listener name in {settings.listeners}: give each listener its own name"
        )
    return tuple(listeners)


def advertised(settings: Settings, listeners: Iterable[Listener]) -> dict[str, Advertised]:
    """Return the entries of ``advertised.listeners`` by the name of the listener.

    Args:
        settings: The broker configuration.
        listeners: The listeners that each broker has.

    Raises:
        SettingsError: ``advertised.listeners`` is invalid, or names a listener that is not in ``listeners``.
    """
    known = {listener.name for listener in listeners}
    by_name: dict[str, Advertised] = {}
    for entry in _entries(settings.advertised_listeners, settings):
        form = re.fullmatch(FORM, entry)
        if form is None or form["port"] is None or form["host"] in WILDCARDS:
            raise SettingsError(f"advertised.listeners: expected NAME://HOST:PORT, got {entry!r}")
        name, port = form["name"].upper(), int(form["port"])
        if name not in known:
            names = ", ".join(sorted(known))
            raise SettingsError(f"advertised.listeners: unknown listener {name}; listeners are {names}")
        if name in by_name:
            raise SettingsError(f"advertised.listeners: duplicate listener name {name}")
        by_name[name] = Advertised(form["host"], _checked_port("advertised.listeners", port))
    return by_name


def _checked_port(setting: str, port: int) -> int:
    if port > LAST_PORT:
        raise SettingsError(f"{setting}: port {port} is out of range (0-{LAST_PORT})")
    return port


def _entries(listeners: str, settings: Settings) -> list[str]:
    """Return the entries of a comma-separated list of listeners, except controller listeners.

    Controller listeners (``controller.listener.names``) are ignored, because mockbroker has no controllers.

    Args:
        listeners: value of ``listeners`` or ``advertised.listeners``.
        settings: the broker configuration.
    """
    controllers = {name.strip().upper() for name in settings.others.get(CONTROLLERS, "").split(",")}
    texts = [text.strip() for text in listeners.split(",") if text.strip()]
    return [text for text in texts if text.partition("://")[0].upper() not in controllers]


def users_of(text: str) -> dict[str, str]:
    """Return the password of each SASL user, by user name.

    ``text``: value of ``mockbroker.users``, such as ``alice:secret,bob:other``.

    Raises:
        SettingsError: The text is malformed or contains a user twice.
    """
    passwords: dict[str, str] = {}
    for entry in filter(None, (entry.strip() for entry in text.split(","))):
        name, colon, password = entry.partition(":")
        if not name or not colon or not password:
            raise SettingsError("mockbroker.users: expected NAME:PASSWORD")
        if name in passwords:
            raise SettingsError(f"mockbroker.users: duplicate user {name}")
        passwords[name] = password
    return passwords


def port_for(listeners: Iterable[Listener], name: str, base: int, brokers: int, number: int) -> int:
    """Return the port to which one broker binds a listener; 0 for any free port.

    Args:
        listeners: the listeners that each broker has.
        name: name of the listener.
        base: base of the ports for listeners whose attribute ``port`` is None; 0 for any free port. The listener with
            index i in ``listeners`` uses the ``brokers`` consecutive ports from ``base + i * brokers``.
        brokers: number of brokers.
        number: index of the broker, from 0.

    Raises:
        KeyError: No listener has this name.
    """
    for index, listener in enumerate(listeners):
        if listener.name == name:
            first = listener.port if listener.port is not None else base and base + index * brokers
            return first and first + number
    raise KeyError(name)


def check_ports(listeners: Collection[Listener], base: int, brokers: int, first_node: int) -> None:
    """Check that each listener of each broker has a port of its own.

    Args:
        listeners: the listeners that each broker has.
        base: as in ``port_for``.
        brokers: number of brokers.
        first_node: id of the first broker.

    Raises:
        SettingsError: Two listeners have the same port.
    """
    owners: dict[int, str] = {}
    for number in range(brokers):
        for listener in listeners:
            port = port_for(listeners, listener.name, base, brokers, number)
            owner = f"{listener.name} of broker {first_node + number}"
            if port and port in owners:
                raise SettingsError(
                    f"listeners: {owners[port]} and {owner} have the same port, {port}: "
                    f"give each listener {brokers} port{'s' * (brokers > 1)} of its own"
                )
            owners[port] = owner


def _listener(entry: str, protocols: dict[str, str]) -> Listener:
    form = re.fullmatch(FORM, entry)
    if form is None:
        raise SettingsError(f"listeners: expected NAME or NAME://:PORT, got {entry!r}")
    name, port = form["name"].upper(), form["port"]
    if name not in protocols:
        raise SettingsError(
            f"listeners: {name} has no security protocol: add it to listener.security.protocol.map, "
            f"or use one of {', '.join(protocols)}"
        )
    return Listener(
        name, protocols[name], None if port is None else _checked_port("listeners", int(port)), form["host"] or ""
    )


def _security_protocols(text: str) -> dict[str, str]:
    """Return the security protocol of each listener, by listener name.

    ``text``: value of ``listener.security.protocol.map``.

    Raises:
        SettingsError: An entry is malformed or contains an unknown protocol.
    """
    protocols = {}
    for entry in filter(None, (entry.strip() for entry in text.split(","))):
        name, _, protocol = entry.partition(":")
        if not name or protocol.upper() not in PROTOCOLS:
            raise SettingsError(f"listener.security.protocol.map: expected NAME:{'|'.join(PROTOCOLS)}, got {entry!r}")
        protocols[name.upper()] = protocol.upper()
    return protocols
