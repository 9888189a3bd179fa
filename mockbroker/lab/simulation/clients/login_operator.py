"""A client in the simulation that alters SCRAM credentials, and logs in with old and new ones."""

from __future__ import annotations

from typing import Any

from kwire import ErrorCode as E
from kwire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from mockbroker.lab.simulation.clients.logins import OperatorWithLogins
from mockbroker.lab.simulation.history import CredentialChange, Result
from mockbroker.lab.simulation.network import Wire
from mockbroker.lab.simulation.tcp.scram_login import ScramSecret, salted_password
from mockbroker.security.users import SCRAM_NUMBERS

USERS = ("carol", "dave")  # no other client alters their credentials
PASSWORDS = ("first", "second", "third")
NO_PASSWORD = ""  # of a credential that is deleted
SALTS = (b"sixteen bytes, a", b"sixteen bytes, b")
ITERATIONS = 4_096


class LoginOperator(OperatorWithLogins):
    """A client that alters the credentials of some users, and meanwhile logs in as one of them on other connections."""

    def begin(self) -> None:
        super().begin()
        self.logins.start()

    def operate(self, wire: Wire) -> None:
        user, mechanism = self.dice.pick(USERS), self.dice.pick(list(SCRAM_NUMBERS))
        if self.dice.chance(0.3):
            deletion = AlterUserScramCredentialsRequest.Deletion(name=user, mechanism=SCRAM_NUMBERS[mechanism])
            request, password = AlterUserScramCredentialsRequest(deletions=[deletion]), NO_PASSWORD
        else:
            password, salt = self.dice.pick(PASSWORDS), self.dice.pick(SALTS)
            upsertion = AlterUserScramCredentialsRequest.Upsertion(
                name=user,
                mechanism=SCRAM_NUMBERS[mechanism],
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

    def some_secret(self) -> ScramSecret:
        user, mechanism = self.dice.pick(USERS), self.dice.pick(list(SCRAM_NUMBERS))
        name = _name(user, mechanism)
        altered = [each.password for each in self.history.credentials[-20:] if each.name == name and each.password]
        password = self.dice.pick(altered[-2:]) if altered else self.dice.pick(PASSWORDS)
        return ScramSecret(name, mechanism, user, password)


def _name(user: str, mechanism: str) -> str:
    return f"the {mechanism} credential of {user}"
