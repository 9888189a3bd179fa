"""The fifteen scenarios of a coordinator that dies: at which moment it dies, and what must hold afterwards.

There are five steps of a member's life, and three moments of the request for the step. The group already has members
then. A new member performs the first three steps, a current member the other two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MOMENTS = {
    "before": "the request is received but not handled",
    "during": "the request is handled and written, but the response is not sent",
    "after": "the response is sent",
}


@dataclass(frozen=True)
class Step:
    """An operation of a member. SyncGroup is that of the leader, which contains the assignments.

    Attributes:
        name: Name of the operation.
        classic: Its requests in the classic protocol.
        consumer: Its requests in the consumer protocol.
        newcomer: Whether a new member performs it.
    """

    name: str
    classic: tuple[str, ...]
    consumer: tuple[str, ...]
    newcomer: bool


STEPS = [
    Step("find", ("FindCoordinator",), ("FindCoordinator",), newcomer=True),
    Step("join", ("JoinGroup",), ("ConsumerGroupHeartbeat, epoch 0",), newcomer=True),
    Step("sync", ("SyncGroup",), ("ConsumerGroupHeartbeat, the first one with owned partitions",), newcomer=True),
    Step("stable", ("Heartbeat",), ("ConsumerGroupHeartbeat",), newcomer=False),
    Step(
        "commit or leave",
        ("OffsetCommit", "LeaveGroup"),
        ("OffsetCommit", "ConsumerGroupHeartbeat, epoch -1"),
        newcomer=False,
    ),
]


@dataclass(frozen=True)
class Scenario:
    """The death of a coordinator at one moment of an operation.

    Attributes:
        step: The operation.
        moment: A key of MOMENTS.
        held: State written before the coordinator dies, from which the next coordinator continues.
        counts: Protocols in which the effect of the operation itself is written: a new member has joined, offsets are
            committed, or a member of the consumer protocol has left.
    """

    step: Step
    moment: str
    held: str
    counts: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.step.name}, {self.moment}"


BOTH = ("classic", "consumer")
HELD: Mapping[tuple[str, str], tuple[str, tuple[str, ...]]] = {
    ("find", "before"): ("unchanged group; the new member asks another broker", ()),
    ("find", "during"): ("the same", ()),
    ("find", "after"): ("the same; the new member was directed to the killed broker, and repeats FindCoordinator", ()),
    ("join", "before"): ("unchanged group; the new member joins again", ()),
    ("join", "during"): ("classic: unchanged group; consumer: the new member has joined", ("consumer",)),
    ("join", "after"): (
        "the same; a generation that was returned but not written gets ILLEGAL_GENERATION",
        ("consumer",),
    ),
    ("sync", "before"): (
        "classic: unchanged group, all members rejoin; consumer: the new member has joined",
        ("consumer",),
    ),
    ("sync", "during"): ("the new generation and its assignment, although no member has received it", BOTH),
    ("sync", "after"): ("the same", BOTH),
    ("stable", "before"): ("unchanged group; all sessions restart, no member rejoins", ()),
    ("stable", "during"): ("the same", ()),
    ("stable", "after"): ("the same", ()),
    ("commit or leave", "before"): (
        "unchanged group; a member whose LeaveGroup was lost is evicted when its session expires",
        (),
    ),
    ("commit or leave", "during"): (
        "the committed offsets; consumer: the member has left; classic: it is a member again until its session expires, "
        "unless it was the last one",
        BOTH,
    ),
    ("commit or leave", "after"): ("the same", BOTH),
}
SCENARIOS = [Scenario(step, moment, *HELD[step.name, moment]) for step in STEPS for moment in MOMENTS]

HOLDS = {  # the invariants of every scenario, under all conditions
    "same members": "the group is Stable again with all members that did not leave",
    "one owner": "each partition is consumed by one member",
    "generation": "no written generation is issued twice, and generations never decrease",
    "commits": "no acknowledged commit is lost or reverted",
    "progress": "each member commits again within one wait timeout",
    "no record lost": "each record is consumed; twice only if its offset was not committed when the coordinator died",
    "restart": "the killed broker returns without a rebalance",
}


def page() -> list[str]:
    """Return the scenario table and the invariants as lines of docs/failover.md."""
    lines = [
        "| scenario | in a classic group | in a consumer group | state at the next coordinator |",
        "|---|---|---|---|",
    ]
    for each in SCENARIOS:
        requests_text = " | ".join(" or ".join(requests) for requests in (each.step.classic, each.step.consumer))
        lines.append(f"| {each.name} | {requests_text} | {each.held} |")
    return [
        *lines,
        "",
        "After each scenario these invariants are checked:",
        "",
        *(f"- {name}: {text}" for name, text in HOLDS.items()),
    ]
