"""A client in the simulation that alters SCRAM credentials, and logs in with old and new ones."""

from __future__ import annotations

from typing import Any

from kwire import ErrorCode as E
from kwire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from mockbroker.lab.simulation.clients.logins import Logins
from mockbroker.lab.simulation.clients.operator import Operator
from mockbroker.lab.simulation.history import CredentialChange, Result
from mockbroker.lab.simulation.network import Wire
from mockbroker.lab.simulation.tcp.scram_login import HASHES, ScramSecret, salted_password

USERS = ("carol", "dave")  # no other client alters their credentials
PASSWORDS = ("first", "second", "third")
NO_PASSWORD = ""  # of a credential that is deleted
SALTS = (b"sixteen bytes, a", b"sixteen bytes, b")
ITERATIONS = 4_096
NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}  # of the mechanisms in AlterUserScramCredentials


class LoginOperator(Operator):
    """A client that alters the credentials of some users, and meanwhile logs in as one of them on other connections."""

    def begin(self) -> None:
        super().begin()
        self.logins = Logins(self, self._some_secret)
        self.logins.start()

    def operate(self, wire: Wire) -> None:
        user, mechanism = self.dice.pick(USERS), self.dice.pick(list(HASHES))
        if self.dice.chance(0.3):
            deletion = AlterUserScramCredentialsRequest.Deletion(name=user, mechanism=NUMBERS[mechanism])
            request, password = AlterUserScramCredentialsRequest(deletions=[deletion]), NO_PASSWORD
        else:
            password, salt = self.dice.pick(PASSWORDS), self.dice.pick(SALTS)
            upsertion = AlterUserScramCredentialsRequest.Upsertion(
                name=user,
                mechanism=NUMBERS[mechanism],
                iterations=ITERATIONS,
                salt=salt,
                salted_password=salted_password(mechanism, password, salt, ITERATIONS),
            )
            request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
        change = CredentialChange(_name(user, mechanism), password, self.queue.now)
        self.history.credentials.append(change)

        def altered(answer: Any) -> None:
            error = answer.results[0].error_code
            possible = [E.NONE] if password else [E.NONE, E.RESOURCE_NOT_FOUND]
            self.expect(f"AlterUserScramCredentials of {user}", error, possible)
            change.result, change.done_at = Result.REFUSED if error else Result.DONE, self.queue.now

        self.request(wire, request, 0, altered)

    def _some_secret(self) -> ScramSecret:
        user, mechanism = self.dice.pick(USERS), self.dice.pick(list(HASHES))
        name = _name(user, mechanism)
        altered = [each.password for each in self.history.credentials[-20:] if each.name == name and each.password]
        password = self.dice.pick(altered[-2:]) if altered else self.dice.pick(PASSWORDS)
        return ScramSecret(name, mechanism, user, password)

    def lost(self, wire: Wire) -> None:
        self.logins.disconnected(wire)

    def stop(self) -> None:
        if self.up:
            self.logins.close()
        super().stop()


def _name(user: str, mechanism: str) -> str:
    return f"the {mechanism} credential of {user}"
