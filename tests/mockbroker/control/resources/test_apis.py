"""The APIs that the form for new fault rules offers."""

from __future__ import annotations

from typing import Any

from tools.control_api import control_api

from mockbroker.broker.handlers import HANDLERS
from mockbroker.faults.parsing import parse_rule

EXAMPLES: dict[str, dict[str, Any]] = {
    "delay_ms": {"delay_ms": 1},
    "disconnect": {"disconnect": "before"},
    "hold": {"hold": True},
    "no_response": {"no_response": True},
    "respond": {"respond": {}},
    "bytes_per_second": {"bytes_per_second": 1},
    "throttle_ms": {"throttle_ms": 1},
    "evict": {"evict": True},
}
VALUES = {"version": "0+", "broker": 0, "partition": 0, "where": "true"}


async def test_every_rule_that_an_api_lists_can_be_added() -> None:
    async with control_api() as api:
        result = await api.get("/v1/apis")
    assert [each["key"] for each in result["items"]] == sorted(HANDLERS)
    for each in result["items"]:
        actions = [EXAMPLES[name] for name in each["actions"] if name not in ("error", "malform")]
        actions += [{"error": name} for name in each["errors"][:1]]
        for form in each["malform"]:
            defaults = {name: parameter["default"] for name, parameter in form["parameters"].items()}
            actions.append({"malform": form["name"], **defaults})
        for action in actions:
            parse_rule({"match": {"api": each["name"]}, "action": action}, HANDLERS)
        for key in set(each["match"]) - {"where", "version"}:
            match = {"api": each["name"], key: VALUES.get(key, "x")}
            parse_rule({"match": match, "action": {"delay_ms": 1}}, HANDLERS)


async def test_the_errors_of_an_api_are_those_of_kafka() -> None:
    async with control_api() as api:
        result = await api.get("/v1/apis")
    heartbeat = next(each for each in result["items"] if each["name"] == "Heartbeat")
    assert "REBALANCE_IN_PROGRESS" in heartbeat["errors"]
    assert set(heartbeat["errors"]) < set(result["errors"])
    assert "NONE" not in result["errors"]
    assert "evict" in heartbeat["actions"]
    assert "topic" not in heartbeat["match"]
    versions = next(each for each in result["items"] if each["name"] == "ApiVersions")
    assert "unknown_version" in [form["name"] for form in versions["malform"]]
    assert "evict" not in versions["actions"]


async def test_rules_about_connections_have_what_is_listed() -> None:
    values = {"broker": 0, "disconnect": "before", "delay_ms": 1}
    async with control_api() as api:
        connect = (await api.get("/v1/apis"))["connect"]
    for key in connect["match"]:
        match = {"on": "connect", key: values.get(key, "x")}
        parse_rule({"match": match, "action": {"hold": True}}, HANDLERS)
    for key in connect["actions"]:
        parse_rule({"match": {"on": "connect"}, "action": {key: values.get(key, True)}}, HANDLERS)


async def test_errors_have_their_codes() -> None:
    async with control_api() as api:
        result = await api.get("/v1/apis")
    assert list(result["codes"]) == result["errors"]
    assert result["codes"]["REBALANCE_IN_PROGRESS"] == 27
