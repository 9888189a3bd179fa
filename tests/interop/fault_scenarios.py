"""Each action of a fault rule, with the operation of a client to which it is applied."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from interop.fault_clients import GROUP, TOPIC, Task, perform

from mockbroker import ThreadCluster, run_cluster

WAIT = 30.0  # seconds until the rule must have been applied
CONFIG = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}
API = {"produce": "Produce", "read": "Fetch", "end": "ListOffsets", "commit": "OffsetCommit", "join": "Heartbeat"}


@dataclass(frozen=True)
class Scenario:
    """An action of a fault rule, and the task of the client.

    Attributes:
        task: ``produce`` a record, ``read`` one, ask for the ``end`` offset, ``commit`` or ``join``.
        rule: The rule, without the API that the task needs.
        held: Whether the test releases a held request.
        tls: Whether the listener has TLS.
    """

    task: str
    rule: Mapping[str, Any] = field(default_factory=dict)
    held: bool = False
    tls: bool = False


def frame(form: str) -> Scenario:
    """Return a scenario that malforms only the ListOffsets response with the end offset, because librdkafka requests
    the start offset at the same time.
    """
    return Scenario("end", {"malform": form, "where": "body.topics[0].partitions[0].timestamp == -1"})


def records(form: str, **rule: Any) -> Scenario:
    return Scenario("read", {"malform": form, **rule})


UNKNOWN_MEMBER = {"name": TOPIC, "partitions": [{"partition_index": 0, "error_code": 25}]}
SCENARIOS: dict[str, Scenario] = {
    "error: NOT_LEADER_OR_FOLLOWER of Produce": Scenario("produce", {"error": "NOT_LEADER_OR_FOLLOWER"}),
    "error: MESSAGE_TOO_LARGE of Produce": Scenario("produce", {"error": "MESSAGE_TOO_LARGE"}),
    "error: COORDINATOR_LOAD_IN_PROGRESS of OffsetCommit": Scenario(
        "commit", {"error": "COORDINATOR_LOAD_IN_PROGRESS"}
    ),
    "error: REBALANCE_IN_PROGRESS of OffsetCommit": Scenario("commit", {"error": "REBALANCE_IN_PROGRESS"}),
    "error: OFFSET_OUT_OF_RANGE of Fetch": Scenario("read", {"error": "OFFSET_OUT_OF_RANGE", "topic": "*"}),
    "delay_ms before Produce": Scenario("produce", {"delay_ms": 200}),
    "delay_ms after Produce, above the request timeout": Scenario("produce", {"delay_ms": 3_000, "when": "after"}),
    "disconnect before Produce": Scenario("produce", {"disconnect": "before"}),
    "disconnect before Produce, reset": Scenario("produce", {"disconnect": "before", "reset": True}),
    "disconnect after Produce": Scenario("produce", {"disconnect": "after"}),
    "disconnect after Produce, reset": Scenario("produce", {"disconnect": "after", "reset": True}),
    "disconnect mid-response of Produce": Scenario("produce", {"disconnect": "mid-response"}),
    "disconnect mid-response of Produce, reset": Scenario("produce", {"disconnect": "mid-response", "reset": True}),
    "disconnect mid-response of Fetch": Scenario("read", {"disconnect": "mid-response"}),
    "hold before OffsetCommit": Scenario("commit", {"hold": True}, held=True),
    "hold after OffsetCommit": Scenario("commit", {"hold": True, "when": "after"}, held=True),
    "no_response before Produce": Scenario("produce", {"no_response": True}),
    "no_response after Produce": Scenario("produce", {"no_response": True, "when": "after"}),
    "throttle_ms of Produce": Scenario("produce", {"throttle_ms": 200}),
    "respond to ListOffsets: offset 1000": Scenario(
        "end",
        {"respond": {"topics": [{"name": TOPIC, "partitions": [{"offset": 1_000}]}]}, "times": "always"},
    ),
    "respond to OffsetCommit: UNKNOWN_MEMBER_ID": Scenario("commit", {"respond": {"topics": [UNKNOWN_MEMBER]}}),
    "bytes_per_second of the request: Produce": Scenario("produce", {"bytes_per_second": 1_000, "of": "request"}),
    "bytes_per_second of the response: Fetch": Scenario("read", {"bytes_per_second": 1_000}),
    "malform: length": frame("length"),
    "malform: correlation_id": frame("correlation_id"),
    "malform: truncate": frame("truncate"),
    "malform: garbage": frame("garbage"),
    "malform: null_array": frame("null_array"),
    "malform: negative_length": frame("negative_length"),
    "malform: huge_array": frame("huge_array"),
    "malform: unknown_version": Scenario("end", {"malform": "unknown_version", "api": "ApiVersions"}),
    "malform: crc": records("crc"),
    "malform: magic": records("magic"),
    "malform: record_count": records("record_count"),
    "malform: decompression_bomb": records("decompression_bomb", parameters={"bytes": 1_000_000}),
    "malform: corrupt_values": records("corrupt_values"),
    "malform: schema_id": records("schema_id"),
    "malform: duplicate_records": records("duplicate_records"),
    "evict at Heartbeat": Scenario("join", {"evict": True}),
    "connection: refuse": Scenario("produce", {"on": "connect", "disconnect": "before"}),
    "connection: reset": Scenario("produce", {"on": "connect", "disconnect": "before", "reset": True}),
    "connection: fail_tls": Scenario("produce", {"on": "connect", "fail_tls": True}, tls=True),
    "connection: silent": Scenario("produce", {"on": "connect", "no_response": True}),
    "connection: hold": Scenario("produce", {"on": "connect", "hold": True}, held=True),
    "connection: delay_ms": Scenario("produce", {"on": "connect", "delay_ms": 200}),
}


def play(scenario: Scenario, family: str) -> str:
    """Let a client meet a fault, check that the rule was applied, and return what the client reported."""
    listener = {"listeners": ["SSL"]} if scenario.tls else {}
    with run_cluster(topics={TOPIC: 1}, config=CONFIG, **listener) as cluster:
        if scenario.task in ("read", "end"):
            cluster.produce(TOPIC, ["tea"])
        api = {} if scenario.rule.get("on") else {"api": API[scenario.task]}
        fault = cluster.faults.add(**{**api, **scenario.rule})
        task = Task(
            scenario.task,
            cluster.bootstrap_servers,
            cluster.tls.ca if scenario.tls else None,
            lambda: _lives(cluster) >= 2,
        )
        with ThreadPoolExecutor(1) as pool:
            doing = pool.submit(perform, family, task)
            if scenario.held:
                fault.wait_holding(WAIT)
                fault.release()
            else:
                fault.wait_applied(WAIT)
            outcome = doing.result(60)
        with warnings.catch_warnings(action="ignore", category=ResourceWarning):
            gc.collect()  # clients do not close the sockets of connections that a rule has broken
        assert fault.applied
        errors = [*outcome.errors, *(["no error"] if not outcome.errors else [])]
        requests = len(cluster.requests(API[scenario.task]))
        match scenario.task:
            case "produce":
                number = len(cluster.records(TOPIC))
                effect = f"{number} record{'s' * (number != 1)} written"
            case "commit":
                effect = "committed" if cluster.committed(GROUP) else "not committed"
            case "join":
                return f"{', '.join(errors)}; {'joined again' if _lives(cluster) >= 2 else 'did not join again'}"
            case _:
                shown = [_short(value) for value in outcome.values]
                return f"{', '.join(errors)}; {'read ' + ', '.join(shown) if shown else 'nothing read'}"
        return f"{', '.join(errors)}; {requests} request{'s' * (requests != 1)}, {effect}"


def _lives(cluster: ThreadCluster) -> int:
    """Return the number of member ids that have had an assignment."""
    return len({event.member_id for event in cluster.events() if event.event == "assign"})


def _short(value: str) -> str:
    if not value.isascii():
        return "changed bytes"
    return value if len(value) < 10 else f"{len(value)} bytes"
