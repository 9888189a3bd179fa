"""The protocol side of a connection to a TLS listener without SASL: a client certificate determines the principal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kwire import RemoteProtocolError
from mockbroker.base.effects import Call, Client
from mockbroker.broker.router import Router
from mockbroker.net.connection import ClientRequests, Undecoded
from mockbroker.security.identity import ANONYMOUS, Identity
from mockbroker.security.ssl_principals import SETTING, distinguished_name, parse_rules, principal_of


class TlsRequests(ClientRequests):
    """The requests that a client sends to a listener with TLS and without SASL.

    Args:
        connection: Number of the connection.
        client: The client, with the broker and the listener that the client is connected to.
        router: The router, whose broker has the setting ``ssl.principal.mapping.rules``.
        certificate: Function that returns the client's certificate in DER; None if the client has sent no valid
            certificate.
    """

    def __init__(
        self, connection: int, client: Client, router: Router, certificate: Callable[[], bytes | None]
    ) -> None:
        super().__init__(connection, client.node, client.host, router, client.listener)
        self._certificate = certificate
        self._principal = ""  # of the certificate; it is known with the first request

    @property
    def identity(self) -> Identity:
        """The identity in the client certificate; ``User:ANONYMOUS`` before the first request, and for a client without
        certificate.
        """
        principal = self._principal or ANONYMOUS
        return Identity(principal, principal != ANONYMOUS)

    def next_call(self) -> Call[Any] | Undecoded | None:
        """Return the next request; None if more bytes are needed or a request is pending.

        Raises:
            kwire.WireError: The request is malformed, its API version is not served, or no rule in
                ``ssl.principal.mapping.rules`` matches the client's certificate.
        """
        if not self._principal and self.frames.held:
            self._principal = self._mapped()
        return super().next_call()

    def _mapped(self) -> str:
        certificate = self._certificate()
        if certificate is None:
            return ANONYMOUS
        rules = self._router.broker.settings.ssl_principal_mapping_rules
        principal = principal_of(certificate, parse_rules(rules))
        if principal is None:
            name = distinguished_name(certificate)
            raise RemoteProtocolError(
                f"no rule of {SETTING} matches {name!r}: add a rule that matches it, or the rule DEFAULT"
            )
        return principal
