"""Operators, without a simulation: each of their requests succeeds or is refused, and impossible responses are
reported."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest

from kwire import APIS
from kwire import ErrorCode as E
from mockbroker.base.effects import Call
from mockbroker.lab.simulation.checkers.answers import find_impossible_answer
from mockbroker.lab.simulation.checkers.final_log import FinalLog
from mockbroker.lab.simulation.clients.login_operator import USERS
from mockbroker.lab.simulation.clients.token_operator import AUTHENTICATED
from mockbroker.lab.simulation.history import Answer, History
from mockbroker.lab.simulation.operators_scheme import LOGIN_OPERATORS, LOGINS, NEW_OPERATORS, OPERATORS, TOKENS
from mockbroker.lab.simulation.run import repeated, run
from mockbroker.lab.simulation.schemes import in_bytes, mix
from mockbroker.lab.simulation.script import MemberScript, Script
from mockbroker.lab.simulation.shell import Shell
from mockbroker.lab.simulation.world import World
from mockbroker.security.users import SCRAM_HASHES

BASE = mix(0, 600)
SENT = {
    "credential-operator": ["AlterUserScramCredentials"],
    "config-replacer": ["AlterConfigs"],
    "feature-operator": ["UpdateFeatures", "ApiVersions"],
    "leader-elector": ["ElectLeaders"],
    "replica-mover": ["AlterReplicaLogDirs"],
    "unregisterer": ["UnregisterBroker"],
    "marker-writer": ["WriteTxnMarkers"],
    "share-offset-operator": ["AlterShareGroupOffsets", "DeleteShareGroupOffsets"],
    "share-state-operator": [
        "InitializeShareGroupState",
        "ReadShareGroupState",
        "ReadShareGroupStateSummary",
        "WriteShareGroupState",
        "DeleteShareGroupState",
    ],
    "telemetry-client": ["GetTelemetrySubscriptions", "PushTelemetry"],
    LOGINS: ["AlterUserScramCredentials"],
    TOKENS: [
        "CreateDelegationToken",
        "RenewDelegationToken",
        "ExpireDelegationToken",
        "DescribeDelegationToken",
    ],
}
ONLY_REFUSED = {"unregisterer": ["AddRaftVoter", "RemoveRaftVoter"]}  # the voters of the cluster are static


def errors(value: Any) -> set[int]:
    """Return all error codes in a response."""
    if isinstance(value, list):
        return {each for item in value for each in errors(item)}
    names = getattr(value, "__slots__", ())
    own = {value.error_code} if "error_code" in names else set()
    return own | {each for name in names for each in errors(getattr(value, name))}


def alone(kind: str) -> Script:
    """Return a script with one operator. Its clients log in with SASL if the operator needs that."""
    logs_in = kind in (TOKENS, LOGINS)
    member = MemberScript(
        number=0,
        kind=kind,
        group="o0",
        topics=(),
        commit=0.05,
        session=6.0,
        kip890=True,
        instance=AUTHENTICATED * logs_in or None,
    )
    settings = {**BASE.settings, "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"}
    settings |= {"mockbroker.client.telemetry.enable": True, "delegation.token.secret.key": "secret"}
    settings |= {"log.dirs": "/disk-0,/disk-1", "delegation.token.expiry.time.ms": 2_000}
    settings |= {"delegation.token.max.lifetime.ms": 20_000, "group.share.session.timeout.ms": 6_000}
    return replace(
        BASE,
        members=(member,),
        faults=(),
        rules=(),
        release="4.2",
        brokers=2,
        settings=settings,
        protocol="SASL_PLAINTEXT" if logs_in else "",
    )


@pytest.mark.parametrize("kind", SENT)
def test_requests_of_an_operator_succeed_and_are_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, set[int]] = defaultdict(set)
    real = Shell.answered

    def seen(self: Shell, call: Call[Any], response: Any) -> None:
        found[APIS[call.ticket.api_key].name] |= errors(response)
        real(self, call, response)

    monkeypatch.setattr(Shell, "answered", seen)
    script = alone(kind)
    outcome = run(script)
    assert not outcome.broken, outcome.text
    for name in SENT[kind]:
        assert E.NONE in found[name], name
    refused = [name for name in (*SENT[kind], *ONLY_REFUSED.get(kind, ())) if found[name] - {E.NONE}]
    assert refused
    assert all(found[name] and E.NONE not in found[name] for name in ONLY_REFUSED.get(kind, ()))


@pytest.mark.parametrize("kind", [LOGINS, TOKENS])
def test_logins_with_old_and_new_credentials(kind: str) -> None:
    world = World(alone(kind))
    world.run()
    logins = world.history.logins
    accepted, refused = [[each for each in logins if each.accepted is result] for result in (True, False)]
    assert accepted
    assert refused
    credentials = {each.name for each in world.history.credentials}
    assert {each.credential for each in logins} <= credentials | {
        f"the {mechanism} credential of {user}" for mechanism in SCRAM_HASHES for user in USERS
    }


def test_all_operators_have_a_row() -> None:
    assert SENT.keys() == {*OPERATORS, *NEW_OPERATORS, *LOGIN_OPERATORS}


def test_an_impossible_answer_is_reported() -> None:
    history = History()
    history.answers.append(Answer("m1: AlterConfigs", E.NONE, frozenset({E.NONE}), 1.0))
    assert not find_impossible_answer(FinalLog(history))
    history.answers.append(Answer("m1: a late renewal", E.NONE, frozenset({E.DELEGATION_TOKEN_EXPIRED}), 2.0))
    assert find_impossible_answer(FinalLog(history)) == ("m1: a late renewal has the result 0 at 2.000 s, expected 66")


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_SSL"])
def test_api_versions_is_the_first_request_of_each_connection(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first: dict[int, str] = {}
    real = Shell.answered

    def seen(self: Shell, call: Call[Any], response: Any) -> None:
        first.setdefault(call.ticket.connection, APIS[call.ticket.api_key].name)
        real(self, call, response)

    monkeypatch.setattr(Shell, "answered", seen)
    outcome = repeated(replace(in_bytes(3, 200), protocol=protocol, greets=True))
    assert not outcome.broken, outcome.text
    assert set(first.values()) == {"ApiVersions"}
