"""TLS contexts of the listeners, with the certificates that AlterConfigs has set (Kafka's DynamicBrokerConfig)."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from mockbroker.base.settings import STORES, SettingsError, listener_prefix
from mockbroker.broker.broker import Broker
from mockbroker.net.bound_listeners import BoundListener
from mockbroker.net.tls import Tls, TlsContext

if TYPE_CHECKING:
    from mockbroker.security.keystores import Contents

log = logging.getLogger("mockbroker")

NO_TRUSTSTORE = "Cannot add SSL truststore to an existing listener for which no truststore was configured."
NO_KEYSTORE = "Cannot add SSL keystore to an existing listener for which no keystore was configured."


class RefusedFileError(Exception):
    """The error for a keystore or truststore that cannot replace the current keystore or truststore of a listener.

    The message is Kafka's. It begins with the name of Kafka's exception class.
    """


class DynamicTls:
    """The TLS contexts for new connections. Open connections keep their TLS contexts.

    AlterConfigs sets the keystore and the truststore of a listener by the settings in STORES with the prefix of the
    listener, such as ``listener.name.<name>.ssl.keystore.location``. As in Kafka, the files are read again after each
    change of a broker's settings, also if the paths are the same. If AlterConfigs deletes such a setting, the listener
    uses the file of the static settings again.

    Args:
        listeners: Function that returns the open listeners.
        broker: Function that returns the current broker; a reset of the cluster replaces the broker.
    """

    def __init__(self, listeners: Callable[[], Iterable[BoundListener]], broker: Callable[[], Broker]) -> None:
        self._listeners = listeners
        self._broker = broker
        self._known: Broker | None = None
        self._contexts: dict[tuple[int, str], ssl.SSLContext] = {}

    def context(self, listener: BoundListener) -> ssl.SSLContext | None:
        """Return the TLS context for a new connection to a listener; None if the listener does not use TLS."""
        if listener.tls is None:
            return None
        broker = self._broker()
        if self._known is not broker:
            self._known = broker
            self._contexts.clear()
        key = listener.node, listener.name
        if key not in self._contexts:
            configs = broker.broker_settings.set_on(str(listener.node))
            is_stored = bool(_stores(listener, configs))
            self._contexts[key] = self._reloaded(listener, configs, listener.tls, None) if is_stored else listener.tls
        return self._contexts[key]

    def refusal(self, node: int, configs: Mapping[str, str]) -> str | None:
        """Return the reason why a broker's listeners cannot use the keystores and truststores in new settings.

        The result is None if all listeners can use their keystore and truststore. The files of a listener are read only
        if one of its keystore or truststore settings changes.

        Args:
            node: id of the broker.
            configs: the new dynamic settings of the broker, by name: the complete set, without cluster-wide settings.
        """
        before = self._broker().broker_settings.set_on(str(node))
        for listener in self._of(node):
            existing = self.context(listener)  # also before the first connection
            if _stores(listener, configs) != _stores(listener, before):
                try:
                    self._loaded(listener, configs, existing)
                except RefusedFileError as error:
                    return str(error)
        return None

    def names(self, node: int) -> list[str]:
        """Return the names of a broker's listeners. ``node``: id of the broker."""
        return [each.name for each in self._listeners() if each.node == node]

    def reload(self, node: int) -> None:
        """Read the keystores and truststores of a broker's listeners again after a change of its settings.

        Listeners with generated certificates are not changed. If a file cannot be used, the listener keeps its current
        TLS context, and a warning with the reason is logged.

        ``node``: id of the broker.
        """
        configs = self._broker().broker_settings.set_on(str(node))
        for listener in self._of(node):
            context = self.context(listener)
            if isinstance(context, TlsContext) and context.keystore is not None:
                self._contexts[node, listener.name] = self._reloaded(listener, configs, context, context)

    def _of(self, node: int) -> list[BoundListener]:
        return [each for each in self._listeners() if each.node == node and each.tls is not None]

    def _reloaded(
        self,
        listener: BoundListener,
        configs: Mapping[str, str],
        context: ssl.SSLContext,
        existing: ssl.SSLContext | None,
    ) -> ssl.SSLContext:
        """Return a new TLS context for a listener. If a file cannot be used, log a warning and return ``context``.

        Args:
            listener: The listener.
            configs: The settings that AlterConfigs has set for the listener's broker, by name.
            context: The result if a keystore or truststore cannot be used.
            existing: The current TLS context; the new certificate must be compatible with its certificate, as in Kafka.
                None to accept any new certificate.
        """
        try:
            return self._loaded(listener, configs, existing)
        except RefusedFileError as error:
            log.warning(
                "listener %s of broker %d keeps its current certificates: %s", listener.name, listener.node, error
            )
            return context

    def _loaded(
        self, listener: BoundListener, configs: Mapping[str, str], existing: ssl.SSLContext | None
    ) -> TlsContext:
        """Return a new TLS context for a listener, with the keystore and the truststore in its settings.

        Args:
            listener: The listener.
            configs: The settings that AlterConfigs has set for the listener's broker, by name.
            existing: The current TLS context; the new certificate must be compatible with its certificate, as in Kafka.
                None to accept any new certificate.

        Raises:
            RefusedFileError: A file cannot be loaded, or the new keystore or truststore may not replace that of
                ``existing``.
        """
        from mockbroker.security.keystores import KeystoreError, read_keystore, read_truststore  # late: few clusters

        own = self._broker().broker_settings.static.of_listener(listener.name)
        given = _stores(listener, configs)

        def text(name: str) -> str | None:
            return given.get(name, own.ssl_text(name))

        try:
            keystore, truststore = read_keystore(text), read_truststore(text)
        except KeystoreError as error:
            raise RefusedFileError(str(error)) from error
        reason = _replacement_error(existing, keystore, truststore) if isinstance(existing, TlsContext) else None
        if reason:
            raise _invalid(reason)
        try:
            new = Tls(own, stores=(keystore, truststore))
        except SettingsError as error:
            raise _invalid(str(error)) from error
        new.close()
        return new.context


def _replacement_error(existing: TlsContext, keystore: Contents | None, truststore: Contents | None) -> str | None:
    from mockbroker.security.keystore_rules import read_entry, replacement_error  # late: few clusters change files

    if keystore is not None:
        if existing.keystore is None:
            return NO_KEYSTORE
        if error := replacement_error(read_entry(existing.keystore), read_entry(keystore)):
            return error
    return NO_TRUSTSTORE if truststore is not None and not existing.has_truststore else None


def _stores(listener: BoundListener, configs: Mapping[str, str]) -> dict[str, str]:
    """Return the keystore and truststore settings that AlterConfigs has set for a listener, by name without the
    listener's prefix.

    Args:
        listener: The listener.
        configs: The settings that AlterConfigs has set for the listener's broker, by name.
    """
    prefix = listener_prefix(listener.name)
    return {name: configs[prefix + name] for name in STORES if prefix + name in configs}


def _invalid(reason: str) -> RefusedFileError:
    return RefusedFileError(f"org.apache.kafka.common.config.ConfigException: {reason}")
