"""Listeners by Kafka's setting of that name: where a broker is reached, and how one speaks there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mockbroker.base.settings import CONTROLLERS, Settings, SettingsError

PLAINTEXT, SASL_PLAINTEXT = "PLAINTEXT", "SASL_PLAINTEXT"
PROTOCOLS = (PLAINTEXT, "SSL", SASL_PLAINTEXT, "SASL_SSL")
FORM = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)(?:://(?P<host>[^,/]*):(?P<port>[0-9]{1,5}))?")
LAST_PORT = 65_535
ANYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - hosts that no client can connect to


@dataclass(frozen=True, slots=True)
class Advertised:
    """Where clients are sent. ``host``: "" for the broker's; ``port``: the first broker's, 0 for the bound one."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Listener:
    """``protocol``: one of PROTOCOLS; ``port``: that of the first broker, 0 for any, None for one beside the others;
    ``host``: an address if it was given."""

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
    """The listeners of a broker, at least one: where none is set it is PLAINTEXT, or with users SASL_PLAINTEXT.

    A name that is no protocol has one in ``listener.security.protocol.map``. Raises: SettingsError.
    """
    protocols = {name: name for name in PROTOCOLS} | _map(settings.listener_security_protocol_map)
    texts = _texts(settings.listeners, settings)
    found = [_listener(text, protocols) for text in texts or [SASL_PLAINTEXT if users else PLAINTEXT]]
    names = [listener.name for listener in found]
    if len(set(names)) < len(names):
        raise SettingsError(f"listeners: a name stands twice in {settings.listeners}")
    return tuple(found)


def advertised(settings: Settings, listeners: Iterable[Listener]) -> dict[str, Advertised]:
    """``advertised.listeners``, by the name of the listener. Raises: SettingsError."""
    known = {listener.name for listener in listeners}
    found: dict[str, Advertised] = {}
    for text in _texts(settings.advertised_listeners, settings):
        form = FORM.fullmatch(text)
        if form is None or form["port"] is None or form["host"] in ANYWHERE:
            raise SettingsError(f"advertised.listeners: expected NAME://HOST:PORT, got {text!r}")
        name, port = form["name"].upper(), int(form["port"])
        if name not in known:
            names = ", ".join(sorted(known))
            raise SettingsError(f"advertised.listeners: {name} is none of the listeners, which are {names}")
        if port > LAST_PORT or name in found:
            raise SettingsError(f"advertised.listeners: {text}: {'named twice' if name in found else 'no such port'}")
        found[name] = Advertised(form["host"], port)
    return found


def _texts(listeners: str, settings: Settings) -> list[str]:
    """The listeners of a setting, without those of controllers, which are not here."""
    controllers = {name.strip().upper() for name in settings.others.get(CONTROLLERS, "").split(",")}
    texts = [text.strip() for text in listeners.split(",") if text.strip()]
    return [text for text in texts if text.partition("://")[0].upper() not in controllers]


def users_of(text: str) -> dict[str, str]:
    """``alice:secret,bob:other`` -> passwords by user. Raises: SettingsError."""
    found: dict[str, str] = {}
    for one in filter(None, (one.strip() for one in text.split(","))):
        name, colon, password = one.partition(":")
        if not name or not colon or not password:
            raise SettingsError("users: expected NAME:PASSWORD")
        if name in found:
            raise SettingsError(f"users: {name} stands there twice")
        found[name] = password
    return found


def port_for(listeners: Iterable[Listener], wanted: str, base: int, brokers: int, number: int) -> int:
    """Where broker ``number`` (from 0) listens: at a port of its own, or behind ``base`` and the listeners before."""
    for index, listener in enumerate(listeners):
        if listener.name == wanted:
            first = listener.port if listener.port is not None else base and base + index * brokers
            return first and first + number
    raise KeyError(wanted)


def _listener(text: str, protocols: dict[str, str]) -> Listener:
    found = FORM.fullmatch(text)
    if found is None:
        raise SettingsError(f"listeners: expected NAME or NAME://:PORT, got {text!r}")
    name, port = found["name"].upper(), found["port"]
    if name not in protocols:
        known = ", ".join(protocols)
        raise SettingsError(f"listeners: {name} is none of {known}; listener.security.protocol.map names others")
    if port is not None and int(port) > LAST_PORT:
        raise SettingsError(f"listeners: {text}: there is no such port")
    return Listener(name, protocols[name], None if port is None else int(port), found["host"] or "")


def _map(text: str) -> dict[str, str]:
    found = {}
    for one in filter(None, (one.strip() for one in text.split(","))):
        name, _, protocol = one.partition(":")
        if not name or protocol.upper() not in PROTOCOLS:
            raise SettingsError(f"listener.security.protocol.map: expected NAME:{'|'.join(PROTOCOLS)}, got {one!r}")
        found[name.upper()] = protocol.upper()
    return found
