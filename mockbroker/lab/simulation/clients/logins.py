"""The logins of operators in the simulation with credentials that are altered meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from kwire.apikeys import ApiKey
from kwire.lazy_dataclass import dataclass
from kwire.messages.metadata import MetadataRequest
from mockbroker.lab.simulation.clients.leaders import METADATA_VERSION
from mockbroker.lab.simulation.clients.operator import Operator
from mockbroker.lab.simulation.history import Login
from mockbroker.lab.simulation.network import OtherLogin, Wire
from mockbroker.lab.simulation.tcp.scram_login import ScramSecret, scram_login

INTERVAL = 2.0  # seconds between two logins, on average
NO_TOPICS = MetadataRequest(topics=[], allow_auto_topic_creation=False)


@dataclass(slots=True)
class _Attempt:
    """A login that has no result yet.

    Attributes:
        wire: its connection.
        secret: the user and the password.
        sent_at: virtual time of its begin, seconds.
        sent_ms: the same on the broker's clock, in milliseconds since 1970.
    """

    wire: Wire
    secret: ScramSecret
    sent_at: float
    sent_ms: int


class Logins:
    """The logins of a client, one at a time, each on a new connection, which is closed afterwards.

    A login is accepted if a request after it is answered: as in Kafka, a client can still log in with a token that has
    expired and was not removed yet, but the session ends at once. It is refused if SaslAuthenticate returns an error. A
    login whose connection is lost is not in the history.

    The client must call ``start`` at its start, ``disconnected`` for each closed connection, and ``close`` at its end.

    Args:
        client: the client.
        choose: function that returns the user and the password of the next login; None for no login.
    """

    def __init__(self, client: Operator, choose: Callable[[], ScramSecret | None]) -> None:
        self._client = client
        self._choose = choose
        self._attempt: _Attempt | None = None

    def start(self) -> None:
        """Log in now if no login is in progress, and again after a random time."""
        client = self._client
        client.later(INTERVAL * (0.5 + client.dice.random()), self.start)
        nodes = sorted(client.cluster().nodes)
        if self._attempt is not None or not nodes or (secret := self._choose()) is None:
            return
        wire = client.network.connect(client, client.link, client.dice.pick(nodes), client.name)
        nonce = f"{client.dice.below(1 << 30):012d}"
        wire.login = OtherLogin(scram_login(secret, nonce), lambda: self._ended(accepted=False))
        self._attempt = _Attempt(wire, secret, client.queue.now, client.broker_ms())
        client.send(wire, ApiKey.METADATA, METADATA_VERSION, NO_TOPICS, lambda _: self._ended(accepted=True))

    def _ended(self, *, accepted: bool) -> None:
        """Add the result of the login to the history, and close its connection."""
        attempt, client = self._attempt, self._client
        assert attempt is not None
        client.history.logins.append(
            Login(
                client=client.name,
                credential=attempt.secret.credential,
                password=attempt.secret.password,
                accepted=accepted,
                sent_at=attempt.sent_at,
                sent_ms=attempt.sent_ms,
                done_at=client.queue.now,
                done_ms=client.broker_ms(),
            )
        )
        self.close()

    def disconnected(self, connection: Wire) -> None:
        if self._attempt is not None and self._attempt.wire is connection:
            self._attempt = None

    def close(self) -> None:
        """Close the connection of a login that is in progress."""
        if self._attempt is not None:
            self._client.network.close(self._attempt.wire)
            self._attempt = None


class OperatorWithLogins(Operator):
    """An operator that logs in on other connections meanwhile.

    Attributes:
        logins: the logins; a subclass starts them.
    """

    def begin(self) -> None:
        super().begin()
        self.logins = Logins(self, self.some_secret)

    def some_secret(self) -> ScramSecret | None:
        """Return the user and the password of the next login; None for no login."""
        raise NotImplementedError

    def lost(self, wire: Wire) -> None:
        self.logins.disconnected(wire)

    def stop(self) -> None:
        if self.up:
            self.logins.close()
        super().stop()
