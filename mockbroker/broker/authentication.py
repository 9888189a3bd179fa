"""Authentication of a connection to a SASL listener.

The order of the requests and the errors are those of Kafka's SaslServerAuthenticator.

The client sends its requests in this order:

1. ApiVersions, at most once.
2. SaslHandshake, which chooses the mechanism (KIP-43).
3. The tokens of the mechanism. After SaslHandshake v0 they are raw frames; after v1 they are SaslAuthenticate
requests (KIP-152).

The client authenticates again before the session ends (KIP-368).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from math import inf
from typing import Any

from kwire import APIS, ErrorCode
from kwire.apikeys import ApiKey
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.schema import schema_of
from mockbroker.base.effects import Call, Close, Dismiss, Effects, Reply, Ticket, Token
from mockbroker.base.settings import Settings
from mockbroker.base.timers import DismissDue
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers import api_versions
from mockbroker.broker.sasl.mechanism import Authenticated, Failed, Mechanism, Verdict
from mockbroker.broker.sasl.plain import Plain
from mockbroker.broker.stages import Stage
from mockbroker.security.listener_sasl import ListenerSasl, TokenRules
from mockbroker.security.users import Users

MIN_REAUTHENTICATION_INTERVAL = 1.0  # seconds; an earlier SaslHandshake gets ILLEGAL_SASL_STATE
FOR_ALL = ListenerSasl()  # no settings of its own
Outcome = Reply | Close | Dismiss


class SaslState(Enum):
    """The state of an authentication. The state determines which requests are valid next.

    Attributes:
        HANDSHAKE_OR_VERSIONS: SaslHandshake and ApiVersions are valid.
        HANDSHAKE: SaslHandshake is valid.
        AUTHENTICATE: SASL tokens are valid.
        COMPLETE: the client is authenticated, and every request is valid.
    """

    HANDSHAKE_OR_VERSIONS = auto()
    HANDSHAKE = auto()
    AUTHENTICATE = auto()
    COMPLETE = auto()


class Authentication:
    """The authentication of one connection. All times are client time: real time, which a test cannot stop.

    Args:
        users: the users and their credentials.
        settings: the broker configuration.
        new_nonce: function that returns the server's part of a nonce, for SCRAM.
        sasl: the SASL settings of the listener.

    Attributes:
        raw_tokens: whether the next frame is a raw SASL token.
        user: the authenticated principal; "" before the authentication.
        by_token: whether the client has authenticated with a delegation token.
        state: the state of the authentication.
    """

    def __init__(
        self, users: Users, settings: Settings, new_nonce: Callable[[], str], sasl: ListenerSasl = FOR_ALL
    ) -> None:
        self.raw_tokens = False
        self.user = ""
        self.by_token = False
        self.state = SaslState.HANDSHAKE_OR_VERSIONS
        self._users = users
        self._settings = settings
        self._new_nonce = new_nonce
        self._sasl = sasl
        self._mechanism_name = ""
        self._mechanism: Mechanism | None = None  # None: the client changed the mechanism, so its next token fails
        self._expires_at = inf  # end of the session, in seconds
        self._reauthentication_at = -inf  # begin of the last re-authentication, in seconds
        self._previous_user = ""  # the authenticated principal during a re-authentication, else ""

    def check(self, call: Call[Any], now: float, wall_ms: int) -> Outcome | None:
        """Check a request of a connection to a SASL listener.

        Args:
            call: The request, its client, and its ticket (the object that identifies the request).
            now: The client time in seconds.
            wall_ms: The client time in milliseconds since 1970, for tokens that expire.

        Returns: None if the handler must process the request; otherwise the response, or an outcome that closes the
        connection.
        """
        match self.state:
            case SaslState.COMPLETE:
                return None if self._expires_at == inf else self._in_session(call, now)
            case SaslState.AUTHENTICATE:
                return self._token(call, now, wall_ms)
            case _:
                return self._before_handshake(call)

    def _in_session(self, call: Call[Any], now: float) -> Outcome | None:
        """Check a request of an authenticated client. A SaslHandshake begins a re-authentication.

        If the last re-authentication began less than MIN_REAUTHENTICATION_INTERVAL seconds ago, a SaslHandshake does
        not begin a new one: its handler returns ILLEGAL_SASL_STATE. After the end of the session, a request that does
        not begin a re-authentication closes the connection.

        Args:
            call: The request, its client, and its ticket (the object that identifies the request).
            now: The client time in seconds.

        Returns: None if the handler must process the request; otherwise the response, or an outcome that closes the
        connection.
        """
        if (
            isinstance(call.request, SaslHandshakeRequest)
            and now - self._reauthentication_at >= MIN_REAUTHENTICATION_INTERVAL
        ):
            self._reauthentication_at = now
            self._previous_user = self.user
            return self._handshake(call)
        if now > self._expires_at:
            return Close(call.ticket, "the SASL session expired without re-authentication")
        return None

    def _before_handshake(self, call: Call[Any]) -> Outcome | None:
        request = call.request
        if isinstance(request, SaslHandshakeRequest):
            return self._handshake(call)
        if self.state is SaslState.HANDSHAKE_OR_VERSIONS and call.ticket.api_key == ApiKey.API_VERSIONS:
            if isinstance(request, ApiVersionsRequest) and api_versions.is_valid(request, call.version):
                self.state = SaslState.HANDSHAKE
            return None
        return Close(call.ticket, f"{APIS[call.ticket.api_key].name} request before authentication")

    def _handshake(self, call: Call[SaslHandshakeRequest]) -> Outcome:
        enabled = (self._sasl.mechanisms or self._settings.sasl_enabled_mechanisms).split(",")
        name = call.request.mechanism
        if name not in enabled:
            error = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            response = None if self._previous_user else SaslHandshakeResponse(error_code=error, mechanisms=enabled)
            reason = f"unsupported SASL mechanism {name!r} (enabled: {', '.join(enabled)})"
            return Dismiss(call.ticket, response, reason)
        self.state = SaslState.AUTHENTICATE
        self.raw_tokens = call.version == 0
        if self._previous_user and name != self._mechanism_name:
            self._mechanism = None
        else:
            self._mechanism = mechanism(name, self._users, self._new_nonce, self._sasl.token_rules)
            self._mechanism_name = name
        return Reply(call.ticket, SaslHandshakeResponse(mechanisms=enabled))

    def _token(self, call: Call[Any], now: float, wall_ms: int) -> Outcome:
        ticket, request = call.ticket, call.request
        if self._mechanism is None:
            return Dismiss(
                ticket, None, f"SASL mechanism changed during re-authentication (was {self._mechanism_name})"
            )
        match request:
            case Token(data) | SaslAuthenticateRequest(auth_bytes=data):
                verdict = self._check_principal(self._mechanism.evaluate(data, wall_ms))
            case _:
                name = APIS[ticket.api_key].name
                return Dismiss(ticket, _illegal_state_response(ticket), f"{name} request during authentication")
        if isinstance(verdict, Failed):
            return self._fail(call, verdict)
        lifetime_ms = self._complete(verdict, now, wall_ms) if isinstance(verdict, Authenticated) else 0
        if isinstance(request, Token):
            return Reply(ticket, Token(verdict.token))
        response = SaslAuthenticateResponse(error_message="", auth_bytes=verdict.token, session_lifetime_ms=lifetime_ms)
        return Reply(ticket, response)

    def _check_principal(self, verdict: Verdict) -> Verdict:
        """Return ``verdict``, or Failed if a re-authentication would change the principal.

        ``verdict``: the result of the client's latest SASL token.
        """
        if isinstance(verdict, Authenticated) and self._previous_user not in ("", verdict.user):
            old, new = self._previous_user, verdict.user
            return Failed(f"Cannot change principals during re-authentication from User.{old}: User.{new}")
        return verdict

    def _complete(self, authenticated: Authenticated, now: float, wall_ms: int) -> int:
        """Complete the authentication. Return the session lifetime in milliseconds, or 0 for no limit.

        Args:
            authenticated: The result of the client's last token.
            now: The client time in seconds.
            wall_ms: The client time in milliseconds since 1970.
        """
        expires_at_ms = authenticated.expires_at_ms
        limits = [] if expires_at_ms is None else [max(0, expires_at_ms - wall_ms)]
        if max_reauth_ms := self._settings.connections_max_reauth_ms:
            limits.append(max_reauth_ms)
        self._expires_at = now + min(limits) / 1000 if limits else inf
        self.user, self.by_token, self._previous_user = authenticated.user, authenticated.by_token, ""
        self.state, self.raw_tokens, self._mechanism = SaslState.COMPLETE, False, None
        return min(limits, default=0)

    def _fail(self, call: Call[Any], failed: Failed) -> Dismiss:
        during = "re-authentication" if self._previous_user else "authentication"
        name = self._mechanism_name
        text = failed.text or (
            f"Authentication failed during {during} due to invalid credentials with SASL mechanism {name}"
        )
        error = ErrorCode.SASL_AUTHENTICATION_FAILED
        is_raw_token = isinstance(call.request, Token)
        response = None if is_raw_token else SaslAuthenticateResponse(error_code=error, error_message=text)
        return Dismiss(call.ticket, response, f"{name}: {text}")


class AuthenticationStage(Stage):
    """The stage of request processing that authenticates one connection to a SASL listener.

    After a failed authentication, the response is delayed by ``connection.failed.authentication.delay.ms``.

    Args:
        authentication: The authentication of the connection.
        broker: The broker.
    """

    def __init__(self, authentication: Authentication, broker: Broker) -> None:
        self._authentication = authentication
        self._broker = broker

    def before(self, call: Call[Any], now: float) -> Effects | None:
        broker = self._broker
        client_time = broker.to_client_time(now)  # sessions and tokens expire by client time
        outcome = self._authentication.check(call, client_time, broker.wall_ms(client_time))
        if outcome is None:
            return None
        delay = broker.settings.connection_failed_authentication_delay_ms / 1000
        if isinstance(outcome, Dismiss) and delay:
            broker.client_deadlines.set(DismissDue(call.ticket, outcome), client_time + delay)
            return []
        return [outcome]


def mechanism(
    name: str, users: Users, new_nonce: Callable[[], str], token_rules: TokenRules = FOR_ALL.token_rules
) -> Mechanism:
    """Return a new SASL exchange for one connection.

    Args:
        name: Name of the mechanism, as in ``sasl.enabled.mechanisms``.
        users: The users and their credentials.
        new_nonce: Function that returns the server's part of a nonce, for SCRAM.
        token_rules: The rules for the tokens of OAUTHBEARER.
    """
    match name:
        case "PLAIN":
            return Plain(users)
        case "OAUTHBEARER":
            from mockbroker.broker.sasl.oauthbearer import OAuthBearer

            return OAuthBearer(token_rules)
        case _:
            from mockbroker.broker.sasl.scram import Scram256Or512

            return Scram256Or512(name, users, new_nonce)


def _illegal_state_response(ticket: Ticket) -> object:
    """Return the response to a request that is not allowed in the current state of the authentication.

    The error code of the response is ILLEGAL_SASL_STATE. If responses of the API have no top-level error code, the
    response contains no error.

    ``ticket``: ticket of the request.
    """
    response = APIS[ticket.api_key].response()
    field = schema_of(type(response)).fields.get("error_code")
    if field is not None and (ticket.version in field.versions or field.ignorable):
        response.error_code = ErrorCode.ILLEGAL_SASL_STATE
    return response
