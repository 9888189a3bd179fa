"""Groups: their members, assignments and committed offsets."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any
from uuid import UUID

from mockbroker.api.wait import EVENTS_SHOWN, STATES
from mockbroker.control.control import Control
from mockbroker.control.paging import page
from mockbroker.control.problems import Refused
from mockbroker.control.resources.events import EVENT
from mockbroker.control.routes import TIMEOUT, Answer, Call, Parameter
from mockbroker.control.shapes import Anything, Items, MapOf, Null, Object, Text, Whole, listed
from mockbroker.groups.coordinated import DEAD, CoordinatedGroup, session_timer
from mockbroker.groups.group_types import GROUP_TYPES

TYPES = tuple(each.name for each in GROUP_TYPES.types)
MEMBER = Object(
    {
        "member_id": Text(),
        "instance_id": Null(Text()),
        "client_id": Text(),
        "host": Text(),
        "subscription": Null(Items(Text())),
        "assignment": Null(MapOf(Items(Whole()))),
        "last_heartbeat": Null(Text(format="date-time")),
        "last_heartbeat_ms": Null(Whole(-(2**63))),
    },
    {"subscribed_regex": Null(Text()), "state": Text(), "epoch": Whole(-2)},
    name="Member",
)
OFFSET = Object(
    {"topic": Text(), "partition": Whole(), "offset": Whole(), "lag": Null(Whole()), "metadata": Null(Text())}
)
GROUP = Object(
    {
        "id": Text(),
        "type": Text(TYPES),
        "state": Text(tuple(STATES)),
        "generation": Whole(-1),
        "protocol_type": Text(),
        "protocol": Null(Text()),
        "leader": Text(),
        "coordinator": Whole(-1),
        "members": Items(MEMBER),
        "offsets": Items(OFFSET),
    },
    {"epoch": Whole(-1)},
    name="Group",
)
GROUPS = listed(GROUP)
TIMED_OUT = Object({"group": Null(GROUP), "events": Items(EVENT)}, further=Anything())
EVICT_PARAMETERS = (Parameter("reason", Text(), "reason for the journal", ""),)
CONDITIONS = (
    Parameter("state", Text(tuple(STATES)), "state of the group; any state but Dead if absent"),
    Parameter("members", Whole(), "number of members"),
    Parameter("min_generation", Whole(), "minimum of its generation or epoch"),
    TIMEOUT,
)
REASON = Object(optional={"reason": Text()})
NEW_OFFSETS = Object({"offsets": Items(Object({"topic": Text(), "partition": Whole(), "offset": Whole()}))})
_Names = Mapping[UUID, str]


async def read_all(control: Control, call: Call) -> Answer:
    """Answer GET /v1/groups."""
    names, groups = _topic_names(control), control.broker.groups
    return page(call, groups, lambda group_id: group_json(control, groups[group_id], names))


async def read(control: Control, call: Call) -> Answer:
    """Answer GET /v1/groups/{group}."""
    return Answer(group_json(control, existing(control, call.path["group"]), _topic_names(control)))


async def wait(control: Control, call: Call) -> Answer:
    """Answer GET /v1/groups/{group}/wait."""
    group_id, query = call.path["group"], call.query

    def is_met() -> bool | None:
        group = control.broker.groups.get(group_id)
        state = DEAD if group is None else group.state_name
        members = 0 if group is None else len(group.members)
        generation = -1 if group is None else group.generation
        met = (
            (state != DEAD if query["state"] is None else state == query["state"])
            and query["members"] in (None, members)
            and (query["min_generation"] is None or generation >= query["min_generation"])
        )
        return True if met else None

    met = await control.wait(is_met, query["timeout_ms"])
    group = control.broker.groups.get(group_id)
    found = _dead(group_id) if group is None else group_json(control, group, _topic_names(control))
    if met:
        return Answer(found)
    raise Refused(
        504,
        f"the group did not meet the condition within {query['timeout_ms']} ms",
        more={"group": found, "events": control.feed.latest(EVENTS_SHOWN, group_id)},
    )


async def rebalance(control: Control, call: Call) -> Answer:
    """Answer POST /v1/groups/{group}/rebalance."""
    control.cluster.rebalance(call.path["group"], call.body.get("reason", ""))
    return await read(control, call)


async def evict(control: Control, call: Call) -> Answer:
    """Answer DELETE /v1/groups/{group}/members/{member}."""
    control.cluster.evict(call.path["group"], call.path["member"], call.query["reason"])
    return Answer()


async def set_offsets(control: Control, call: Call) -> Answer:
    """Answer PUT /v1/groups/{group}/offsets."""
    offsets = {(each["topic"], each["partition"]): each["offset"] for each in call.body["offsets"]}
    control.cluster.set_committed(call.path["group"], offsets)
    return await read(control, call)


def existing(control: Control, group_id: str) -> CoordinatedGroup:
    """Return a group. Raises: Refused with status 404 if it does not exist."""
    group = control.broker.groups.get(group_id)
    if group is None:
        raise Refused(404, "this group does not exist: GET /v1/groups lists all groups")
    return group


def group_json(control: Control, group: CoordinatedGroup, names: _Names) -> dict[str, Any]:
    """Return a group as a JSON object. ``names``: topic names by topic id."""
    broker = control.broker
    group_type = broker.groups.types.of(group)
    described = group_type.to_json(group, names, broker.settings)
    view = group_type.view(group, broker.groups.context)
    return {
        "id": group.group_id,
        "type": group.type_name,
        "state": group.state_name,
        "generation": group.generation,
        **({"epoch": described["epoch"]} if "epoch" in described else {}),
        "protocol_type": group.protocol_type,
        "protocol": view.protocol,
        "leader": view.leader,
        "coordinator": broker.coordinator(group.group_id),
        "members": [_member_json(control, group, member) for member in described["members"]],
        "offsets": _offsets_json(control, group),
    }


def _member_json(control: Control, group: CoordinatedGroup, member: Mapping[str, Any]) -> dict[str, Any]:
    expires = group.timers.at(session_timer(member["member_id"]))
    timeout_ms = member["session_timeout_ms"]
    if timeout_ms is None:
        timeout_ms = control.broker.settings.group_consumer_session_timeout_ms
    begin = control.cluster.journal.begin
    heartbeat_ms = None if expires is None or expires == inf else round((expires - begin) * 1000) - timeout_ms
    return {
        "member_id": member["member_id"],
        "instance_id": member["instance_id"],
        "client_id": member["client_id"],
        "host": member["client_host"].removeprefix("/"),
        "subscription": member["subscribed_topics"],
        "assignment": member["assignment"],
        "last_heartbeat": None if heartbeat_ms is None else control.feed.time(heartbeat_ms),
        "last_heartbeat_ms": heartbeat_ms,
        **({"subscribed_regex": member["subscribed_regex"]} if "subscribed_regex" in member else {}),
        **({"state": member["state"], "epoch": member["member_epoch"]} if "member_epoch" in member else {}),
    }


def _offsets_json(control: Control, group: CoordinatedGroup) -> list[dict[str, Any]]:
    topics = control.broker.cluster.topics
    found = []
    for (name, index), committed in sorted(group.offsets.committed.items()):
        topic = topics.get(name)
        partition = None if topic is None else topic.partition(index)
        lag = None if partition is None else max(partition.log.end - committed.offset, 0)
        found.append(
            {
                "topic": name,
                "partition": index,
                "offset": committed.offset,
                "lag": lag,
                "metadata": committed.metadata,
            }
        )
    return found


def _dead(group_id: str) -> dict[str, Any]:
    """Return the JSON object of a group that does not exist."""
    return {
        "id": group_id,
        "type": TYPES[0],
        "state": DEAD,
        "generation": 0,
        "protocol_type": "",
        "protocol": None,
        "leader": "",
        "coordinator": -1,
        "members": [],
        "offsets": [],
    }


def _topic_names(control: Control) -> dict[UUID, str]:
    return {topic_id: topic.name for topic_id, topic in control.broker.cluster.by_id.items()}
