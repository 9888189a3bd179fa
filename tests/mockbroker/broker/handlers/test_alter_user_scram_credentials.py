"""AlterUserScramCredentials: responses of Kafka 4.2.0, and authentication with the altered credentials."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from scramp import ScramClient
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest as Request
from mockbroker.broker.sasl.mechanism import Authenticated, Failed
from mockbroker.broker.sasl.scram import Scram256Or512

SALT = b"0123456789abcdef"


def deletion(name: str, mechanism: int = 1) -> Request.Deletion:
    return Request.Deletion(name=name, mechanism=mechanism)


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096, password: str = "secret") -> Request.Upsertion:
    salted = hashlib.pbkdf2_hmac("sha256" if mechanism == 1 else "sha512", password.encode(), SALT, iterations)
    return Request.Upsertion(name=name, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=salted)


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness()


def alter(harness: BrokerHarness, *alterations: Any) -> list[Any]:
    deletions = [one for one in alterations if isinstance(one, Request.Deletion)]
    upsertions = [one for one in alterations if isinstance(one, Request.Upsertion)]
    response = harness.ask(Request(deletions=deletions, upsertions=upsertions), 0)
    return [(one.user, E(one.error_code), one.error_message) for one in response.results]


TWICE = E.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
GONE = E.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
NAMELESS = E.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
STRANGE = E.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
FEW, MANY = ((E.UNACCEPTABLE_CREDENTIAL, f"Too {what} iterations") for what in ("few", "many"))
CASES = [  # alterations, result of each user
    ([], []),
    ([upsertion("x")], [("x", E.NONE, None)]),
    ([deletion("alice")], [("alice", E.NONE, None)]),
    ([deletion("unknown")], [("unknown", *GONE)]),
    ([deletion("alice", 2)], [("alice", *GONE)]),
    ([deletion("")], [("", *NAMELESS)]),
    ([upsertion("")], [("", *NAMELESS)]),
    ([deletion("alice", 9)], [("alice", *STRANGE)]),
    ([deletion("alice", 0)], [("alice", *STRANGE)]),
    ([upsertion("x", 7)], [("x", *STRANGE)]),
    ([upsertion("x", iterations=4095)], [("x", *FEW)]),
    ([upsertion("x", iterations=16_385)], [("x", *MANY)]),
    ([upsertion("x", iterations=16_384)], [("x", E.NONE, None)]),
    ([upsertion("x"), upsertion("x")], [("x", *TWICE)]),
    ([upsertion("x"), upsertion("x", 2)], [("x", *TWICE)]),
    ([deletion("alice"), upsertion("alice")], [("alice", *TWICE)]),
    ([deletion("unknown"), upsertion("unknown")], [("unknown", *GONE)]),
    ([deletion("unknown"), upsertion("unknown", 2)], [("unknown", *GONE)]),
    ([deletion("unknown"), deletion("unknown")], [("unknown", *GONE)]),
    ([deletion("alice", 2), upsertion("alice")], [("alice", *GONE)]),
    ([deletion("alice"), upsertion("alice", iterations=1)], [("alice", *TWICE)]),
    ([deletion("x", 9), upsertion("x")], [("x", *STRANGE)]),
    ([deletion(""), upsertion("")], [("", *NAMELESS)]),
    ([upsertion("x", iterations=1), upsertion("x")], [("x", *FEW)]),
    ([upsertion("x"), upsertion("x", iterations=1)], [("x", *TWICE)]),
    ([upsertion("x"), upsertion("x"), upsertion("x")], [("x", *TWICE)]),
    ([upsertion("a"), upsertion("b", iterations=1)], [("b", *FEW), ("a", E.NONE, None)]),
]


@pytest.mark.parametrize(("alterations", "results"), CASES)
def test_response(harness, alterations, results):
    alter(harness, upsertion("alice"))
    assert alter(harness, *alterations) == results


def test_rejected_alteration_changes_nothing(harness):
    alter(harness, upsertion("alice"))
    before = dict(harness.broker.users.scram)
    for alterations in (
        [deletion("alice"), upsertion("alice")],
        [upsertion("alice", iterations=1)],
        [deletion("alice", 2)],
    ):
        alter(harness, *alterations)
        assert harness.broker.users.scram == before


def authenticates(harness: BrokerHarness, password: str, mechanism: str = "SCRAM-SHA-256") -> bool:
    server = Scram256Or512(mechanism, harness.broker.users, lambda: "server")
    client = ScramClient([mechanism], "alice", password)
    verdict = server.evaluate(client.get_client_first().encode(), 0)
    if verdict == Failed():
        return False
    client.set_server_first(verdict.token.decode())
    verdict = server.evaluate(client.get_client_final().encode(), 0)
    if isinstance(verdict, Authenticated):
        client.set_server_final(verdict.token.decode())  # for users that PLAIN authenticates by password
    return isinstance(verdict, Authenticated)


def test_altered_credential_authenticates(harness):
    assert not authenticates(harness, "secret")
    alter(harness, upsertion("alice"))
    assert authenticates(harness, "secret")
    assert not authenticates(harness, "secret", "SCRAM-SHA-512")
    alter(harness, upsertion("alice", iterations=8192, password="other"))
    assert not authenticates(harness, "secret")
    assert authenticates(harness, "other")
    alter(harness, upsertion("alice", 2))
    assert authenticates(harness, "secret", "SCRAM-SHA-512")
    alter(harness, deletion("alice"))
    assert not authenticates(harness, "other")


def test_empty_salted_password_is_rejected(harness):
    empty = Request.Upsertion(name="empty", mechanism=1, iterations=4096, salt=SALT, salted_password=b"")
    twice = Request.Upsertion(name="twice", mechanism=1, iterations=4096, salt=SALT, salted_password=b"")
    results = alter(harness, empty, twice, twice)
    assert sorted(results) == [("empty", E.UNKNOWN_SERVER_ERROR, None), ("twice", *TWICE)]
    assert all(name != "empty" for name, _ in harness.broker.users.scram)
