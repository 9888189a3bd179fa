"""DescribeUserScramCredentials: responses of Kafka 4.2.0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest as Request
from mockbroker.security.users import ScramCredential


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness()
    for user, mechanism, iterations in [("bob", 256, 4096), ("alice", 256, 4096), ("alice", 512, 8192)]:
        harness.broker.users.scram[user, f"SCRAM-SHA-{mechanism}"] = ScramCredential(b"s", iterations, b"k", b"k")
    return harness


def describe(harness: BrokerHarness, names: Iterable[str]) -> list[Any]:
    users = None if names is None else [Request.User(name=name) for name in names]
    response = harness.ask(Request(users=users), 0)
    assert (response.error_code, response.error_message) == (E.NONE, "")
    return [
        (
            one.user,
            E(one.error_code),
            one.error_message,
            {info.mechanism: info.iterations for info in one.credential_infos},
        )
        for one in response.results
    ]


ALICE = "alice", E.NONE, "", {1: 4096, 2: 8192}
BOB = "bob", E.NONE, "", {1: 4096}
NONE = E.RESOURCE_NOT_FOUND, "Attempt to describe a user credential that does not exist: "
TWICE = E.DUPLICATE_RESOURCE, "Cannot describe SCRAM credentials for the same user twice in a single request: "
CASES = [
    (None, [ALICE, BOB]),
    ([], [ALICE, BOB]),
    (["bob"], [BOB]),
    (["bob", "unknown"], [BOB, ("unknown", NONE[0], f"{NONE[1]}unknown", {})]),
    ([""], [("", *NONE, {})]),
    (["bob", "alice", "bob"], [("bob", TWICE[0], f"{TWICE[1]}bob", {}), ALICE]),
]


@pytest.mark.parametrize(("names", "results"), CASES)
def test_response(harness, names, results):
    assert describe(harness, names) == results
