"""The resource ``/v1/groups``: groups with their members, assignments and committed offsets."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from math import inf
from typing import Any
from uuid import UUID

from mockbroker.api.groups import unknown_group
from mockbroker.api.wait import EVENTS_SHOWN, STATES
from mockbroker.base.errors import ConflictError
from mockbroker.broker.slices import chunks
from mockbroker.control.control import Control
from mockbroker.control.lag_history import lag
from mockbroker.control.paging import answer, ids_of_page
from mockbroker.control.problems import NotPossible, Refused
from mockbroker.control.resources.events import EVENT
from mockbroker.control.routes import TIMEOUT, Answer, CheckedRequest, Parameter
from mockbroker.control.shapes import Anything, Items, MapOf, Null, Object, Text, Whole, listed
from mockbroker.faults.sections import Problem
from mockbroker.groups.coordinated import DEAD, CoordinatedGroup, session_timer
from mockbroker.groups.group_type import MemberDescription
from mockbroker.groups.group_types import GROUP_TYPES
from mockbroker.groups.offsets import Committed
from mockbroker.net.slices import complete

MEMBERS_AT_ONCE = 100  # members that are described before other tasks run
OFFSETS_AT_ONCE = 1_000
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
    {
        "subscribed_regex": Null(Text()),
        "state": Text(),
        "epoch": Whole(-2),
        "process_id": Text(),
        "tasks": MapOf(MapOf(Items(Whole()))),
    },
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
LAG = Object(
    {"times_ms": Items(Whole()), "total": Items(Whole()), "partitions": MapOf(MapOf(Items(Null(Whole()))))},
    name="LagHistory",
)
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


async def read_all(control: Control, call: CheckedRequest) -> Answer:
    """Answer GET /v1/groups: return a page of the groups."""
    names, groups = topic_names(control), control.broker.groups
    wanted, cursor = ids_of_page(call, groups)
    listed_groups = [
        await complete(group_json(control, group, names))
        for group_id in wanted
        if (group := groups.get(group_id)) is not None  # else it was deleted between two slices
    ]
    return answer(listed_groups, cursor)


async def read(control: Control, call: CheckedRequest) -> Answer:
    """Answer GET /v1/groups/{group}: return a group."""
    group = existing(control, call.path["group"])
    return Answer(await complete(group_json(control, group, topic_names(control))))


async def read_lag(control: Control, call: CheckedRequest) -> Answer:
    """Answer GET /v1/groups/{group}/lag: return the lag of a group over time."""
    return Answer(await complete(control.lags.slices(existing(control, call.path["group"]).group_id)))


async def wait(control: Control, call: CheckedRequest) -> Answer:
    """Answer GET /v1/groups/{group}/wait: wait until a group meets the conditions, and return the group.

    Raises: Refused with status 504 after the timeout.
    """
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
    content = _dead(group_id) if group is None else await complete(group_json(control, group, topic_names(control)))
    if met:
        return Answer(content)
    conditions = ("state", "members", "min_generation")
    wanted = [f"{name} {query[name]}" for name in conditions if query[name] is not None] or ["a state"]
    raise Refused(
        504,
        f"timed out after {query['timeout_ms']} ms waiting for group {group_id} to have {' and '.join(wanted)}: "
        f"it has state {content['state']}, members {len(content['members'])} and generation {content['generation']}",
        more={"group": content, "events": control.feed.latest(EVENTS_SHOWN, group_id)},
    )


async def rebalance(control: Control, call: CheckedRequest) -> Answer:
    """Answer POST /v1/groups/{group}/rebalance: start a rebalance, and return the group."""
    control.cluster.rebalance(call.path["group"], call.body.get("reason", ""))
    return await read(control, call)


async def evict(control: Control, call: CheckedRequest) -> Answer:
    """Answer DELETE /v1/groups/{group}/members/{member}: evict a member."""
    control.cluster.evict(call.path["group"], call.path["member"], call.query["reason"])
    return Answer()


async def set_offsets(control: Control, call: CheckedRequest) -> Answer:
    """Answer PUT /v1/groups/{group}/offsets: set committed offsets, and return the group."""
    offsets = {(each["topic"], each["partition"]): each["offset"] for each in call.body["offsets"]}
    try:
        control.cluster.set_committed(call.path["group"], offsets)
    except ConflictError:
        raise
    except ValueError as error:
        raise NotPossible([Problem("", str(error))]) from error
    return await read(control, call)


def existing(control: Control, group_id: str) -> CoordinatedGroup:
    """Return the group with this id. Raises: UnknownGroupError."""
    group = control.broker.groups.get(group_id)
    if group is None:
        raise unknown_group(control.broker, group_id)
    return group


def group_json(control: Control, group: CoordinatedGroup, names: _Names) -> Generator[None, None, dict[str, Any]]:
    """Return a group as a JSON object.

    The generator yields after a limited number of members or offsets, so that other tasks can run. A member that leaves
    the group meanwhile may be missing in the result.

    Args:
        control: the state of the control API.
        group: the group.
        names: topic names by topic id.
    """
    summary = summary_json(control, group)
    members, offsets = list[dict[str, Any]](), list[dict[str, Any]]()
    for some in chunks(list(group.members), MEMBERS_AT_ONCE):
        members += members_json(control, group, some, names)
        yield
    for committed in chunks(sorted(group.offsets.committed.items()), OFFSETS_AT_ONCE):
        offsets += _offsets_json(control, committed)
        yield
    return {**summary, "members": members, "offsets": offsets}


def members_json(
    control: Control, group: CoordinatedGroup, member_ids: Sequence[str], names: _Names
) -> list[dict[str, Any]]:
    """Return some members of a group as JSON objects. Ids of members that have left the group are ignored.

    Args:
        control: the state of the control API.
        group: the group.
        member_ids: ids of the members.
        names: topic names by topic id.
    """
    groups = control.broker.groups
    described = groups.types.of(group).describe_members(group, member_ids, names, groups.context)
    return [member_json(control, group, member) for member in described]


def summary_json(control: Control, group: CoordinatedGroup) -> dict[str, Any]:
    """Return a group as a JSON object, without members and offsets."""
    broker = control.broker
    summary = broker.groups.types.of(group).summary(group, broker.groups.context)
    return {
        "id": group.group_id,
        "type": group.type_name,
        "state": group.state_name,
        "generation": group.generation,
        **({} if summary.epoch is None else {"epoch": summary.epoch}),
        "protocol_type": group.protocol_type,
        "protocol": summary.protocol,
        "leader": summary.leader,
        "coordinator": broker.coordinator(group.group_id),
    }


def member_json(control: Control, group: CoordinatedGroup, member: MemberDescription) -> dict[str, Any]:
    """Return a member of a group as a JSON object, the shape MEMBER. Keys that the type of the group does not have are
    absent.
    """
    expires = group.timers.at(session_timer(member.member_id))
    begin, timeout_ms = control.cluster.journal.begin, member.session_timeout_ms
    heartbeat_ms = None if expires is None or expires == inf else round((expires - begin) * 1000) - timeout_ms
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.client_host.removeprefix("/"),
        "subscription": member.subscription,
        "assignment": member.assignment,
        "last_heartbeat": None if heartbeat_ms is None else control.feed.time(heartbeat_ms),
        "last_heartbeat_ms": heartbeat_ms,
        **({} if member.regex is None else {"subscribed_regex": member.regex or None}),
        **({} if member.state is None else {"state": member.state}),
        **({} if member.epoch is None else {"epoch": member.epoch}),
        **({} if member.process_id is None else {"process_id": member.process_id}),
        **({} if member.tasks is None else {"tasks": member.tasks}),
    }


def _offsets_json(control: Control, committed: Sequence[tuple[tuple[str, int], Committed]]) -> list[dict[str, Any]]:
    topics = control.broker.cluster.topics
    return [
        {
            "topic": name,
            "partition": index,
            "offset": each.offset,
            "lag": lag(topics, name, index, each.offset),
            "metadata": each.metadata,
        }
        for (name, index), each in committed
    ]


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


def topic_names(control: Control) -> dict[UUID, str]:
    """Return the names of all topics, by topic id."""
    return {topic_id: topic.name for topic_id, topic in control.broker.cluster.by_id.items()}
