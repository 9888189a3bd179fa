"""A cluster can emulate an older Kafka release."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from golden import ROOT
from tools.group_harness import GroupHarness

from kwire import ErrorCode as E
from kwire.schema import Versions
from mockbroker.base.release import BEFORE_4_0, RELEASES, SERVED, SINCE_4_0, TELEMETRY, served
from mockbroker.base.settings import Settings
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers import HANDLERS
from mockbroker.broker.journal import Journal
from mockbroker.broker.router import Router
from mockbroker.topics.model import Node

BOTH = (("range", b""), ("roundrobin", b""))


RECORDED = {
    ".".join(found["release"].split(".")[:2]): found
    for found in (json.loads(path.read_text()) for path in (ROOT / "fixtures" / "releases").glob("*.json"))
}


def test_names():
    assert set(RELEASES) == {*RECORDED, "all"}
    assert list(RELEASES)[:-1] == sorted(RECORDED, key=lambda name: [int(part) for part in name.split(".")])


@pytest.mark.parametrize("name", RECORDED)
def test_versions_are_as_recorded(name):
    ours = {key: served(key, name) for key in SERVED}
    results = {str(key): [versions.first, versions.last] for key, versions in ours.items() if versions}
    assert results == RECORDED[name]["versions"]
    assert RELEASES[name].features == RECORDED[name]["features"]
    supported = {feature: list(levels) for feature, levels in RELEASES[name].supported.items()}
    assert supported == RECORDED[name].get("supported", {})


@pytest.mark.parametrize("name", RELEASES)
def test_advertised_versions_are_the_served_ones(name):
    """The exception is Produce v0-2, which Kafka 4 advertises and refuses."""
    broker = Broker([Node(0, "h", 1)], Settings(), lambda: UUID(int=1), RELEASES[name])
    router = Router(broker, Journal(0.0))
    had = RECORDED[name]["versions"] if name in RECORDED else None
    for key, handler in HANDLERS.items():
        if key in TELEMETRY:  # these need a setting: test_get_telemetry_subscriptions.py
            continue
        advertised = broker.advertised_versions.get(key)
        if had is not None and str(key) not in had:
            assert advertised is None
            continue
        first, last = had[str(key)] if had else (handler.versions.first, handler.versions.last)
        assert advertised == Versions(first, min(last, handler.versions.last))
        refused = 3 if key == 0 and name.startswith("4") else 0
        assert [version for version in range(30) if router.serves(key, version)] == [
            version for version in range(30) if version in advertised and version >= refused
        ]


@pytest.mark.parametrize(("java", "chosen"), [(True, "range"), (False, "roundrobin")])
def test_tie_of_protocol_votes(java, chosen):
    harness = GroupHarness(delay=1.0, quirks=SINCE_4_0 if java else BEFORE_4_0)
    harness.join("a", BOTH)
    harness.join("b", tuple(reversed(BOTH)))
    harness.wait(3.0)
    assert harness.group.protocol == chosen


@pytest.mark.parametrize(("java", "alive"), [(True, False), (False, True)])
def test_sync_in_stable_renews_the_session(java, alive):
    harness = GroupHarness(quirks=SINCE_4_0 if java else BEFORE_4_0)
    harness.stable("a", session=1.2)
    harness.wait(0.8)
    harness.sync("a")
    harness.wait(0.8)
    assert (harness.heartbeat("a") is E.NONE) is alive


@pytest.mark.parametrize(("java", "seconds"), [(True, 2.0), (False, 1.0)])
def test_initial_delay_of_later_generations_is_extended(java, seconds):
    harness = GroupHarness(delay=1.0, quirks=SINCE_4_0 if java else BEFORE_4_0)
    harness.stable("x")
    harness.leave("x")
    begin = harness.now
    ask = harness.join("a")
    harness.wait(0.4)
    harness.join("b")
    harness.wait(5.0)
    assert ask.at - begin == pytest.approx(seconds)
