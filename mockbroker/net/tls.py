"""TLS for listeners: generated or configured certificates, and a TLS socket that behaves like a plain one.

A handshake needs no task: it continues whenever bytes arrive. OpenSSL buffers at most about 100 KiB of an unfinished
handshake.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from mockbroker.base.settings import Settings, SettingsError
from mockbroker.security.ssl_principals import parse_rules

if TYPE_CHECKING:
    from trustme import CA

    _SSLSocket = ssl.SSLSocket
else:
    _SSLSocket = object

VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
NOT_TLS = {"HTTP_REQUEST", "WRONG_VERSION_NUMBER", "HTTPS_PROXY_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE"}
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")  # in every generated certificate, beside the advertised hosts
CLIENT = "client"  # common name of the client certificate


class TlsFileError(SettingsError):
    """The error for a keystore or truststore that cannot be loaded.

    Attributes:
        path: The file.
    """

    def __init__(self, name: str, path: str, error: OSError) -> None:
        self.path = path
        super().__init__(f"{name}: cannot load {path}: {error.strerror or error}")


class TlsContext(ssl.SSLContext):
    """The TLS context of server sockets.

    Attributes:
        keystore: Content of ``ssl.keystore.location`` when it was loaded; empty with a generated certificate.
        has_truststore: Whether ``ssl.truststore.location`` was loaded.
    """

    keystore = b""
    has_truststore = False


class TlsError(OSError):
    """The error for a failed TLS handshake, or an invalid TLS record. Its message is the reason."""


class TlsStream(_SSLSocket):
    """A mixin for non-blocking TLS sockets: like a plain socket, it raises BlockingIOError; TLS errors raise TlsError.

    The class after it in the method resolution order has the methods of ``ssl.SSLSocket``.

    Attributes:
        established: True once the handshake is complete.
        aborted: True to skip TLS's closing message, because the connection is reset.
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
            raise TlsError(_reason(error)) from error
        self.established = True
        return data

    def send(self, data: Any, flags: int = 0) -> int:
        """Send as many bytes as the client accepts, in TLS records of at most 16 KiB; return the number of sent
        bytes.
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
    """A non-blocking TLS socket. Like a plain socket, it raises BlockingIOError; TLS errors raise TlsError."""


def _reason(error: ssl.SSLError) -> str:
    reason = (error.reason or "").replace("_", " ").lower() or str(error)
    if error.reason == "CERTIFICATE_VERIFY_FAILED":
        reason = f"the client certificate is invalid: {getattr(error, 'verify_message', reason)}"
    hint = "; the client does not use TLS" if error.reason in NOT_TLS else ""
    return f"TLS: {reason}{hint}"


def pkcs8(key: bytes) -> bytes:
    """Return a private key in PKCS #8 format, the only one that Java clients read."""
    from cryptography.hazmat.primitives import serialization as form

    return form.load_pem_private_key(key, None).private_bytes(
        form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
    )


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The PEM files that TLS clients need. With ``ssl.keystore.location`` all attributes are None.

    Attributes:
        ca: File with the certificate of the authority that clients must trust.
        client: File with the key and the certificate of a client.
    """

    ca: Path | None = None
    client: Path | None = None


class Tls:
    """The TLS context and certificates of a cluster.

    Without ``ssl.keystore.location``, certificates are generated; the files for clients are in a temporary folder until
    ``close``.

    Args:
        settings: The broker configuration with the settings ``ssl.*``.
        hosts: Advertised hosts of the brokers, for the generated certificate.

    Attributes:
        context: The context for server sockets.
        files: The files for clients.

    Raises:
        TlsFileError: A file cannot be loaded.
        SettingsError: A rule for principals is not valid, or the truststore for client certificates is missing.
    """

    def __init__(self, settings: Settings, *hosts: str) -> None:
        parse_rules(settings.ssl_principal_mapping_rules)
        self.context = TlsContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.sslsocket_class = TlsSocket
        self.context.verify_mode = VERIFY[settings.ssl_client_auth]
        self.files = TlsFiles()
        self._folder: Path | None = None
        authority = None if settings.ssl_keystore_location else self._generate(dict.fromkeys((*LOCAL_NAMES, *hosts)))
        if settings.ssl_keystore_location:
            self._load("ssl.keystore.location", settings.ssl_keystore_location)
        if settings.ssl_truststore_location:
            self._load("ssl.truststore.location", settings.ssl_truststore_location)
        elif authority is not None:
            authority.configure_trust(self.context)
        elif settings.ssl_client_auth != "none":
            raise SettingsError(
                f"ssl.client.auth={settings.ssl_client_auth} needs ssl.truststore.location, a PEM file with the "
                "certificates to trust"
            )

    def close(self) -> None:
        """Delete the generated files for clients."""
        folder, self._folder = self._folder, None
        for path in list(folder.iterdir()) if folder else []:
            path.unlink()
        if folder:
            folder.rmdir()

    def _generate(self, names: Iterable[str]) -> CA:
        from trustme import CA

        authority = CA(organization_name="mockbroker")
        authority.issue_cert(*dict.fromkeys(filter(None, names))).configure_cert(self.context)
        client = authority.issue_cert(f"{CLIENT}@localhost", common_name=CLIENT)
        self._folder = folder = Path(mkdtemp(prefix="mockbroker-tls-"))
        self.files = TlsFiles(folder / "ca.pem", folder / "client.pem")
        authority.cert_pem.write_to_path(os.fspath(folder / "ca.pem"))
        (folder / "client.pem").write_bytes(
            pkcs8(client.private_key_pem.bytes()) + b"".join(blob.bytes() for blob in client.cert_chain_pems)
        )
        return authority

    def _load(self, name: str, path: str) -> None:
        try:
            if name.startswith("ssl.keystore"):
                self.context.load_cert_chain(path)
                self.context.keystore = Path(path).read_bytes()
            else:
                self.context.load_verify_locations(path)
                self.context.has_truststore = True
        except (OSError, ssl.SSLError) as error:
            raise TlsFileError(name, path, error) from error
