"""Tables of a group that rebalances repeatedly; in each rebalance, every partition moves to the next member."""

from __future__ import annotations

from typing import Any

from tools.handmade_calls import BEGIN

from kwire.analysis.columns import Row
from kwire.analysis.tables import TABLES

STEP = 1_000_000  # µs between rebalances
STOP = 120_000  # µs between the trigger and the first assignment
EACH = 200  # µs of delay of each member after the previous one


def rotating_group(members: int, rebalances: int, partitions: int, group: str = "billing") -> dict[str, list[Row]]:
    """Return the tables of the group. ``rebalances``: number of generations, all with the same members."""
    made: dict[str, list[Row]] = {name: [] for name in TABLES}
    names = [f"worker-{number:02}" for number in range(members)]
    own = {"group_id": group, "cluster": "c", "life": 1, "protocol": "classic"}

    def add(table: str, **values: Any) -> None:
        made[table].append(TABLES[table].row(capture_id="made by hand", **values))

    for generation in range(1, rebalances + 1):
        begin = BEGIN + (generation - 1) * STEP
        for number, name in enumerate(names):
            resumed = begin + STOP + number * EACH
            stop = {} if generation == 1 else {"stopped_ts": begin, "stw_ms": (resumed - begin) / 1000}
            who = {**own, "generation": generation, "member_id": f"{name}-id", "client_id": name}
            more = {"host": "10.0.0.1", "joined_ts": BEGIN + STOP + number * EACH, "resumed_ts": resumed}
            add(
                "members", **who, **more, **stop, join_ms=(resumed - begin) / 1000, leader=number == 0, incomplete=False
            )
        owner = {partition: names[(partition + generation) % members] for partition in range(partitions)}
        for partition, name in owner.items():
            who = {**own, "generation": generation, "member_id": f"{name}-id", "client_id": name, "topic": "tea"}
            before = None if generation == 1 else f"{names[(partition + generation - 1) % members]}-id"
            add("assignments", **who, partition=partition, from_prev_owner=before, source="told")
            if partition % 10 == 0:
                commit = {**own, "generation": generation, "member_id": f"{name}-id", "client_id": name, "topic": "tea"}
                del commit["protocol"]
                at = {"ts": begin + STEP // 2, "partition": partition, "offset": 100 * generation, "lag": partition}
                add("offset_commits", **commit, **at, outcome="committed", error_code=0)
        longest = (STOP + (members - 1) * EACH) / 1000
        add(
            "rebalances",
            **own,
            from_generation=generation - 1 or None,
            to_generation=generation,
            started_ts=begin,
            joined_ts=begin + STOP // 2,
            ended_ts=begin + round(longest * 1000),
            duration_ms=longest,
            trigger="joined" if generation == 1 else "metadata",
            trigger_member=f"{names[0]}-id",
            trigger_client=names[0],
            trigger_evidence="JoinGroup of a member with other topics",
            trigger_confidence="observed",
            members_before=[] if generation == 1 else [f"{name}-id" for name in names],
            members_after=[f"{name}-id" for name in names],
            stw_kind="eager",
            stw_ms_max=None if generation == 1 else longest,
            stw_ms_avg=None if generation == 1 else longest,
            partitions_moved=0 if generation == 1 else partitions,
            incomplete=False,
        )
        add(
            "findings",
            rank=3,
            severity="notice",
            finding="costly-rebalance",
            group_id=group,
            cluster="c",
            begin_ts=begin,
            end_ts=begin + STOP,
            cost=longest,
            sentence=f"Generation {generation} of `{group}` stopped consumption for {longest:.0f} ms.",
            evidence=[f"rebalances to_generation={generation} life=1"],
            evidence_count=1,
        )
    beat = {**own, "event": "heartbeat", "inferred": False, "member_id": f"{names[0]}-id", "conn_id": "c"}
    for number, moment in enumerate((BEGIN, BEGIN + rebalances * STEP)):
        add("group_events", ts=moment, **beat, number=number)
    return made
