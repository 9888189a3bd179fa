"""The fifteen scenarios of a coordinator that dies under a group: what dies when, and what must hold afterwards.

Five steps of a member's life, and three moments of the request that makes the step. The group has members already when
it happens; who makes the step is the actor: a newcomer for the first three, then somebody who is in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MOMENTS = {
    "before": "the request has come in and is not handled",
    "during": "it is handled and written, and the answer is not sent",
    "after": "the answer is sent",
}


@dataclass(frozen=True)
class Step:
    """``classic``, ``consumer``: the requests that make it in each protocol; ``newcomer``: it is about one.

    A SyncGroup is the leader's, which brings the shares.
    """

    name: str
    classic: tuple[str, ...]
    consumer: tuple[str, ...]
    newcomer: bool


STEPS = [
    Step("find", ("FindCoordinator",), ("FindCoordinator",), newcomer=True),
    Step("join", ("JoinGroup",), ("ConsumerGroupHeartbeat, epoch 0",), newcomer=True),
    Step("sync", ("SyncGroup",), ("ConsumerGroupHeartbeat, the first that says what it has",), newcomer=True),
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
    """``held``: what is written when the coordinator dies, so that the next one goes on from there.

    ``counts``: the protocols in which the step itself is: a newcomer is in the group, offsets are committed, a member
    of the consumer protocol is out.
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
    ("find", "before"): ("the group as it was; the newcomer asks another broker", ()),
    ("find", "during"): ("the same", ()),
    ("find", "after"): ("the same; the newcomer was sent to a broker that is gone, and asks again", ()),
    ("join", "before"): ("the group as it was; the newcomer joins again", ()),
    ("join", "during"): ("classic: the group as it was; consumer: the newcomer is in", ("consumer",)),
    ("join", "after"): ("the same; a generation that was told and not written is ILLEGAL_GENERATION", ("consumer",)),
    ("sync", "before"): ("classic: the group as it was, all join again; consumer: the newcomer is in", ("consumer",)),
    ("sync", "during"): ("the new generation and its shares, though nobody was told", BOTH),
    ("sync", "after"): ("the same", BOTH),
    ("stable", "before"): ("the group; every session begins anew, and nobody joins again", ()),
    ("stable", "during"): ("the same", ()),
    ("stable", "after"): ("the same", ()),
    ("commit or leave", "before"): ("the group as it was; who leaves unheard is out when its session ends", ()),
    ("commit or leave", "during"): (
        "the offsets; consumer: who left is out; classic: it is in again until its session ends, unless it was the last",
        BOTH,
    ),
    ("commit or leave", "after"): ("the same", BOTH),
}
SCENARIOS = [Scenario(step, moment, *HELD[step.name, moment]) for step in STEPS for moment in MOMENTS]

HOLDS = {  # of every scenario, whatever else the cluster has to bear
    "same members": "the group is Stable again, of all that did not leave",
    "one owner": "each partition is read by one member",
    "generation": "no generation that was written is given again, and none falls",
    "commits": "no acknowledged commit is lost, nor goes back",
    "nobody hangs": "each member commits again within the time of one wait",
    "no record lost": "each is read; twice only if nobody had committed it when the coordinator died",
    "comes back": "the dead broker returns, and the group does not notice",
}
