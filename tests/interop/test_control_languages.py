"""Every endpoint of the control API, with HTTP clients in five languages, each beside a Kafka client."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from interop.http_requesters import REQUESTERS, Response
from interop.stage import HEARTBEAT_MS, MARKS, start_client, start_process
from tools.ctl_process import Ctl, running

from mockbroker.control.table import ROUTES

pytestmark = MARKS

TOKEN = "correct-horse"
SESSION_MS = 10_000
GROUP = "billing é/1"  # percent-encoded in paths
PAGE = ("/", "/page/", "/v1/state", "/v1/requests/", "/v1/apis")  # addresses that only the live page uses

# A rule for each action of docs/faults.md, and whether a member of a group meets it in its next heartbeats.
ACTIONS: list[tuple[dict[str, Any], bool]] = [
    ({"error": "REBALANCE_IN_PROGRESS"}, True),
    ({"delay_ms": 20, "jitter_ms": 5, "when": "after"}, True),
    ({"throttle_ms": 20}, True),
    ({"disconnect": "after", "reset": True}, True),
    ({"bytes_per_second": 10_000, "of": "response"}, True),
    ({"hold": True, "when": "after"}, True),
    ({"evict": True}, True),
    ({"no_response": True, "when": "before"}, False),
    ({"disconnect": "mid-response", "bytes": 6}, False),
    ({"respond": {"error_code": 25}}, False),
    ({"malform": "truncate"}, False),
]
# A rule for each condition of docs/faults.md.
CONDITIONS: list[dict[str, Any]] = [
    {"api": ["OffsetCommit", "TxnOffsetCommit"], "version": "3-5", "broker": 1, "listener": "PLAINTEXT"},
    {"api": "JoinGroup", "client_id": "other-*", "group": "other", "member_id": "m-?", "instance_id": "i"},
    {"api": "Produce", "topic": "orders", "partition": 2, "transactional_id": "t", "principal": "User:nobody"},
    {"api": "Fetch", "where": "body.max_bytes > 1000000000"},
    {"on": "connect", "listener": "PLAINTEXT", "broker": 0, "address": "10.0.0.*"},
]


class Story:
    """Requests to the control API of a broker. ``routes``: methods and paths of the sent requests."""

    def __init__(self, broker: Ctl, family: str) -> None:
        self.url, self._send = broker.url, REQUESTERS[family]
        self.routes: set[tuple[str, str]] = set()

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        status: int = 200,
        lines: int = 0,
        token: str = TOKEN,
        **names: str,
    ) -> Any:
        """Send a request and check the status of the response; return its JSON.

        ``path``: with keys of ``names`` in braces, and the query; ``lines``: number of lines to read from a stream.
        """
        self.routes.add((method, path.partition("?")[0]))
        headers = {"Authorization": f"Bearer {token}", **({} if body is None else {"Content-Type": "application/json"})}
        segments = {name: quote(value, safe="") for name, value in names.items()}
        sent = None if body is None else json.dumps(body)
        response: Response = self._send(method, self.url + path.format(**segments), headers, sent, lines)
        assert response.status == status, f"{method} {path}: {response}"
        if lines:
            return [json.loads(line.removeprefix("data:")) for line in response.body.splitlines()]
        return response.json if response.body else None


@contextmanager
def member(family: str, servers: str) -> Iterator[None]:
    """Run a Kafka client in group GROUP until the end of the block."""
    times = {"session_ms": SESSION_MS, "heartbeat_ms": HEARTBEAT_MS}
    if family == "kcat":
        settings = {"client.id": family, "session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
        options = [word for key, value in settings.items() for word in ("-X", f"{key}={value}")]
        process: Any = start_process(["kcat", "-b", servers, "-G", GROUP, *options, "orders"])
    else:
        named = {"client_id": family, "group": GROUP, "topic": "orders", "assignor": "range", "reset": "earliest"}
        named |= {"instance": "", "protocol": "classic", "regex": ""}
        process = start_client(family, "member", {"bootstrap": servers, **named, **times})
    try:
        yield
    finally:
        if hasattr(process, "stop"):
            process.stop(5)
        else:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("family", REQUESTERS)
def test_language_uses_every_row(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOCKBROKER_HTTP_TOKEN", TOKEN)
    with running(tmp_path, "--brokers", "2") as broker, member(family, broker.servers):
        story = Story(broker, family)
        describe(story, family)
        use_topics(story)
        use_groups(story)
        use_faults(story)
        use_clock(story)
        change_brokers(story)
        served = {(route.method, route.path) for route in ROUTES if not is_of_page(route.path)}
        assert {(method, generic(path)) for method, path in story.routes} == {
            (method, generic(path)) for method, path in served
        }


def is_of_page(path: str) -> bool:
    return path == PAGE[0] or path.startswith(PAGE[1:])


def generic(path: str) -> str:
    """Return a path with ``{}`` for each name in braces."""
    return re.sub(r"\{\w+\}", "{}", path)


def describe(story: Story, family: str) -> None:
    """Use the server, its sessions, events, requests and transactions."""
    assert story.send("GET", "/v1/health", token="wrong") is not None
    assert story.send("GET", "/v1/cluster", status=401, token="wrong")["status"] == 401
    assert story.send("GET", "/openapi.json")["openapi"].startswith("3.1")
    assert len(story.send("GET", "/v1/cluster")["brokers"]) == 2
    assert story.send("POST", "/v1/session", {"token": TOKEN}) == {}
    story.send("DELETE", "/v1/session", status=204)
    group = story.send("GET", "/v1/groups/{group}/wait?state=Stable&members=1&timeout_ms=20000", group=GROUP)
    assert [each["client_id"] for each in group["members"]] == [family]
    assert story.send("GET", "/v1/transactions")["items"] == []
    joins = story.send("GET", f"/v1/events?kind=join&group={quote(GROUP)}")["items"]
    assert [each["client"] for each in joins] == [family]
    assert [each["id"] for each in story.send("GET", "/v1/events/stream?after=0", lines=2)] == [1, 2]
    assert (
        story.send("GET", f"/v1/requests?api=JoinGroup&group={quote(GROUP)}&limit=1")["items"][0]["client_id"] == family
    )


def use_topics(story: Story) -> None:
    """Use topics, their records and leaders."""
    story.send("POST", "/v1/topics", {"name": "cakes", "partitions": 2, "config": {}}, status=201)
    story.send("POST", "/v1/topics", {"name": "cakes", "partitions": 2}, status=409)
    assert {"cakes", "orders"} <= {each["name"] for each in story.send("GET", "/v1/topics")["items"]}
    records = [
        {"key": "ä", "value": {"base64": "AP8="}, "partition": 1, "headers": [{"key": "h", "value": "v"}]},
        {"value": "x", "partition": 1},
    ]
    story.send("POST", "/v1/topics/{topic}/records", {"records": records}, topic="cakes")
    read = story.send("GET", "/v1/topics/{topic}/records?partition=1&offset=0&committed=true", topic="cakes")["items"]
    assert [(each["key"], each["value"]) for each in read] == [("ä", {"base64": "AP8="}), (None, "x")]
    story.send("DELETE", "/v1/topics/{topic}/records?partition=1&before=1", topic="cakes", status=204)
    story.send("POST", "/v1/topics/{topic}/partitions/{n}/leader", {"broker": 1}, topic="cakes", n="1")
    replica = "/v1/topics/{topic}/partitions/{n}/replicas/{broker}"
    story.send("POST", replica, {"action": "resume"}, topic="orders", n="0", broker="0", status=409)  # not paused
    assert story.send("POST", "/v1/topics/{topic}/retention", topic="cakes")["name"] == "cakes"
    compacted = {"name": "keys", "config": {"cleanup.policy": "compact"}}
    story.send("POST", "/v1/topics", compacted, status=201)
    assert story.send("POST", "/v1/topics/{topic}/compaction", topic="keys")["name"] == "keys"
    story.send("DELETE", "/v1/topics/{topic}", topic="cakes", status=204)


def use_groups(story: Story) -> None:
    """Use a group: its rebalance, members, offsets and coordinator."""
    assert [each["id"] for each in story.send("GET", "/v1/groups")["items"]] == [GROUP]
    generation = story.send("GET", "/v1/groups/{group}", group=GROUP)["generation"]
    story.send("POST", "/v1/groups/{group}/rebalance", {"reason": "test"}, group=GROUP)
    wait = "/v1/groups/{group}/wait?state=Stable&members=1&min_generation={generation}&timeout_ms=20000"
    group = story.send("GET", wait, group=GROUP, generation=str(generation + 1))
    story.send(
        "DELETE",
        "/v1/groups/{group}/members/{member}?reason=test",
        group=GROUP,
        member=group["members"][0]["member_id"],
        status=204,
    )
    story.send("GET", wait, group=GROUP, generation=str(group["generation"] + 1))
    problem = story.send("GET", "/v1/groups/{group}/wait?members=7&timeout_ms=1", group=GROUP, status=504)
    assert problem["group"]["id"] == GROUP
    assert "partitions" in story.send("GET", "/v1/groups/{group}/lag", group=GROUP)
    offsets = {"offsets": [{"topic": "orders", "partition": 0, "offset": 0}]}
    assert story.send("PUT", "/v1/groups/{group}/offsets", offsets, group="other")["offsets"][0]["offset"] == 0
    story.send("POST", "/v1/groups/{group}/coordinator", {"broker": 1}, group=GROUP)


def use_faults(story: Story) -> None:
    """Use rules with every condition and action, and presets."""
    for number, match in enumerate(CONDITIONS):
        action = {"disconnect": "before"} if "on" in match else {"delay_ms": 1}
        rule = {
            "match": match,
            "action": action,
            "occurrence": {"skip": 1, "every": 2, "probability": 0.5, "seed": 1, "times": "always"},
        }
        assert (
            story.send(
                "PUT",
                "/v1/faults/{fault}",
                {"name": f"match-{number}", **rule},
                fault=f"match-{number}",
            )["matched"]
            == 0
        )
    for number, (action, is_met) in enumerate(ACTIONS):
        name = f"action-{number}"
        match = {"api": "Heartbeat", **({"group": GROUP} if is_met else {"client_id": "other"})}
        assert (
            story.send("POST", "/v1/faults", {"name": name, "match": match, "action": action}, status=201)["name"]
            == name
        )
        if "hold" in action:
            assert story.send("GET", "/v1/faults/{fault}/wait?holding=1&timeout_ms=20000", fault=name)["holding"] == 1
            assert story.send("POST", "/v1/faults/{fault}/release", {"count": 1}, fault=name) == {"released": 1}
        if is_met:
            assert story.send("GET", "/v1/faults/{fault}/wait?applied=1&timeout_ms=20000", fault=name)["applied"] == 1
            story.send("GET", "/v1/groups/{group}/wait?state=Stable&members=1&timeout_ms=20000", group=GROUP)
    assert story.send("GET", "/v1/faults/{fault}", fault="action-0")["exhausted"]
    problem = story.send("POST", "/v1/faults", {"match": {"api": "Heartbeet"}, "action": {"hold": True}}, status=422)
    assert problem["errors"][0]["possible"][0] == "Heartbeat"
    assert len(story.send("GET", "/v1/faults")["items"]) == len(CONDITIONS) + len(ACTIONS)
    story.send("DELETE", "/v1/faults/{fault}", fault="action-0", status=204)
    story.send("DELETE", "/v1/faults?name=action-*", status=204)
    assert "commit-gap" in [each["name"] for each in story.send("GET", "/v1/presets")["items"]]
    added = story.send("POST", "/v1/presets/{preset}", {"group": "other"}, preset="commit-gap")
    assert story.send("GET", "/v1/faults/{fault}", fault=added["faults"][0])["match"]["group"] == "other"


def use_clock(story: Story) -> None:
    """Use the manual clock."""
    assert story.send("GET", "/v1/clock")["mode"] == "real"
    story.send("POST", "/v1/clock", {"advance_ms": 10}, status=409)
    story.send("POST", "/v1/clock", {"mode": "manual"})
    story.send("POST", "/v1/clock", {"advance_ms": 10})
    assert story.send("POST", "/v1/clock", {"mode": "real"})["mode"] == "real"


def change_brokers(story: Story) -> None:
    """Close connections and stop brokers, after all else, because the client needs time to reconnect."""
    connection = story.send("GET", "/v1/connections")["items"][0]["id"]
    story.send("DELETE", "/v1/connections/{connection}?reset=true", connection=str(connection), status=204)
    for action in ("freeze_metadata", "thaw_metadata", "stop", "start"):
        story.send("POST", "/v1/brokers/{broker}", {"action": action}, broker="1")
    story.send("POST", "/v1/brokers/{broker}", {"action": "kill", "noticed_after_ms": 0}, broker="1")
    assert story.send("GET", "/v1/cluster")["brokers"][1]["state"] == "stopped"
    assert story.send("POST", "/v1/reset")["after"] > 0
