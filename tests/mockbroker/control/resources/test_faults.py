"""Fault rules and presets."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

import pytest
import trio
import trio.testing
from tools.control_api import PATIENCE, Api, control_api

from kwire.messages.metadata import MetadataRequest
from mockbroker.control.resources import faults
from mockbroker.faults.parsing import parse_rule
from mockbroker.faults.rule import Rule

HOLD = {"name": "h", "match": {"api": "Metadata"}, "action": {"hold": True}}
ERROR = {"name": "e", "match": {"api": "Heartbeat"}, "action": {"error": "REBALANCE_IN_PROGRESS"}}


async def ask(api: Api) -> None:
    await api.cluster.connect().ask(MetadataRequest(topics=[]), 9)


async def test_rules_are_added_replaced_and_removed() -> None:
    async with control_api() as api:
        response = await api.ask("POST", "/v1/faults", ERROR)
        assert (response.status_code, response.headers["location"]) == (201, "/v1/faults/e")
        assert (response.json()["matched"], response.json()["exhausted"]) == (0, False)
        assert await api.status("POST", "/v1/faults", ERROR) == 409
        assert (
            await api.status("PUT", "/v1/faults/e", {"action": {"delay_ms": 5}, "match": {"api": "Heartbeat"}}) == 200
        )
        assert (await api.get("/v1/faults/e"))["action"] == {"delay_ms": 5}
        assert await api.status("PUT", "/v1/faults/t1-x", {**ERROR, "name": "t1-x"}) == 200
        assert [each["name"] for each in (await api.get("/v1/faults"))["items"]] == ["e", "t1-x"]
        assert await api.status("DELETE", "/v1/faults?name=t1-*") == 204
        assert await api.status("DELETE", "/v1/faults/t1-x") == 404
        assert await api.status("DELETE", "/v1/faults/e") == 204
        assert (await api.get("/v1/faults"))["items"] == []


async def test_an_invalid_glob_removes_no_rule() -> None:
    async with control_api() as api:
        await api.ask("POST", "/v1/faults", ERROR)
        response = await api.ask("DELETE", "/v1/faults?name=e%5C")
        assert (response.status_code, response.json()["errors"][0]["path"]) == (422, "name")
        assert await api.status("GET", "/v1/faults/e") == 200


async def test_an_impossible_rule_says_where_and_what_is_possible() -> None:
    async with control_api() as api:
        response = await api.ask(
            "POST", "/v1/faults", {"match": {"api": "Heartbeet"}, "action": {"delay_ms": 1}, "x": 1}
        )
        assert response.status_code == 422
        errors = {error["path"]: error["possible"] for error in response.json()["errors"]}
        assert "Heartbeat" in errors["match.api"]
        assert "x" in errors
        assert await api.status("PUT", "/v1/faults/e", {}) == 422


async def test_other_requests_are_served_while_a_large_rule_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = threading.Event()

    def parse(form: object, served: Collection[int], name: str = "") -> Rule:
        assert checked.wait(PATIENCE)
        return parse_rule(form, served, name)

    body = {"topics": [{"name": "t"}] * 2_000}
    rule = {"name": "r", "match": {"api": "Metadata"}, "action": {"respond": body}}
    monkeypatch.setattr(faults, "parse_rule", parse)
    for method, path in (("POST", "/v1/faults"), ("PUT", "/v1/faults/r")):
        async with control_api() as api, trio.open_nursery() as nursery:
            responses = list[Any]()

            async def send(api: Api, method: str, path: str, responses: list[Any]) -> None:
                responses.append((await api.ask(method, path, rule)).json())

            checked.clear()
            nursery.start_soon(send, api, method, path, responses)
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(10):
                assert (await api.get("/v1/faults"))["items"] == []
            checked.set()
            while not responses:
                await trio.sleep(0.001)
            assert responses[0]["action"] == {"respond": body}
            assert (await api.get("/v1/faults"))["items"] == responses


async def test_of_many_unknown_keys_the_first_are_listed() -> None:
    keys = [f"k{number}" for number in range(500)]
    async with control_api() as api:
        for path in ("/v1/faults", "/v1/presets/rebalance-storm"):
            response = await api.ask("POST", path, dict.fromkeys(keys, 1))
            errors = [each["path"] for each in response.json()["errors"]]
            assert len(errors) == 100
            assert errors[-1] in keys
        match = dict.fromkeys(keys, 1)
        response = await api.ask("POST", "/v1/faults", {"match": match, "action": {"delay_ms": 1}})
        assert [each["path"] for each in response.json()["errors"]] == [f"match.{key}" for key in keys[:100]]


async def test_held_requests_are_released() -> None:
    async with control_api() as api:
        await api.post("/v1/faults", HOLD)
        async with trio.open_nursery() as nursery:
            results: list[Any] = []

            async def wait() -> None:
                results.append(await api.get("/v1/faults/h/wait", holding=1))

            nursery.start_soon(wait)
            while not api.server.control.waiters.taken:
                await trio.sleep(0.001)
            nursery.start_soon(ask, api)
            while not results:
                await trio.sleep(0.001)
            assert results[0]["holding"] == 1
            assert await api.post("/v1/faults/h/release", {"count": 1}) == {"released": 1}
        assert await api.post("/v1/faults/h/release") == {"released": 0}
        assert (await api.get("/v1/faults/h/wait", applied=1))["applied"] == 1


async def test_a_wait_that_runs_out_has_the_rule_and_events() -> None:
    async with control_api() as api:
        await api.post("/v1/faults", ERROR)
        response = await api.ask("GET", "/v1/faults/e/wait?applied=1&timeout_ms=1")
        assert response.status_code == 504
        assert (response.json()["fault"]["name"], response.json()["events"]) == ("e", [])
        assert await api.status("GET", "/v1/faults/e/wait") == 422


@pytest.mark.parametrize(
    ("method", "path"), [("GET", ""), ("GET", "/wait?applied=1"), ("POST", "/release"), ("DELETE", "")]
)
async def test_an_unknown_rule_is_not_found(method: str, path: str) -> None:
    async with control_api() as api:
        assert await api.status(method, f"/v1/faults/none{path}") == 404


async def test_a_preset_changes_the_cluster_until_it_is_removed() -> None:
    async with control_api(brokers=2) as api:
        assert await api.post("/v1/presets/rolling-restart") == {"faults": []}
        states = [each["state"] for each in (await api.get("/v1/cluster"))["brokers"]]
        assert sorted(states) == ["running", "stopped"]
        assert await api.status("POST", "/v1/presets/rolling-restart", {}) == 409
        assert await api.status("DELETE", "/v1/faults/rolling-restart") == 204
        assert {each["state"] for each in (await api.get("/v1/cluster"))["brokers"]} == {"running"}
        assert await api.status("DELETE", "/v1/faults/rolling-restart") == 404


async def test_presets_add_their_rules_or_none() -> None:
    async with control_api() as api:
        presets = {each["name"]: each for each in (await api.get("/v1/presets"))["items"]}
        assert presets["zombie-member"]["parameters"]["client_id"]["required"] is True
        added = await api.post("/v1/presets/zombie-member", {"client_id": "c", "name": "z"})
        rules = [each["name"] for each in (await api.get("/v1/faults"))["items"]]
        assert added["faults"] == rules
        assert await api.status("POST", "/v1/presets/zombie-member", {"client_id": "c", "name": "z"}) == 409
        assert [each["name"] for each in (await api.get("/v1/faults"))["items"]] == rules
        assert await api.status("POST", "/v1/presets/zombie-member", {}) == 422
        assert await api.status("POST", "/v1/presets/none", {}) == 404
        assert await api.post("/v1/presets/stale-metadata", {}) == {"faults": []}
        assert [event.reason for event in api.cluster.events()] == ["the metadata of broker 0 is frozen"]
