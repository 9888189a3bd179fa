"""The TLS certificates of a cluster."""

from __future__ import annotations

from mockbroker.base.settings import Settings
from mockbroker.net.addresses import Addresses
from mockbroker.net.tls import Tls, TlsFiles


class Certificates:
    """Certificates of a cluster, made when a listener first needs them, and again when settings name other files."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._made: Tls | None = None
        self._of: tuple[str, ...] = ()

    @property
    def files(self) -> TlsFiles:
        """What clients need; no files before a listener has needed certificates."""
        return self._made.files if self._made else TlsFiles()

    def get(self, settings: Settings, addresses: Addresses) -> Tls:
        """Return the TLS contexts for these settings and names. Raises: SettingsError."""
        names = sorted({self._host} | addresses.names)
        of = (settings.ssl_client_auth, settings.ssl_keystore_location, settings.ssl_truststore_location, *names)
        if self._made is None or of != self._of:
            made = Tls(settings, *names)
            self.close()
            self._made, self._of = made, of
        return self._made

    def close(self) -> None:
        """Delete the files that were made."""
        if self._made is not None:
            self._made.close()
            self._made = None
