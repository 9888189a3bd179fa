"""TLS contexts of listeners whose certificates AlterConfigs has replaced (Kafka's DynamicBrokerConfig)."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from mockbroker.base.settings import SettingsError
from mockbroker.broker.broker import Broker
from mockbroker.net.bound_listeners import BoundListener
from mockbroker.net.tls import Tls, TlsContext, TlsFileError

log = logging.getLogger("mockbroker")

KEYSTORE, TRUSTSTORE = "ssl.keystore.location", "ssl.truststore.location"
NO_TRUSTSTORE = "Cannot add SSL truststore to an existing listener for which no truststore was configured."
NO_KEYSTORE = "Cannot add SSL keystore to an existing listener for which no keystore was configured."
Files = tuple[str | None, str | None]  # keystore and truststore of a listener that AlterConfigs has set


class RefusedFileError(Exception):
    """The error for files that a listener cannot change to. Its message is Kafka's, with the class of the exception."""


class DynamicTls:
    """The TLS contexts for new connections. Open connections keep theirs.

    The files of a listener are in its settings ``listener.name.<name>.ssl.keystore.location`` and
    ``ssl.truststore.location``. As in Kafka, they are read again after each change of the broker's settings, also if
    the path is the same, and the path of the static settings if the setting is deleted.

    Args:
        listeners: Function that returns the open listeners.
        broker: Function that returns the broker, which is another one after a reset.
    """

    def __init__(self, listeners: Callable[[], Iterable[BoundListener]], broker: Callable[[], Broker]) -> None:
        self._listeners = listeners
        self._broker = broker
        self._known: Broker | None = None
        self._contexts: dict[tuple[int, str], ssl.SSLContext] = {}

    def context(self, listener: BoundListener) -> ssl.SSLContext | None:
        """Return the context for a new connection; None if the listener does not use TLS."""
        if listener.tls is None:
            return None
        broker = self._broker()
        if self._known is not broker:
            self._known = broker
            self._contexts.clear()
        key = listener.node, listener.name
        if key not in self._contexts:
            configs = broker.broker_settings.set_on(str(listener.node))
            is_stored = any(_files(listener, configs))
            self._contexts[key] = self._reloaded(listener, configs, listener.tls, None) if is_stored else listener.tls
        return self._contexts[key]

    def refusal(self, node: int, configs: Mapping[str, str]) -> str | None:
        """Return the reason why a broker's listeners cannot change to the files in new settings; None if they can.

        Args:
            node: Id of the broker.
            configs: The settings that would be set on the broker.
        """
        before = self._broker().broker_settings.set_on(str(node))
        for listener in self._of(node):
            existing = self.context(listener)  # also before the first connection
            if _files(listener, configs) != _files(listener, before):
                try:
                    self._loaded(listener, configs, existing)
                except RefusedFileError as error:
                    return str(error)
        return None

    def reload(self, node: int) -> None:
        """Read the files of a broker's listeners after a change of its settings. ``node``: id of the broker.

        If a file is refused, the listener keeps its context, and the reason is logged.
        """
        configs = self._broker().broker_settings.set_on(str(node))
        for listener in self._of(node):
            context = self.context(listener)
            if isinstance(context, TlsContext) and context.keystore:
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
        """Return a context with the files in the settings, or ``context`` if they are refused; then log the reason.

        The other arguments are those of ``_loaded``.
        """
        try:
            return self._loaded(listener, configs, existing)
        except RefusedFileError as error:
            log.warning("listener %s of broker %d keeps its certificates: %s", listener.name, listener.node, error)
            return context

    def _loaded(
        self, listener: BoundListener, configs: Mapping[str, str], existing: ssl.SSLContext | None
    ) -> TlsContext:
        """Return a context with the files in the settings.

        Args:
            listener: The listener.
            configs: The settings of its broker that AlterConfigs has set.
            existing: The context whose certificate is replaced; None to accept any certificate.

        Raises:
            RefusedFileError: A file cannot be loaded, or cannot replace the existing one.
        """
        settings = self._broker().broker_settings.static
        names = settings.ssl_keystore_location, settings.ssl_truststore_location
        given = _files(listener, configs)
        keystore, truststore = (own if dynamic is None else dynamic for dynamic, own in zip(given, names, strict=True))
        for path, name in zip((keystore, truststore), given, strict=True):
            if (path or name is not None) and not Path(path).is_file():  # a named pipe would block the broker
                raise _not_loaded(path)
        try:
            new = Tls(replace(settings, ssl_keystore_location=keystore, ssl_truststore_location=truststore))
        except TlsFileError as error:
            raise _not_loaded(error.path) from error
        except SettingsError as error:
            raise _invalid(str(error)) from error
        new.close()
        try:
            reason = _replacement_error(existing, new.context) if isinstance(existing, TlsContext) else None
        except ValueError as error:  # a certificate that only OpenSSL can read
            raise _not_loaded(keystore) from error
        if reason:
            raise _invalid(reason)
        return new.context


def _replacement_error(existing: TlsContext, new: TlsContext) -> str | None:
    from mockbroker.security.keystore_rules import read_entry, replacement_error  # late: few clusters change files

    if new.keystore and not existing.keystore:
        return NO_KEYSTORE
    if new.keystore and (error := replacement_error(read_entry(existing.keystore), read_entry(new.keystore))):
        return error
    return NO_TRUSTSTORE if new.has_truststore and not existing.has_truststore else None


def _files(listener: BoundListener, configs: Mapping[str, str]) -> Files:
    prefix = f"listener.name.{listener.name.lower()}."
    return configs.get(prefix + KEYSTORE), configs.get(prefix + TRUSTSTORE)


def _not_loaded(path: str) -> RefusedFileError:
    reason = f"Failed to load PEM SSL keystore {path}"  # Kafka's words for truststores too
    return RefusedFileError(f"org.apache.kafka.common.errors.InvalidConfigurationException: {reason}")


def _invalid(reason: str) -> RefusedFileError:
    return RefusedFileError(f"org.apache.kafka.common.config.ConfigException: {reason}")
