"""Listeners by Kafka's setting of that name: where a broker is reached, and how one speaks there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mockbroker.settings import Settings, SettingsError

PLAINTEXT, SASL_PLAINTEXT = "PLAINTEXT", "SASL_PLAINTEXT"
PROTOCOLS = (PLAINTEXT, "SSL", SASL_PLAINTEXT, "SASL_SSL")
FORM = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)(?:://(?P<host>[^,/]*):(?P<port>[0-9]{1,5}))?")
LAST_PORT = 65_535


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
    texts = [text.strip() for text in settings.listeners.split(",") if text.strip()]
    found = [_listener(text, protocols) for text in texts or [SASL_PLAINTEXT if users else PLAINTEXT]]
    names = [listener.name for listener in found]
    if len(set(names)) < len(names):
        raise SettingsError(f"listeners: a name stands twice in {settings.listeners}")
    return tuple(found)


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
