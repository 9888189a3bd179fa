"""TLS contexts of listeners whose certificates AlterConfigs has replaced (Kafka's DynamicBrokerConfig)."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from dataclasses import replace

from mockbroker.base.live_settings import LiveSettings
from mockbroker.base.settings import Settings, SettingsError
from mockbroker.net.bound_listeners import BoundListener
from mockbroker.net.tls import Tls

log = logging.getLogger("mockbroker")

KEYSTORE, TRUSTSTORE = "ssl.keystore.location", "ssl.truststore.location"


class DynamicTls:
    """The TLS contexts for new connections. Open connections keep theirs.

    The files of a listener are in its settings ``listener.name.<name>.ssl.keystore.location`` and
    ``ssl.truststore.location``. As in Kafka, they are read again after a change of the broker's settings, also if the
    path is the same.
    """

    def __init__(self) -> None:
        self._contexts: dict[tuple[int, str], tuple[Mapping[str, str], ssl.SSLContext]] = {}

    def context(self, listener: BoundListener, settings: Settings) -> ssl.SSLContext | None:
        """Return the context for a new connection; None if the listener does not use TLS.

        If a file cannot be loaded, return the context before the change, and log the reason once.

        Args:
            listener: The listener that has accepted the connection.
            settings: The settings of the listener's broker.
        """
        if listener.tls is None or not isinstance(settings, LiveSettings):
            return listener.tls
        key, configs = (listener.node, listener.name), settings.of_broker
        known, context = self._contexts.get(key, ({}, listener.tls))
        if known is not configs:
            context = self._changed(listener, settings, context)
            self._contexts[key] = configs, context
        return context

    def _changed(self, listener: BoundListener, settings: LiveSettings, context: ssl.SSLContext) -> ssl.SSLContext:
        """Return the context after a change of settings. ``context``: the context before it."""
        assert listener.tls is not None
        prefix = f"listener.name.{listener.name.lower()}."
        keystore, truststore = (settings.of_broker.get(prefix + name) for name in (KEYSTORE, TRUSTSTORE))
        if keystore is None and truststore is None:
            return listener.tls
        keystore = settings.ssl_keystore_location if keystore is None else keystore
        truststore = settings.ssl_truststore_location if truststore is None else truststore
        reason = f"{prefix}{TRUSTSTORE} has no effect on generated certificates: set {KEYSTORE} too"
        if keystore:
            try:
                return Tls(
                    replace(settings.static, ssl_keystore_location=keystore, ssl_truststore_location=truststore)
                ).context
            except SettingsError as error:
                reason = str(error)
        log.warning("listener %s of broker %d keeps its certificates: %s", listener.name, listener.node, reason)
        return context
