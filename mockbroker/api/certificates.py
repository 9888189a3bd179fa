"""The TLS contexts and certificate files that a cluster creates for its listeners."""

from __future__ import annotations

from mockbroker.base.settings import STORES, Settings
from mockbroker.net.addresses import Addresses
from mockbroker.net.tls import GeneratedCertificates, Tls, TlsFiles, is_generated


class Certificates:
    """The TLS contexts and certificate files of a cluster.

    Contexts and files are created when the first TLS listener opens. If a later listener needs an additional host name,
    they are created again. Listeners with the same settings share a context. All listeners without a keystore share the
    generated certificates.

    Args:
        host: Host name or address that every listener binds to.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._generated: GeneratedCertificates | None = None
        self._names: tuple[str, ...] = ()
        self._listeners: dict[tuple[str | None, ...], Tls] = {}

    @property
    def files(self) -> TlsFiles:
        """The files that TLS clients need. Every path is None if no TLS listener uses generated certificates."""
        return self._generated.files if self._generated else TlsFiles()

    @property
    def generated(self) -> GeneratedCertificates | None:
        """The generated certificates; None if no TLS listener uses them."""
        return self._generated

    @property
    def in_use(self) -> list[Tls]:
        """The TLS contexts in use: one for each set of equal TLS settings."""
        return list(self._listeners.values())

    def get(self, settings: Settings, listener: str, addresses: Addresses) -> Tls:
        """Return the TLS context and certificates of a listener. Equal settings and host names return the same object.

        If the host names have changed since the last call, all contexts and generated certificates are created again.

        Args:
            settings: the broker configuration.
            listener: name of the listener.
            addresses: the addresses to advertise. The generated certificate contains their host names.

        Raises: SettingsError if the settings name unusable keystore or truststore files.
        """
        names = tuple(sorted({self._host} | addresses.names))
        if names != self._names:
            self.close()
            self._names = names
        own = settings.of_listener(listener)
        inputs = (own.ssl_client_auth, *map(own.ssl_text, STORES))
        if inputs not in self._listeners:
            if self._generated is None and is_generated(own):
                self._generated = GeneratedCertificates(*names)
            self._listeners[inputs] = Tls(own, *names, generated=self._generated)
        return self._listeners[inputs]

    def close(self) -> None:
        """Delete the generated certificate files, and forget all TLS contexts."""
        if self._generated is not None:
            self._generated.close()
            self._generated = None
        self._listeners.clear()
