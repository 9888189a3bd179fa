"""TLS for listeners: certificates made or given, and a socket that speaks it and otherwise behaves like any other.

A handshake needs no task and no wait of its own: whenever something comes in it goes on, until the first bytes of the
client are there. What OpenSSL holds of an unfinished one is some 100 KiB at most.
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

if TYPE_CHECKING:
    from trustme import CA

VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
NOT_TLS = {"HTTP_REQUEST", "WRONG_VERSION_NUMBER", "HTTPS_PROXY_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE"}
ALWAYS = ("localhost", "127.0.0.1", "::1")  # names that a certificate is for, whatever the address
CLIENT = "client"  # the name in the client certificate


class TlsError(OSError):
    """What a peer sent is no TLS, or it was refused; says why."""


class TlsSocket(ssl.SSLSocket):
    """One that never waits, and raises what a plain socket does: BlockingIOError, and TlsError for what is only here.

    ``established``: the handshake is over.
    """

    established = False

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        try:
            data = super().recv(buflen, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            self.established = self.version() is not None  # OpenSSL tells none before
            raise BlockingIOError from None
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return b""
        except ssl.SSLError as error:
            raise TlsError(_told(error)) from error
        self.established = True
        return data

    def send(self, data: Any, flags: int = 0) -> int:
        """OpenSSL takes 16 KiB at once, this as much as the peer does."""
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
        if self.established:
            with suppress(OSError, ValueError):
                self.unwrap()  # says good-bye, and does not wait for an answer
        super().close()


def _told(error: ssl.SSLError) -> str:
    reason = (error.reason or "").replace("_", " ").lower() or str(error)
    if error.reason == "CERTIFICATE_VERIFY_FAILED":
        reason = f"its certificate is refused: {getattr(error, 'verify_message', reason)}"
    hint = "; this does not look like TLS" if error.reason in NOT_TLS else ""
    return f"TLS: {reason}{hint}"


def _pkcs8(key: bytes) -> bytes:
    """A private key in the only form that Java reads."""
    from cryptography.hazmat.primitives import serialization as form

    return form.load_pem_private_key(key, None).private_bytes(
        form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
    )


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """What clients need, as PEM files: ``ca``: the authority to trust; ``client``: key and certificate for them.

    None where certificates were given, which are not ours to hand on.
    """

    ca: Path | None = None
    client: Path | None = None


class Tls:
    """The certificates of a cluster. ``hosts``: addresses of the brokers. Raises: SettingsError.

    Those that are made lie in a new folder, with the files for clients, until ``close``.
    """

    def __init__(self, settings: Settings, *hosts: str) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.sslsocket_class = TlsSocket
        self.context.verify_mode = VERIFY[settings.ssl_client_auth]
        self.files = TlsFiles()
        self._folder: Path | None = None
        authority = None if settings.ssl_keystore_location else self._make(dict.fromkeys((*ALWAYS, *hosts)))
        if settings.ssl_keystore_location:
            self._load("ssl.keystore.location", settings.ssl_keystore_location)
        if settings.ssl_truststore_location:
            self._load("ssl.truststore.location", settings.ssl_truststore_location)
        elif authority is not None:
            authority.configure_trust(self.context)
        elif settings.ssl_client_auth != "none":
            raise SettingsError("ssl.client.auth: ssl.truststore.location does not say whom to trust")

    def close(self) -> None:
        """Remove the files."""
        folder, self._folder = self._folder, None
        for path in list(folder.iterdir()) if folder else []:
            path.unlink()
        if folder:
            folder.rmdir()

    def _make(self, names: Iterable[str]) -> CA:
        from trustme import CA

        authority = CA(organization_name="mockbroker")
        authority.issue_cert(*dict.fromkeys(filter(None, names))).configure_cert(self.context)
        client = authority.issue_cert(f"{CLIENT}@localhost", common_name=CLIENT)
        self._folder = folder = Path(mkdtemp(prefix="mockbroker-tls-"))
        self.files = TlsFiles(folder / "ca.pem", folder / "client.pem")
        authority.cert_pem.write_to_path(os.fspath(folder / "ca.pem"))
        (folder / "client.pem").write_bytes(
            _pkcs8(client.private_key_pem.bytes()) + b"".join(blob.bytes() for blob in client.cert_chain_pems)
        )
        return authority

    def _load(self, name: str, path: str) -> None:
        try:
            if name.startswith("ssl.keystore"):
                self.context.load_cert_chain(path)
            else:
                self.context.load_verify_locations(path)
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(f"{name}: {path}: {error.strerror or error}") from error
