"""The authentication of a connection to a SASL listener: which requests it may send, and in which order.

ApiVersions at most once; SaslHandshake, which chooses the mechanism (KIP-43); then its tokens, bare after v0, in
SaslAuthenticate requests after v1 (KIP-152); and again before the session ends (KIP-368). The order and the texts are
those of Kafka's SaslServerAuthenticator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from math import inf
from typing import Any

from kwire import APIS, ErrorCode
from kwire.apikeys import ApiKey
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.schema import schema_of
from mockbroker.base.effects import Call, Close, Dismiss, Effects, Reply, Ticket
from mockbroker.base.settings import Settings
from mockbroker.base.timers import DismissDue
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers import api_versions
from mockbroker.broker.sasl.mechanism import Authenticated, Failed, Mechanism, Verdict
from mockbroker.broker.sasl.plain import Plain
from mockbroker.broker.sasl.users import Users
from mockbroker.broker.stages import Stage

MIN_REAUTHENTICATION_INTERVAL = (
    1.0  # seconds between two re-authentications; a handshake that comes sooner is one too many
)
Outcome = Reply | Close | Dismiss


@dataclass(frozen=True, slots=True)
class Token:
    """A frame without any header, which stands for request and response between handshake v0 and its end."""

    data: bytes


class SaslState(Enum):
    """What may come next: anything up to a handshake, the same without ApiVersions, tokens, every request."""

    HANDSHAKE_OR_VERSIONS = auto()
    HANDSHAKE = auto()
    AUTHENTICATE = auto()
    COMPLETE = auto()


class Authentication:
    """The authentication of one connection.

    bare: the next frame is a token
    progress: what may come next
    user: the principal that has authenticated; "" before
    new_nonce: makes the server's half of a nonce, for SCRAM
    """

    def __init__(self, users: Users, settings: Settings, new_nonce: Callable[[], str]) -> None:
        self.raw_tokens = False
        self.user = ""
        self.state = SaslState.HANDSHAKE_OR_VERSIONS
        self._users = users
        self._settings = settings
        self._new_nonce = new_nonce
        self._name = ""  # of the mechanism
        self._mechanism: Mechanism | None = None  # None: another one than at first, which is refused with its token
        self._expires_at = inf  # seconds: when the session ends
        self._reauthentication_at = -inf  # when the last re-authentication began
        self._previous_user = ""  # who it was, while that lasts

    def check(self, call: Call[Any], now: float, wall_ms: int) -> Outcome | None:
        """The outcome of a request that goes no further; None: it is to be handled.

        ``wall_ms``: milliseconds since 1970, for tokens that expire.
        """
        match self.state:
            case SaslState.COMPLETE:
                return None if self._expires_at == inf else self._in_session(call, now)
            case SaslState.AUTHENTICATE:
                return self._token(call, now, wall_ms)
            case _:
                return self._before_handshake(call)

    def _in_session(self, call: Call[Any], now: float) -> Outcome | None:
        """The client is known for a while: a handshake begins anew, anything else is heard until that is over."""
        if (
            isinstance(call.request, SaslHandshakeRequest)
            and now - self._reauthentication_at >= MIN_REAUTHENTICATION_INTERVAL
        ):
            self._reauthentication_at = now
            self._previous_user = self.user
            return self._handshake(call)
        return (
            Close(call.ticket, "its session was over, and it did not authenticate again")
            if now > self._expires_at
            else None
        )

    def _before_handshake(self, call: Call[Any]) -> Outcome | None:
        request = call.request
        if isinstance(request, SaslHandshakeRequest):
            return self._handshake(call)
        if self.state is SaslState.HANDSHAKE_OR_VERSIONS and call.ticket.api_key == ApiKey.API_VERSIONS:
            if isinstance(request, ApiVersionsRequest) and api_versions.is_valid(request, call.version):
                self.state = SaslState.HANDSHAKE
            return None
        return Close(call.ticket, f"{APIS[call.ticket.api_key].name} before it has authenticated")

    def _handshake(self, call: Call[SaslHandshakeRequest]) -> Outcome:
        known, name = self._settings.sasl_enabled_mechanisms.split(","), call.request.mechanism
        if name not in known:
            error = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            response = None if self._previous_user else SaslHandshakeResponse(error_code=error, mechanisms=known)
            return Dismiss(
                call.ticket, response, f"it wants the SASL mechanism {name!r}, and there are {', '.join(known)}"
            )
        self.state = SaslState.AUTHENTICATE
        self.raw_tokens = call.version == 0
        other = self._previous_user and name != self._name
        self._mechanism = None if other else mechanism(name, self._users, self._new_nonce)
        self._name = self._name if other else name
        return Reply(call.ticket, SaslHandshakeResponse(mechanisms=known))

    def _token(self, call: Call[Any], now: float, wall_ms: int) -> Outcome:
        ticket, request = call.ticket, call.request
        if self._mechanism is None:
            return Dismiss(ticket, None, f"it changed its SASL mechanism, which was {self._name}")
        match request:
            case Token(data) | SaslAuthenticateRequest(auth_bytes=data):
                verdict = self._check_principal(self._mechanism.evaluate(data, wall_ms))
            case _:
                name = APIS[ticket.api_key].name
                return Dismiss(ticket, _illegal_state_response(ticket), f"{name} in the middle of its authentication")
        if isinstance(verdict, Failed):
            return self._fail(call, verdict)
        lifetime_ms = self._complete(verdict, now, wall_ms) if isinstance(verdict, Authenticated) else 0
        if isinstance(request, Token):
            return Reply(ticket, Token(verdict.token))
        response = SaslAuthenticateResponse(error_message="", auth_bytes=verdict.token, session_lifetime_ms=lifetime_ms)
        return Reply(ticket, response)

    def _check_principal(self, verdict: Verdict) -> Verdict:
        """Whoever authenticates again must be who it was."""
        if isinstance(verdict, Authenticated) and self._previous_user not in ("", verdict.user):
            was, is_now = self._previous_user, verdict.user
            return Failed(f"Cannot change principals during re-authentication from User.{was}: User.{is_now}")
        return verdict

    def _complete(self, passed: Authenticated, now: float, wall_ms: int) -> int:
        """How long the session may last, in ms; 0: as long as the connection."""
        limits = [] if passed.until_ms is None else [max(0, passed.until_ms - wall_ms)]
        if most := self._settings.connections_max_reauth_ms:
            limits.append(most)
        self._expires_at = now + min(limits) / 1000 if limits else inf
        self.user, self._previous_user = passed.user, ""
        self.state, self.raw_tokens, self._mechanism = SaslState.COMPLETE, False, None
        return min(limits, default=0)

    def _fail(self, call: Call[Any], failed: Failed) -> Dismiss:
        during = "re-authentication" if self._previous_user else "authentication"
        text = failed.text or (
            f"Authentication failed during {during} due to invalid credentials with SASL mechanism {self._name}"
        )
        error = ErrorCode.SASL_AUTHENTICATION_FAILED
        bare = isinstance(call.request, Token)
        response = None if bare else SaslAuthenticateResponse(error_code=error, error_message=text)
        return Dismiss(call.ticket, response, f"{self._name}: {text}")


class AuthenticationStage(Stage):
    """The stage of a connection to a SASL listener. A failure is answered after a delay."""

    def __init__(self, authentication: Authentication, broker: Broker) -> None:
        self._authentication = authentication
        self._broker = broker

    def before(self, call: Call[Any], now: float) -> Effects | None:
        broker = self._broker
        client_time = broker.to_client_time(now)  # sessions and tokens expire by the time of those who issued them
        outcome = self._authentication.check(call, client_time, broker.wall_ms(client_time))
        if outcome is None:
            return None
        delay = broker.settings.connection_failed_authentication_delay_ms / 1000
        if isinstance(outcome, Dismiss) and delay:
            broker.client_deadlines.set(DismissDue(call.ticket, outcome), client_time + delay)
            return []
        return [outcome]


def mechanism(name: str, users: Users, new_nonce: Callable[[], str]) -> Mechanism:
    """A new attempt with one of the mechanisms that ``sasl.enabled.mechanisms`` may name."""
    match name:
        case "PLAIN":
            return Plain(users)
        case "OAUTHBEARER":
            from mockbroker.broker.sasl.oauthbearer import OAuthBearer

            return OAuthBearer()
        case _:
            from mockbroker.broker.sasl.scram import Scram256Or512

            return Scram256Or512(name, users, new_nonce)


def _illegal_state_response(ticket: Ticket) -> object:
    """The answer of an API to a request that is out of order; those without an error of their own say nothing."""
    response = APIS[ticket.api_key].response()
    field = schema_of(type(response)).fields.get("error_code")
    if field is not None and (ticket.version in field.versions or field.ignorable):
        response.error_code = ErrorCode.ILLEGAL_SASL_STATE
    return response
