"""The resource ``/v1/brokers``: changes of brokers and replicas, and moves of leaders and coordinators."""

from __future__ import annotations

from mockbroker.control.control import Control
from mockbroker.control.problems import NotPossible, Refused
from mockbroker.control.resources.server import brokers
from mockbroker.control.routes import Answer, CheckedRequest
from mockbroker.control.shapes import Items, Object, Text, Whole
from mockbroker.faults.sections import Problem

LONGEST_NOTICE_MS = 86_400_000
ACTION = Object(
    {"action": Text(("stop", "kill", "start", "freeze_metadata", "thaw_metadata"))},
    {"noticed_after_ms": Whole(0, LONGEST_NOTICE_MS)},
)
TARGET = Object({"broker": Whole()})
LEADER = Object({"topic": Text(), "partition": Whole(), "leader": Whole(-1)})
REPLICA_ACTION = Object({"action": Text(("pause", "resume"))})
IN_SYNC = Object({"topic": Text(), "partition": Whole(), "in_sync": Items(Whole())})
COORDINATOR = Object({"group": Text(), "coordinator": Whole(-1)})


async def act(control: Control, call: CheckedRequest) -> Answer:
    """Answer POST /v1/brokers/{broker}: stop, kill or start a broker, or freeze or thaw its metadata. Return the
    broker.
    """
    node = _id_of(call.path["broker"])
    if node not in _ids(control):
        raise Refused(
            404,
            f"broker {call.path['broker']!r} does not exist: the broker ids are {', '.join(map(str, _ids(control)))}",
        )
    action, cluster = call.body["action"], control.cluster
    if action != "kill" and "noticed_after_ms" in call.body:
        raise NotPossible(
            [Problem("noticed_after_ms", f"the action {action} has no such key: only kill has one", ("kill",))]
        )
    if action == "stop":
        cluster.stop_broker(node)
    elif action == "kill":
        cluster.kill_broker(node, call.body.get("noticed_after_ms", 0) / 1000)
    elif action == "start":
        cluster.start_broker(node)
    elif action == "freeze_metadata":
        cluster.freeze_metadata(node)
    else:
        cluster.thaw_metadata(node)
    control.feed.wake()
    return Answer(next(each for each in brokers(control) if each["id"] == node))


async def move_leader(control: Control, call: CheckedRequest) -> Answer:
    """Answer POST /v1/topics/{topic}/partitions/{partition}/leader: move the leadership to another broker.

    The response has the leader after the move.
    """
    topic, index = call.path["topic"], _id_of(call.path["partition"])
    control.cluster.move_leader(topic, index, _target(control, call))
    leader = control.broker.cluster.topics[topic].partitions[index].leader
    return Answer({"topic": topic, "partition": index, "leader": leader})


async def act_on_replica(control: Control, call: CheckedRequest) -> Answer:
    """Answer POST /v1/topics/{topic}/partitions/{partition}/replicas/{broker}: pause or resume a replica.

    The response has the in-sync replicas of the partition.
    """
    topic, index, node = call.path["topic"], _id_of(call.path["partition"]), _id_of(call.path["broker"])
    if call.body["action"] == "pause":
        control.cluster.pause_replica(topic, index, node)
    else:
        control.cluster.resume_replica(topic, index, node)
    control.feed.wake()
    partition = control.broker.cluster.topics[topic].partitions[index]
    return Answer({"topic": topic, "partition": index, "in_sync": control.broker.cluster.in_sync(partition)})


async def move_coordinator(control: Control, call: CheckedRequest) -> Answer:
    """Answer POST /v1/groups/{group}/coordinator: move the group to another coordinator, and return the coordinator."""
    group_id = call.path["group"]
    control.cluster.move_coordinator(group_id, _target(control, call))
    return Answer({"group": group_id, "coordinator": control.cluster.coordinator(group_id)})


def _target(control: Control, call: CheckedRequest) -> int:
    node: int = call.body["broker"]
    if node not in _ids(control):
        raise NotPossible([Problem("broker", f"broker {node} does not exist", tuple(map(str, _ids(control))))])
    return node


def _ids(control: Control) -> list[int]:
    return [node.node_id for node in control.cluster.nodes]


def _id_of(segment: str) -> int:
    """Return the number in a segment of a path; -1 if the segment is not a number."""
    value = Whole().parse(segment)
    return value if isinstance(value, int) else -1
