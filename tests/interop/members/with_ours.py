"""A group member with mockbroker.consumer. Unlike the others, it also reports the assignments that it makes as leader."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import trio
from talk import OPTIONS, POLL, command, tell, tell_fenced, tell_left, tell_record

from kwire.assignors import Assignor, assignor
from mockbroker.consumer import (
    CommitFailed,
    Consumer,
    FencedInstance,
    RebalanceInProgress,
    RebalanceListener,
    open_consumer,
)


class Listener(RebalanceListener):
    async def on_assigned(self, _: Consumer, partitions: Sequence[tuple[str, int]]) -> None:
        tell("assigned", partitions=sorted(partitions))

    async def on_revoked(self, _: Consumer, partitions: Sequence[tuple[str, int]]) -> None:
        tell("revoked", partitions=sorted(partitions))


def reporting_assignor(name: str) -> Assignor:
    """Return the assignor of this name; it also reports its assignments."""
    kind = type(assignor(name))

    class ReportingAssignor(kind):
        def assign(self, topics: Mapping[str, Any], members: Sequence[Any]) -> dict[str, Any]:
            plan = super().assign(topics, members)
            tell("planned", shares={member_id: sorted(share.partitions) for member_id, share in plan.items()})
            return plan

    return ReportingAssignor()


def settings() -> dict[str, Any]:
    if OPTIONS["protocol"] == "consumer":
        return {"group_protocol": "consumer", "group_remote_assignor": OPTIONS["assignor"]}
    return {
        "assignors": [reporting_assignor(name) for name in OPTIONS["assignor"].split(",")],
        "session_timeout": OPTIONS["session_ms"] / 1000,
        "heartbeat_interval": OPTIONS["heartbeat_ms"] / 1000,
    }


async def try_commit(consumer: Consumer) -> bool:
    """Commit; return False if the group rebalances, which the next poll joins."""
    try:
        await consumer.commit()
    except (CommitFailed, RebalanceInProgress):
        return False
    return True


async def main() -> None:
    async with open_consumer(
        OPTIONS["bootstrap"],
        client_id=OPTIONS["client_id"],
        group=OPTIONS["group"],
        group_instance_id=OPTIONS["instance"] or None,
        topics=re.compile(OPTIONS["regex"]) if OPTIONS["regex"] else [OPTIONS["topic"]],
        listener=Listener(),
        auto_offset_reset=OPTIONS["reset"],
        enable_auto_commit=False,
        metadata_max_age=1.0,
        fetch_max_wait=0.1,
        **settings(),
    ) as consumer:
        requested = ""
        while requested != "leave":
            for record in await consumer.poll(POLL):
                tell_record(record.topic, record.partition, record.offset, record.value)
            if requested == "commit" and await try_commit(consumer):
                tell("committed")
                requested = ""
            requested = requested or command()


try:
    trio.run(main)
except FencedInstance as fenced:
    tell_fenced(fenced)
tell_left()
