"""The listener of a torture case: plaintext or TLS, without authentication or with SASL."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from kwire.lazy_dataclass import dataclass

Protocol: TypeAlias = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism: TypeAlias = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
MECHANISMS: tuple[Mechanism, ...] = get_args(Mechanism)
USER, PASSWORD = "torture", "torture-secret"
EXPIRY = 4_102_444_800  # of the token: the year 2100, in seconds since 1970
SASL_STEPS = frozenset({"SaslHandshake", "SaslAuthenticate"})


@dataclass(frozen=True, slots=True)
class Security:
    """The security settings that broker and client use.

    Attributes:
        protocol: security protocol of the listener, by Kafka's name.
        mechanism: SASL mechanism, used if the protocol has SASL.
    """

    protocol: Protocol = "PLAINTEXT"
    mechanism: Mechanism = "SCRAM-SHA-256"

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def arguments(self) -> list[str]:
        """The options of ``mockbroker torture`` that select these settings; empty for plaintext."""
        if self.protocol == "PLAINTEXT":
            return []
        mechanism = ["--sasl-mechanism", self.mechanism] if self.has_sasl else []
        return ["--security-protocol", self.protocol, *mechanism]

    def cluster_options(self) -> dict[str, Any]:
        """Return the keyword arguments ``listeners`` and ``users`` for the creation of the cluster."""
        users = {USER: PASSWORD} if self.has_sasl else None
        return {"listeners": [self.protocol], "users": users}

    def environment(self, ca: Path | None) -> Mapping[str, str]:
        """Return the environment variables that the client needs: name -> value.

        Args:
            ca: file with the certificate of the authority that the client must trust; None without TLS.
        """
        variables: dict[str, str] = {"MOCKBROKER_SECURITY_PROTOCOL": self.protocol}
        if self.has_tls:
            variables["MOCKBROKER_TLS_CA"] = str(ca)
        if self.has_sasl:
            variables |= {
                "MOCKBROKER_SASL_MECHANISM": self.mechanism,
                "MOCKBROKER_SASL_USERNAME": USER,
                "MOCKBROKER_SASL_PASSWORD": PASSWORD,
            }
        if self.has_sasl and self.mechanism == "OAUTHBEARER":
            variables["MOCKBROKER_SASL_TOKEN"] = unsecured_token()
        return variables


def unsecured_token() -> str:
    """Return a token for OAUTHBEARER without a signature (RFC 7515, alg none), for USER."""
    parts = {"alg": "none"}, {"sub": USER, "iat": 0, "exp": EXPIRY}
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, ""])
