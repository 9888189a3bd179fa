"""TLS for listeners: generated or configured certificates, and a TLS socket that behaves like a plain one.

A handshake needs no task: it continues whenever bytes arrive. OpenSSL buffers at most about 100 KiB of an unfinished
handshake.
"""

from __future__ import annotations

import os
import ssl
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING, Any

from kwire.lazy_dataclass import dataclass
from mockbroker.base.settings import Settings, SettingsError
from mockbroker.security.ssl_principals import parse_rules

if TYPE_CHECKING:
    from mockbroker.security.keystores import Contents

    _SSLSocket = ssl.SSLSocket
else:
    _SSLSocket = object

VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
NOT_TLS = {"HTTP_REQUEST", "WRONG_VERSION_NUMBER", "HTTPS_PROXY_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE"}
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")  # in every generated certificate, beside the advertised hosts
CLIENT = "client"  # common name of the client certificate


class TlsContext(ssl.SSLContext):
    """The TLS context of server sockets.

    Attributes:
        keystore: The content of the keystore that was loaded; None if the certificate was generated.
        has_truststore: Whether a truststore for client certificates was loaded.
    """

    keystore: Contents | None = None
    has_truststore = False


class TlsError(OSError):
    """The error for a failed TLS handshake or an invalid TLS record. The message is OpenSSL's reason."""


class TlsStream(_SSLSocket):
    """A mixin for non-blocking TLS sockets that raise the exceptions of a plain socket.

    The socket raises BlockingIOError if it is not ready. After a TLS error, ``recv`` raises TlsError, and ``send``
    raises ssl.SSLError (both are OSErrors). A subclass must inherit from this mixin first, and then from a class with
    the methods of ``ssl.SSLSocket``.

    Attributes:
        established: True once the TLS handshake is complete.
        aborted: True to send no close_notify alert at the end, because the connection is reset.
    """

    established = False
    aborted = False

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        try:
            data = super().recv(buflen, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            self.established = self.version() is not None  # OpenSSL returns None during the handshake
            raise BlockingIOError from None
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return b""
        except ssl.SSLError as error:
            raise TlsError(failure_reason(error)) from error
        self.established = True
        return data

    def send(self, data: Any, flags: int = 0) -> int:
        """Send as many bytes as the client accepts now, in TLS records of at most 16 KiB.

        Args:
            data: The bytes.
            flags: Must be 0, as for ``ssl.SSLSocket``.

        Returns: The number of sent bytes.

        Raises: BlockingIOError if no bytes can be sent now; ssl.SSLError, an OSError, after a TLS error.
        """
        sent = 0
        with memoryview(data) as view:
            while sent < len(view):
                with view[sent:] as rest:
                    try:
                        sent += super().send(rest, flags)
                    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                        break
        if not sent:
            raise BlockingIOError
        return sent

    def close(self) -> None:
        if self.established and not self.aborted:
            with suppress(OSError, ValueError):
                self.unwrap()  # sends close_notify, and does not wait for the peer's
        super().close()


class TlsSocket(TlsStream, ssl.SSLSocket):
    """A non-blocking TLS socket. For its exceptions, see TlsStream."""


def failure_reason(error: ssl.SSLError) -> str:
    """Return the reason why a TLS connection to a client failed, beginning with ``TLS:``. ``error``: the error."""
    reason = (error.reason or "").replace("_", " ").lower() or str(error)
    if error.reason == "CERTIFICATE_VERIFY_FAILED":
        reason = f"the client certificate is invalid: {getattr(error, 'verify_message', reason)}"
    hint = "; the client does not use TLS" if error.reason in NOT_TLS else ""
    return f"TLS: {reason}{hint}"


def pkcs8(key: bytes) -> bytes:
    """Convert a private key to PKCS #8, the only format of PEM keys that Java clients read.

    ``key``: the private key as PEM. The result is PEM too.
    """
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    from mockbroker.security.keystores import pkcs8_pem

    return pkcs8_pem(load_pem_private_key(key, None))


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The PEM files that TLS clients need. All attributes are None without a TLS listener, and if the listener uses a
    configured keystore.

    Attributes:
        ca: File with the certificate of the generated authority, which clients must trust.
        client: File with the key and the certificate of a client, for TLS client authentication.
    """

    ca: Path | None = None
    client: Path | None = None


class GeneratedCertificates:
    """A generated certificate authority, with certificates for the brokers and for a client.

    The files for clients exist until ``close``.

    Args:
        hosts: advertised hosts of the brokers. The certificate of the brokers contains these hosts.

    Attributes:
        authority: the certificate authority (trustme). It has signed the certificates of the brokers and of the client.
        of_brokers: the certificate of the brokers.
        files: the PEM files for clients.

    Raises: SettingsError if a certificate cannot contain a host, such as ``kafka_1``.
    """

    def __init__(self, *hosts: str) -> None:
        from trustme import CA

        self.authority = CA(organization_name="mockbroker")
        try:
            self.of_brokers = self.authority.issue_cert(*dict.fromkeys(filter(None, (*LOCAL_NAMES, *hosts))))
        except UnicodeError as error:  # such as IDNAError
            names = ", ".join(dict.fromkeys(hosts))
            raise SettingsError(
                f"ssl.keystore.location: no certificate can be generated for {names}: {error}: use another host, or a "
                "certificate of your own"
            ) from error
        client = self.authority.issue_cert(f"{CLIENT}@localhost", common_name=CLIENT)
        self._folder: Path | None = Path(mkdtemp(prefix="mockbroker-tls-"))
        self.files = TlsFiles(self._folder / "ca.pem", self._folder / "client.pem")
        self.authority.cert_pem.write_to_path(os.fspath(self._folder / "ca.pem"))
        (self._folder / "client.pem").write_bytes(
            pkcs8(client.private_key_pem.bytes()) + b"".join(blob.bytes() for blob in client.cert_chain_pems)
        )

    def close(self) -> None:
        """Delete the PEM files for clients."""
        folder, self._folder = self._folder, None
        for path in list(folder.iterdir()) if folder else []:
            path.unlink()
        if folder:
            folder.rmdir()


def is_generated(settings: Settings) -> bool:
    """Return whether a listener with these settings uses a generated certificate, because no keystore is configured."""
    return settings.ssl_text("ssl.keystore.location") is None and settings.ssl_text("ssl.keystore.key") is None


class Tls:
    """The TLS context and certificates of a listener, or of several listeners with the same settings.

    Without a keystore, certificates are generated; the files for clients are in a temporary folder until ``close``.

    Args:
        settings: the broker configuration; its settings ``ssl.*`` are those of the listener.
        hosts: advertised hosts of the brokers, for the generated certificate.
        generated: generated certificates to use instead of new ones; ``close`` does not delete their files. None to
            generate new ones if no keystore is configured.
        stores: contents of the keystore and of the truststore, to use instead of the files in the settings; None in the
            tuple for a store that is not configured. None to read the files.

    Attributes:
        context: the TLS context for server sockets.
        files: the PEM files that clients need.

    Raises:
        SettingsError: A file cannot be loaded (the cause is then a KeystoreError), a rule in
            ``ssl.principal.mapping.rules`` is not valid, the truststore for client certificates is missing, or no
            certificate can be generated for a host.
    """

    def __init__(
        self,
        settings: Settings,
        *hosts: str,
        generated: GeneratedCertificates | None = None,
        stores: tuple[Contents | None, Contents | None] | None = None,
    ) -> None:
        parse_rules(settings.ssl_principal_mapping_rules)
        self.context = TlsContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.sslsocket_class = TlsSocket
        self.context.verify_mode = VERIFY[settings.ssl_client_auth]
        self.files = TlsFiles()
        self._own: GeneratedCertificates | None = None
        keystore, truststore = stores or _stores(settings)
        if keystore is None:
            if generated is None:
                self._own = generated = GeneratedCertificates(*hosts)
            generated.of_brokers.configure_cert(self.context)
            self.files = generated.files
        else:
            self._use_keystore(keystore)
        if truststore is not None:
            self._use_truststore(truststore)
        elif keystore is None and generated is not None:
            generated.authority.configure_trust(self.context)
        elif settings.ssl_client_auth != "none":
            raise SettingsError(
                f"ssl.client.auth={settings.ssl_client_auth} needs ssl.truststore.location, a file with the "
                "certificates to trust"
            )

    def close(self) -> None:
        """Delete the generated files for clients."""
        if self._own is not None:
            self._own.close()

    def _use_keystore(self, keystore: Contents) -> None:
        """Load the broker's key and certificates into the TLS context, and set the attribute ``keystore`` of the
        context.

        Key and certificates are written to a temporary file, because OpenSSL reads them only from a file.

        ``keystore``: content of the keystore.

        Raises: SettingsError if OpenSSL cannot load the key or the certificates.
        """
        with TemporaryDirectory(prefix="mockbroker-tls-") as folder:
            path = Path(folder) / "keystore.pem"
            path.touch(0o600)
            path.write_bytes(keystore.pem)
            try:
                self.context.load_cert_chain(path)
            except (OSError, ssl.SSLError) as error:
                raise SettingsError(f"ssl.keystore.location: {_words(error)}") from error
        self.context.keystore = keystore

    def _use_truststore(self, truststore: Contents) -> None:
        self.context.has_truststore = True
        if truststore.certificates:
            self.context.load_verify_locations(cadata=truststore.pem.decode())


def _stores(settings: Settings) -> tuple[Contents | None, Contents | None]:
    """Return the contents of a listener's keystore and truststore; None for a store that is not configured.

    Raises:
        SettingsError: A store cannot be read or is not valid.
    """
    from mockbroker.security.keystores import KeystoreError, read_keystore, read_truststore  # late: few clusters

    found: list[Contents | None] = []
    for name, read in (("ssl.keystore", read_keystore), ("ssl.truststore", read_truststore)):
        path = settings.ssl_text(f"{name}.location")
        try:
            if path is not None:
                Path(path).open("rb").close()
            found.append(read(settings.ssl_text))
        except OSError as error:
            raise SettingsError(f"{name}.location: cannot load {path}: {error.strerror or error}") from error
        except KeystoreError as error:
            raise SettingsError(f"{name}.location: {error.reason}{error.hint}") from error
    return found[0], found[1]


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return error.strerror or str(error)
