"""The connections of a proxy to the real cluster: TCP, then TLS and SASL if they are configured."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

import trio

from kwire.client_properties import Credentials
from kwire.errors import FrameError
from kwire.frames import FrameBuffer, pack
from kwire.lazy_dataclass import dataclass
from mockbroker.proxy.addresses import Address, error_reason
from mockbroker.proxy.login import LoginError, login
from mockbroker.proxy.repeated_warnings import RepeatedWarnings

log = logging.getLogger("mockbroker")

CONNECT_TIMEOUT = 10.0  # seconds, with TLS and SASL
CHECK_INTERVAL = 5.0  # seconds between the attempts to reach a cluster that is missing at the start
NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF_WHILE_READING")  # from a plain listener
LOGIN_RESPONSE = 65_536  # maximum bytes of a response during the login
CLOSED_DURING_LOGIN = "the broker closed the connection during the login: check that its listener uses SASL"


class UnreachableError(Exception):
    """The error for a cluster whose brokers accept no connection, or reject the login of the proxy."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """The real cluster, with the options by which the proxy connects to its brokers.

    Attributes:
        bootstrap: addresses of brokers; the first one that accepts a connection is used.
        tls: TLS context for connections to the brokers; None for plain TCP.
        credentials: credentials with which the proxy logs in. None if the proxy does not log in, so that clients
            authenticate with the cluster themselves.
    """

    bootstrap: Sequence[Address]
    tls: ssl.SSLContext | None = None
    credentials: Credentials | None = None
    _warnings: RepeatedWarnings = field(default_factory=RepeatedWarnings, init=False, repr=False, compare=False)

    async def connect(self, addresses: Sequence[Address]) -> tuple[trio.abc.Stream, Address] | None:
        """Connect to the first of some addresses that accepts a connection, and log in if there are credentials.

        Args:
            addresses: addresses of brokers, in the order in which they are tried.

        Returns:
            The stream and the address that was used; None, after a logged warning, if no broker accepts a connection or
            a broker rejects the login.
        """
        try:
            return await self._first(addresses)
        except UnreachableError as error:
            self._warnings.warn(f"{error}: closing the client's connection", trio.current_time())
            return None

    async def wait_reachable(self) -> None:
        """Wait until a bootstrap address accepts a connection and the login; then close this connection.

        Until then, try again every CHECK_INTERVAL seconds. Log a warning when the reason of the failure changes.
        """
        reported = ""
        while True:
            try:
                stream, address = await self._first(self.bootstrap)
            except UnreachableError as error:
                if str(error) != reported:
                    reported = str(error)
                    log.warning(
                        "%s: trying again every %g s; clients are refused until it succeeds", error, CHECK_INTERVAL
                    )
                await trio.sleep(CHECK_INTERVAL)
                continue
            await trio.aclose_forcefully(stream)
            if reported:
                log.warning("the cluster at %s now accepts connections: clients are served", address)
            return

    async def _first(self, addresses: Sequence[Address]) -> tuple[trio.abc.Stream, Address]:
        """Connect to the first address that accepts a connection, and log in if there are credentials.

        Return the stream and the address.

        Args:
            addresses: addresses of brokers, in the order in which they are tried.

        Raises:
            UnreachableError: No broker accepts a connection, its host name is not valid, or a broker rejects the login.
        """
        problem = ""
        names = ", ".join(str(address) for address in addresses)
        for address in addresses:
            try:
                return await self._connect(address), address
            except (OSError, UnicodeError, trio.TooSlowError, trio.BrokenResourceError) as error:
                problem = reason_of(error)
            except (LoginError, FrameError) as error:
                raise UnreachableError(f"cannot log in to the cluster at {address}: {error}") from error
        raise UnreachableError(f"cannot connect to the cluster at {names} ({problem})")

    async def _connect(self, address: Address) -> trio.abc.Stream:
        with trio.fail_after(CONNECT_TIMEOUT):
            stream: trio.abc.Stream = await trio.open_tcp_stream(address.host, address.port)
            try:
                if self.tls is not None:
                    stream = encrypted = trio.SSLStream(
                        stream, self.tls, server_hostname=address.host, https_compatible=True
                    )
                    await encrypted.do_handshake()
                if self.credentials is not None:
                    await _log_in(stream, self.credentials)
            except BaseException:
                await trio.aclose_forcefully(stream)
                raise
            return stream


async def _log_in(stream: trio.abc.Stream, credentials: Credentials) -> None:
    """Log in to a broker by SASL.

    Raises:
        LoginError: The broker rejects the login, closes the connection or sends an invalid response, or the file with
            the token cannot be read.
        FrameError: A response of the broker is too large.
    """
    steps = login(credentials, read_token(credentials.token_file))
    responses = FrameBuffer(LOGIN_RESPONSE)
    request = next(steps)
    while True:
        await stream.send_all(pack(request))
        while (response := responses.next_frame()) is None:
            data = await stream.receive_some()
            if not data:
                raise LoginError(CLOSED_DURING_LOGIN)
            responses.feed(bytes(data))
        try:
            request = steps.send(response)
        except StopIteration:
            return


def read_token(path: Path | None) -> bytes:
    """Return the OAUTHBEARER token in a file; b"" if ``path`` is None.

    Raises:
        LoginError: The file cannot be read.
    """
    try:
        return b"" if path is None else path.read_bytes().strip()
    except OSError as error:
        raise LoginError(f"cannot read the token file {path}: {error.strerror}") from error


def reason_of(error: BaseException) -> str:
    """Return the reason why a connection failed, as the operating system or the TLS library describes it."""
    if isinstance(error, trio.TooSlowError):
        return f"no response in {CONNECT_TIMEOUT:.0f} s"
    while isinstance(error.__cause__ or error, BaseExceptionGroup) or error.__cause__ is not None:
        cause = error.__cause__ or error
        error = cause.exceptions[0] if isinstance(cause, BaseExceptionGroup) else cause
    if isinstance(error, ssl.SSLError):
        reason = (getattr(error, "verify_message", "") or error.reason or str(error)).replace("_", " ").lower()
        return f"TLS: {reason}{'; check that its listener uses TLS' if error.reason in NOT_TLS else ''}"
    return error_reason(error) if isinstance(error, OSError) else str(error)
