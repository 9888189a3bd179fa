"""Replacement of addresses in responses: in every API and version that has addresses, and without other changes."""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import replace
from typing import Any

import pytest

from kwire import APIS, decode, encode
from kwire.apikeys import ApiKey
from kwire.fuzz.values import full
from kwire.layout import versions_of
from mockbroker.proxy.addresses import (
    ENTRIES,
    Address,
    addresses_of,
    error_reason,
    may_have_addresses,
    replace_addresses,
)

CASES = [(key, version) for key in ENTRIES for version in versions_of(APIS[key].versions)]
ENDPOINTS = {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE}


def hosts_in(value: Any) -> list[str]:
    """Return the values of all fields named host, at any depth."""
    if isinstance(value, list):
        return [host for each in value for host in hosts_in(each)]
    fields = getattr(type(value), "__slots__", ())
    own = [value.host] if "host" in fields and value.host else []
    return own + [host for name in fields for host in hosts_in(getattr(value, name))]


@pytest.mark.parametrize(("key", "version"), CASES, ids=lambda case: str(case))
def test_every_address_of_a_response_is_replaced(key: int, version: int) -> None:
    response = decode(APIS[key].response, encode(full(APIS[key].response, version), version), version)
    assert bool(hosts_in(response)) == may_have_addresses(key, version)
    if not may_have_addresses(key, version):
        return
    result = addresses_of(key, response)
    assert {address.host for address in result.values()} == set(hosts_in(response))
    before = encode(response, version)
    replace_addresses(key, response, {})
    assert encode(response, version) == before
    replace_addresses(key, response, {node: Address("proxy", 7) for node in result})
    assert set(hosts_in(response)) == {"proxy"}
    again = decode(APIS[key].response, encode(response, version), version)
    assert addresses_of(key, again) == dict.fromkeys(result, Address("proxy", 7))


# Hosts that are not addresses of brokers are not replaced.
CONTROLLERS = {"BeginQuorumEpoch", "DescribeQuorum", "EndQuorumEpoch", "FetchSnapshot", "UpdateRaftVoter", "Vote"}
ACLS = {"DeleteAcls", "DescribeAcls"}
APPLICATIONS = {"StreamsGroupDescribe", "StreamsGroupHeartbeat"}


def test_no_other_response_has_a_host() -> None:
    others = {
        api.name
        for key, api in APIS.items()
        if key not in ENTRIES
        if any(hosts_in(full(api.response, version)) for version in versions_of(api.versions))
    }
    assert others == CONTROLLERS | ACLS | APPLICATIONS


def test_a_coordinator_that_is_not_available_has_no_address() -> None:
    response = replace(full(APIS[10].response, 2), node_id=-1, host="", port=-1)
    assert addresses_of(10, response) == {}
    replace_addresses(10, response, {-1: Address("proxy", 7)})
    assert (response.host, response.port) == ("", -1)


@pytest.mark.parametrize(("address", "text"), [(Address("h", 1), "h:1"), (Address("::1", 9092), "[::1]:9092")])
def test_addresses_as_text(address: Address, text: str) -> None:
    assert str(address) == text


REASONS = [
    (OSError(errno.EADDRINUSE, "in use"), os.strerror(errno.EADDRINUSE)),
    (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
    (OSError("no number"), "no number"),
]


@pytest.mark.parametrize(("error", "reason"), REASONS, ids=["number", "name resolution", "text"])
def test_reason_is_that_of_the_operating_system(error: OSError, reason: str) -> None:
    assert error_reason(error) == reason


@pytest.mark.parametrize("text", ["", "broker", "broker:", ":9092", "a..b:9092", f"{'a' * 64}:9092"])
def test_text_that_is_not_an_address(text: str) -> None:
    assert Address.parse(text) is None


def test_text_of_an_address() -> None:
    assert Address.parse("broker_1.example:9092") == Address("broker_1.example", 9092)
    assert Address.parse("[::1]:9092") == Address("::1", 9092)
