"""The check of a change of broker settings against the dynamic settings of each open listener. The functions are pure.

Kafka rejects a change of a setting that applies to all listeners while a listener has a dynamic setting that cannot be
changed while the listener is open. Kafka compares the dynamic settings of the listener with the static settings. So a
dynamic setting from an earlier request counts too.

Source: Kafka's DynamicListenerConfig.validateReconfiguration, as recorded in fixtures/keystores.json.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mockbroker.base.settings import Settings, listener_prefix
from mockbroker.topics.dynamic_broker_configs import (
    BY_LISTENER_ONLY,
    OF_LISTENERS_OF_ALL_BROKERS,
    OF_ONE_BROKER,
    SECURITY,
    invalid,
)

OF_ALL_LISTENERS = OF_ONE_BROKER | OF_LISTENERS_OF_ALL_BROKERS
CHANGEABLE = (  # settings of one listener that Kafka applies
    BY_LISTENER_ONLY | OF_LISTENERS_OF_ALL_BROKERS | {"max.connections.per.ip", "max.connections.per.ip.overrides"}
)


def listeners_error(
    static: Settings, before: Mapping[str, str], after: Mapping[str, str], listeners: Iterable[str]
) -> str | None:
    """Return Kafka's error message if the listeners of a broker do not permit a change of its settings; None if they
    do.

    Args:
        static: The settings that the cluster was started with.
        before: The dynamic settings that apply to the broker before the change, by name. They include the cluster-wide
            settings.
        after: The dynamic settings that apply to the broker after the change, by name. They include the cluster-wide
            settings.
        listeners: Names of the broker's listeners, in order.
    """
    texts = {name: static.text(name) for name in static.given}
    old, new = {**texts, **before}, {**texts, **after}
    changed = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    if not any(name in OF_ALL_LISTENERS or name.startswith(SECURITY) for name in changed):
        return None
    for listener in listeners:
        prefix = listener_prefix(listener)
        if any(texts.get(name) != value for name, value in after.items() if _is_fixed(name, prefix)):
            reason = f"Configs cannot be updated dynamically for existing listener ListenerName({listener.upper()})"
            return invalid(f"{reason}, restart broker or create a new listener for update")
    return None


def _is_fixed(name: str, prefix: str) -> bool:
    """Return whether a setting of one listener cannot be changed while the listener is open.

    Args:
        name: Name of the setting, with the prefix of the listener.
        prefix: The prefix, such as ``listener.name.internal.``.
    """
    return name.startswith(prefix) and name.removeprefix(prefix) not in CHANGEABLE
