"""Operators by themselves: each of their requests succeeds or is refused, and impossible responses are reported."""

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
from mockbroker.lab.simulation.clients.token_operator import AUTHENTICATED
from mockbroker.lab.simulation.history import Answer, History
from mockbroker.lab.simulation.operators_scheme import NEW_OPERATORS, OPERATORS, TOKENS
from mockbroker.lab.simulation.run import repeated, run
from mockbroker.lab.simulation.schemes import in_bytes, mix
from mockbroker.lab.simulation.script import MemberScript
from mockbroker.lab.simulation.shell import Shell

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
    TOKENS: ["CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken", "DescribeDelegationToken"],
}
ONLY_REFUSED = {"unregisterer": ["AddRaftVoter", "RemoveRaftVoter"]}  # the voters of the cluster are static


def errors(value: Any) -> set[int]:
    """All error codes in a response."""
    if isinstance(value, list):
        return {each for item in value for each in errors(item)}
    names = getattr(value, "__slots__", ())
    own = {value.error_code} if "error_code" in names else set()
    return own | {each for name in names for each in errors(getattr(value, name))}


@pytest.mark.parametrize("kind", [*OPERATORS, *NEW_OPERATORS])
def test_requests_of_an_operator_succeed_and_are_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, set[int]] = defaultdict(set)
    real = Shell.answered

    def seen(self: Shell, call: Call[Any], response: Any) -> None:
        found[APIS[call.ticket.api_key].name] |= errors(response)
        real(self, call, response)

    monkeypatch.setattr(Shell, "answered", seen)
    logged_in = kind == TOKENS
    member = MemberScript(
        number=0, kind=kind, group="o0", topics=(), commit=0.05, session=6.0, instance=AUTHENTICATED * logged_in or None
    )
    settings = {**BASE.settings, "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"}
    settings |= {"mockbroker.client.telemetry.enable": True, "delegation.token.secret.key": "secret"}
    settings |= {"log.dirs": "/disk-0,/disk-1", "delegation.token.expiry.time.ms": 2_000}
    settings |= {"delegation.token.max.lifetime.ms": 20_000, "group.share.session.timeout.ms": 6_000}
    script = replace(BASE, members=(member,), faults=(), rules=(), release="4.2", brokers=2, settings=settings)
    outcome = run(replace(script, protocol="SASL_PLAINTEXT" if logged_in else ""))
    assert not outcome.broken, outcome.text
    for name in SENT[kind]:
        assert E.NONE in found[name], name
    refused = [name for name in (*SENT[kind], *ONLY_REFUSED.get(kind, ())) if found[name] - {E.NONE}]
    assert refused
    assert all(found[name] and E.NONE not in found[name] for name in ONLY_REFUSED.get(kind, ()))


def test_all_operators_have_a_row() -> None:
    assert SENT.keys() == {*OPERATORS, *NEW_OPERATORS}


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
