"""Reader of the connection limits in a broker configuration, such as ``max.connections``."""

from __future__ import annotations

from collections.abc import Mapping

from mockbroker.base.settings import (
    CREATION_RATE,
    INTER_BROKER_LISTENER,
    INTER_BROKER_PROTOCOL,
    LIMITS_OF_LISTENER,
    MAX_CONNECTIONS,
    OF_LISTENER,
    Settings,
    overrides,
)
from mockbroker.quotas.connection_quotas import UNLIMITED, ConnectionLimits


def connection_limits(settings: Settings) -> ConnectionLimits:
    """Return the connection limits that a broker configuration contains."""
    others = settings.others
    return ConnectionLimits(
        connections=settings.max_connections,
        per_ip=settings.max_connections_per_ip,
        overrides=overrides(settings.max_connections_per_ip_overrides),
        rate=settings.max_connection_creation_rate,
        of_listeners=_of_listeners(others),
        protected=(others.get(INTER_BROKER_LISTENER) or others.get(INTER_BROKER_PROTOCOL) or "PLAINTEXT").upper(),
        windows=settings.quota_window_num,
        window=settings.quota_window_size_seconds,
    )


def _of_listeners(others: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """Return ``max.connections`` and ``max.connection.creation.rate`` of each listener, by listener name.

    A listener without such settings has no entry; a limit that is not set is UNLIMITED.

    ``others``: settings by name. Only those with the prefix ``listener.name.NAME.`` are used.
    """
    limits: dict[str, dict[str, int]] = {}
    for name, value in others.items():
        for setting in LIMITS_OF_LISTENER:
            if name.startswith(OF_LISTENER) and name.endswith(f".{setting}"):
                listener = name[len(OF_LISTENER) : -len(setting) - 1].upper()
                limits.setdefault(listener, {})[setting] = int(value)
    return {
        listener: (each.get(MAX_CONNECTIONS, UNLIMITED), each.get(CREATION_RATE, UNLIMITED))
        for listener, each in limits.items()
    }
