"""ApiVersions: it advertises the served versions, as Kafka 4.2.0 does for the same APIs."""

from __future__ import annotations

import json

import pytest
from golden import ROOT
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire import encode
from kwire.messages import APIS
from kwire.messages.api_versions import ApiVersionsRequest
from mockbroker.base.effects import Call, Client, Reply, Ticket
from mockbroker.broker.handlers import HANDLERS
from mockbroker.broker.router import UnsupportedVersion

RECORDED = json.loads((ROOT / "fixtures" / "releases" / "4.2.0.json").read_text("utf-8"))
KAFKA_4_2_0 = {int(key): tuple(versions) for key, versions in RECORDED["versions"].items() if int(key) in HANDLERS}
PRODUCE = 0


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness()


def api_versions_request(name: str = "client", version: str = "1.0") -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


@pytest.mark.parametrize("version", range(5))
def test_versions_equal_those_of_kafka(harness, version):
    response = harness.ask(api_versions_request(), version)
    assert response.error_code == E.NONE
    assert {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys} == KAFKA_4_2_0
    assert len(response.api_keys) == len(KAFKA_4_2_0)


def test_listed_versions_are_served_but_for_produce_v0_to_v2(harness):
    for entry in harness.ask(api_versions_request(), 4).api_keys:
        advertised = set(range(entry.min_version, entry.max_version + 1))
        served = {version for version in range(-1, 50) if harness.router.serves(entry.api_key, version)}
        assert advertised - served == ({0, 1, 2} if entry.api_key == PRODUCE else set())
        assert served <= advertised


@pytest.mark.parametrize("version", [3, 4])
def test_finalized_features_are_supported(harness, version):
    response = harness.ask(api_versions_request(), version)
    supported = {each.name: (each.min_version, each.max_version) for each in response.supported_features}
    finalized = {each.name: each.max_version_level for each in response.finalized_features}
    if version == 3:
        assert supported == {"metadata.version": (7, 29)}
    else:
        assert finalized.keys() < supported.keys()
        assert all(supported[name][0] <= level <= supported[name][1] for name, level in finalized.items())


def test_served_versions_are_declared():
    for key, handler in HANDLERS.items():
        assert handler.versions.first in APIS[key].versions
        assert handler.versions.last in APIS[key].versions


@pytest.mark.parametrize(
    ("name", "version", "valid"),
    [
        ("apache-kafka-java", "4.2.0", True),
        ("a", "1", True),
        ("", "1", False),
        ("a", "", False),
        ("a!", "1", False),
        ("-a", "1", False),
        ("a.", "1", False),
        ("a b", "1", False),
        ("a\n", "1", False),
        ("é", "1", False),
    ],
)
def test_client_software_name_is_validated(harness, name, version, valid):
    response = harness.ask(api_versions_request(name, version), 3)
    assert response.error_code == (E.NONE if valid else E.INVALID_REQUEST)
    assert bool(response.api_keys) is valid


def test_unsupported_version_gets_a_v0_response(harness):
    ticket = Ticket(1, 7, 18, 0)
    (reply,) = harness.router.step(Call(ticket, Client(0, "", ""), UnsupportedVersion()), 0.0)
    assert isinstance(reply, Reply)
    assert reply.response.error_code == E.UNSUPPORTED_VERSION
    assert [(k.api_key, k.min_version, k.max_version) for k in reply.response.api_keys] == [(18, 0, 4)]
    assert len(encode(reply.response, 0)) == 2 + 4 + 6


def test_unserved_apis_are_listed_in_the_limits():
    page = (ROOT / "docs" / "limits.md").read_text("utf-8")
    section = page.partition("## APIs\n")[2].partition("\n## ")[0]
    listed = {name for line in section.splitlines() if line.count("|") == 3 for name in line.split("|")[1].split(", ")}
    missing = {api.name for key, api in APIS.items() if key not in HANDLERS}
    assert {name.strip() for name in listed} - {"APIs", "---"} == missing
