"""The TLS contexts and certificate files that a cluster creates for its listeners."""

from __future__ import annotations

from mockbroker.base.settings import Settings
from mockbroker.net.addresses import Addresses
from mockbroker.net.tls import Tls, TlsFiles


class Certificates:
    """The TLS contexts and certificate files of a cluster.

    Contexts and files are created when the first TLS listener opens, and again when the settings name other files or
    hosts.

    Args:
        host: Host name or address that every listener binds to.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._tls: Tls | None = None
        self._inputs: tuple[str, ...] = ()

    @property
    def files(self) -> TlsFiles:
        """The files that TLS clients need; every path is None until the first TLS listener is opened."""
        return self._tls.files if self._tls else TlsFiles()

    def get(self, settings: Settings, addresses: Addresses) -> Tls:
        """Return the TLS contexts for these settings and host names; equal arguments return the same contexts.

        Raises: SettingsError if the settings name unusable keystore or truststore files.
        """
        names = sorted({self._host} | addresses.names)
        inputs = (settings.ssl_client_auth, settings.ssl_keystore_location, settings.ssl_truststore_location, *names)
        if self._tls is None or inputs != self._inputs:
            tls = Tls(settings, *names)
            self.close()
            self._tls, self._inputs = tls, inputs
        return self._tls

    def close(self) -> None:
        """Delete the generated certificate files."""
        if self._tls is not None:
            self._tls.close()
            self._tls = None
