"""A client in the simulation that creates, renews, expires and describes delegation tokens."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from kwire import ErrorCode as E
from kwire.lazy_dataclass import dataclass
from kwire.messages.create_delegation_token import CreateDelegationTokenRequest
from kwire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kwire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kwire.messages.renew_delegation_token import RenewDelegationTokenRequest
from mockbroker.lab.simulation.clients.logins import OperatorWithLogins
from mockbroker.lab.simulation.history import CredentialChange, Result
from mockbroker.lab.simulation.network import Wire
from mockbroker.lab.simulation.tcp.scram_login import ScramSecret
from mockbroker.security.users import SCRAM_HASHES

AUTHENTICATED = "authenticated"  # instance of a script whose clients log in with SASL
SWEEP_MS = 1_000  # delegation.token.expiry.check.interval.ms
SLACK_MS = 5  # rounding of times to milliseconds
MOST_TOKENS = 4
UNKNOWN_HMAC = b"no token has this one"


@dataclass(slots=True, eq=False)
class Token:
    """A token whose state is known from acknowledged requests.

    Attributes:
        token_id: token id.
        hmac: HMAC of the token.
        max_ms: end of its maximum lifetime, broker time in milliseconds since 1970.
        expires_ms: expiry time, broker time in milliseconds since 1970.
    """

    token_id: str
    hmac: bytes
    max_ms: int
    expires_ms: int

    @property
    def name(self) -> str:
        return f"token {self.token_id}"

    @property
    def password(self) -> str:
        """The password in a SCRAM exchange: the HMAC in base64."""
        return b64encode(self.hmac).decode()


class TokenOperator(OperatorWithLogins):
    """A client that uses delegation tokens until some time after they have expired.

    A token whose last request had no response is not used again, because its expiry time is unknown. Meanwhile the
    client logs in with its last tokens on other connections.
    """

    def begin(self) -> None:
        super().begin()
        self._tokens: list[Token] = []
        self._removed: list[Token] = []
        self._created: list[Token] = []
        if self.script.instance == AUTHENTICATED:
            self.logins.start()

    def operate(self, wire: Wire) -> None:
        if self.script.instance != AUTHENTICATED:
            self._send_unauthenticated(wire)
        elif not self._tokens or (len(self._tokens) < MOST_TOKENS and self.dice.chance(0.2)):
            self._create(wire)
        else:
            self.dice.pick([self._renew, self._renew, self._expire, self._describe, self._describe, self._miss])(wire)

    def _create(self, wire: Wire) -> None:
        lifetime = self.dice.pick([-1, 3_000, 10_000])

        def created(answer: Any) -> None:
            self.expect("CreateDelegationToken", answer.error_code, [E.NONE])
            if not answer.error_code:
                token = Token(answer.token_id, answer.hmac, answer.max_timestamp_ms, answer.expiry_timestamp_ms)
                self._tokens.append(token)
                self._created.append(token)
                self._altered(self._began(token, token.password), 0, token.expires_ms)

        request = CreateDelegationTokenRequest(
            owner_principal_type=None, owner_principal_name=None, max_lifetime_ms=lifetime
        )
        self.request(wire, request, 3, created)

    def _renew(self, wire: Wire) -> None:
        token, sent_ms, period = self._next(), self.broker_ms(), self.dice.pick([-1, 1_000, 5_000])
        change = self._began(token, token.password)

        def renewed(answer: Any) -> None:
            error, done_ms = answer.error_code, self.broker_ms()
            self._altered(change, error, answer.expiry_timestamp_ms)
            possible = self._errors(token, sent_ms, done_ms)
            self.expect(f"RenewDelegationToken until {token.expires_ms}, at {sent_ms}-{done_ms}", error, possible)
            if not error:
                latest = token.max_ms if period < 0 else min(token.max_ms, done_ms + period + SLACK_MS)
                is_right = sent_ms - SLACK_MS <= answer.expiry_timestamp_ms <= latest
                self.expect(f"the expiry {answer.expiry_timestamp_ms}, by {latest} ms", is_right, [True])
                token.expires_ms = answer.expiry_timestamp_ms
                self._tokens.append(token)

        self.request(wire, RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=period), 2, renewed)

    def _expire(self, wire: Wire) -> None:
        token, sent_ms, period = self._next(), self.broker_ms(), self.dice.pick([-1, 500, 2_000])
        change = self._began(token, "" if period < 0 else token.password)

        def expired(answer: Any) -> None:
            error, done_ms = answer.error_code, self.broker_ms()
            self._altered(change, error, answer.expiry_timestamp_ms)
            possible = self._errors(token, sent_ms, done_ms)
            if period < 0:  # the token is deleted, also if it has expired
                possible = [E.NONE, *possible]
            self.expect(f"ExpireDelegationToken until {token.expires_ms}, at {sent_ms}-{done_ms}", error, possible)
            if not error and period < 0:
                self._removed.append(token)
            elif not error:
                token.expires_ms = answer.expiry_timestamp_ms
                self._tokens.append(token)

        self.request(wire, ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=period), 2, expired)

    def _began(self, token: Token, password: str) -> CredentialChange:
        """Add an alteration of a token to the history, and return it. Its request is sent now.

        Args:
            token: the token.
            password: the password of the token from then on; "" if it is deleted.
        """
        change = CredentialChange(
            token.name, password, self.queue.now, earliest_ms=self.broker_ms(), latest_ms=token.max_ms
        )
        self.history.credentials.append(change)
        return change

    def _altered(self, change: CredentialChange, error: int, expires_ms: int) -> None:
        """Record the response to an alteration.

        Args:
            change: the alteration.
            error: error code in the response.
            expires_ms: expiry time in the response.
        """
        change.result, change.done_at = Result.REFUSED if error else Result.DONE, self.queue.now
        change.earliest_ms = change.latest_ms = expires_ms

    def some_secret(self) -> ScramSecret | None:
        if not self._created:
            return None
        token = self.dice.pick(self._created[-MOST_TOKENS:])
        return ScramSecret(
            token.name, self.dice.pick(list(SCRAM_HASHES)), token.token_id, token.password, by_token=True
        )

    def _next(self) -> Token:
        """Remove a random token, and return it. It is added again when a response shows its state."""
        return self._tokens.pop(self.dice.below(len(self._tokens)))

    def _errors(self, token: Token, sent_ms: int, done_ms: int) -> list[E]:
        """Return the errors that are possible for a request about a token, which is handled between two times."""
        errors: list[E] = []
        if sent_ms - SLACK_MS <= token.expires_ms:
            errors.append(E.NONE)
        if done_ms + SLACK_MS >= token.expires_ms:
            errors += [E.DELEGATION_TOKEN_EXPIRED, E.DELEGATION_TOKEN_NOT_FOUND]
        return errors

    def _describe(self, wire: Wire) -> None:
        def described(answer: Any) -> None:
            self.expect("DescribeDelegationToken", answer.error_code, [E.NONE])
            done_ms, found = self.broker_ms(), {each.token_id: each.expiry_timestamp for each in answer.tokens}
            for token in list(self._tokens):
                expires_ms = found.get(token.token_id)
                if expires_ms is not None:
                    self.expect(f"the expiry time of token {token.token_id}", expires_ms, [token.expires_ms])
                elif done_ms + SLACK_MS < token.expires_ms:
                    self.expect(f"token {token.token_id}, which has not expired, is described", False, [True])
                else:
                    self._tokens.remove(token)
            for token in self._removed:
                self.expect(f"a deleted token {token.token_id} is described", token.token_id in found, [False])

        self.request(wire, DescribeDelegationTokenRequest(owners=None), 3, described)

    def _miss(self, wire: Wire) -> None:
        hmac = self.dice.pick([UNKNOWN_HMAC, *(token.hmac for token in self._removed)])
        request = self.dice.pick(
            [
                RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=-1),
                ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=-1),
            ]
        )
        self.request(
            wire,
            request,
            2,
            lambda answer: self.expect("an unknown HMAC", answer.error_code, [E.DELEGATION_TOKEN_NOT_FOUND]),
        )

    def _send_unauthenticated(self, wire: Wire) -> None:
        request, version = self.dice.pick(
            [
                (CreateDelegationTokenRequest(owner_principal_type=None, owner_principal_name=None), 3),
                (RenewDelegationTokenRequest(hmac=UNKNOWN_HMAC), 2),
                (ExpireDelegationTokenRequest(hmac=UNKNOWN_HMAC), 2),
                (DescribeDelegationTokenRequest(owners=None), 3),
            ]
        )
        error = E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        self.request(
            wire,
            request,
            version,
            lambda answer: self.expect("a token without authentication", answer.error_code, [error]),
        )
