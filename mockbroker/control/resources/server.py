"""The resources of the server itself: its health, the cluster, reset and sessions."""

from __future__ import annotations

from typing import Any

from mockbroker.broker.failover import is_running
from mockbroker.control.control import Control
from mockbroker.control.routes import Answer, CheckedRequest
from mockbroker.control.shapes import Items, Object, Text, Whole

BROKER_STATES = ("running", "stopped")
BROKER = Object({"id": Whole(), "host": Text(), "port": Whole(), "state": Text(BROKER_STATES)}, name="Broker")
HEALTH = Object(
    {"status": Text(("ok",)), "kind": Text(("mock", "proxy")), "release": Text(), "capabilities": Items(Text())},
    name="Health",
)
COUNTS = Object({name: Whole() for name in ("topics", "partitions", "groups", "members", "connections")})
CLUSTER = Object(
    {
        "kind": Text(("mock", "proxy")),
        "capabilities": Items(Text()),
        "release": Text(),
        "cluster_id": Text(),
        "bootstrap_servers": Text(),
        "listeners": Items(Object({"name": Text(), "bootstrap_servers": Text()})),
        "brokers": Items(BROKER),
        "counts": COUNTS,
    },
    name="Cluster",
)
RESET = Object({"after": Whole()})
LOGIN = Object({"token": Text()})


async def health(control: Control, call: CheckedRequest) -> Answer:  # noqa: ARG001
    """Answer GET /v1/health: return the kind, the release and the capabilities of the running server."""
    return Answer({"status": "ok", "kind": control.kind, "release": _release(control), "capabilities": _can(control)})


async def cluster(control: Control, call: CheckedRequest) -> Answer:  # noqa: ARG001
    """Answer GET /v1/cluster: return the release, the listeners, the brokers and the counts of the cluster."""
    return Answer(cluster_json(control))


def cluster_json(control: Control) -> dict[str, Any]:
    """Return the cluster as a JSON object."""
    handle = control.cluster
    broker = control.broker
    topics = [topic for topic in broker.cluster.topics.values() if not topic.internal]
    return {
        "kind": control.kind,
        "capabilities": _can(control),
        "release": _release(control),
        "cluster_id": broker.cluster.cluster_text,
        "bootstrap_servers": handle.bootstrap_servers,
        "listeners": [{"name": name, "bootstrap_servers": servers} for name, servers in handle.listeners.items()],
        "brokers": brokers(control),
        "counts": {
            "topics": len(topics),
            "partitions": sum(len(topic.partitions) for topic in topics),
            "groups": len(broker.groups.items()),
            "members": sum(len(group.members) for group in broker.groups.values()),
            "connections": control.connection_count,
        },
    }


def brokers(control: Control) -> list[dict[str, Any]]:
    """Return the brokers as JSON objects, ordered by id."""
    return [
        {
            "id": node.node_id,
            "host": node.host,
            "port": node.port,
            "state": BROKER_STATES[not is_running(control.broker, node.node_id)],
        }
        for node in control.cluster.nodes
    ]


async def reset(control: Control, call: CheckedRequest) -> Answer:  # noqa: ARG001
    """Answer POST /v1/reset: reset the cluster.

    The field ``after`` of the response is the id of the last event before the reset.
    """
    control.cluster.reset()
    control.feed.wake()
    return Answer({"after": control.feed.last})


async def log_in(control: Control, call: CheckedRequest) -> Answer:
    """Answer POST /v1/session: begin a session, and return its cookie."""
    return Answer({}, {"Set-Cookie": control.access.log_in(call.body["token"])})


async def log_out(control: Control, call: CheckedRequest) -> Answer:
    """Answer DELETE /v1/session: end the session."""
    return Answer(headers={"Set-Cookie": control.access.log_out(call.request.headers)})


def _release(control: Control) -> str:
    return control.cluster.release_name


def _can(control: Control) -> list[str]:
    return sorted(control.capabilities)
