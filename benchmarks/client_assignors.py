"""Time of an assignment in the group leader: the consumer's assignors and Apache Kafka's own, in turn in one run.

    make bench-assignors

200 members, 20 topics of 100 partitions. Times are the best of ROUNDS, in milliseconds; Java's are measured warm with
its optimizing compiler, without the transfer of bytes. Both must return the same lists. The exit code is 1 if
mockbroker's takes more than GOAL times as long.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from client_groups import Shares, as_read, shares
from interop.programs import command

from kwire.assignors import Subscription, assignor, without_racks, write_subscription
from kwire.blobs import encode_stored

ROUNDS = 10
GOAL = 10.0
TOPICS = without_racks({f"topic-{number}": 100 for number in range(20)})
MEMBERS = [f"consumer-{number}" for number in range(200)]
NAMES = ["range", "roundrobin", "sticky", "cooperative-sticky"]


class Java:
    """The process that runs Java's assignors, with the JVM options of a server instead of those for a fast start."""

    def __init__(self) -> None:
        java, *rest = command("java")
        options = [word for word in rest if not word.startswith(("-XX:TieredStop", "-XX:SharedArchive", "-Xmx"))]
        self._process = subprocess.Popen(
            [java, *options, "ask"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def ask(self, **question: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"call": "assign", **question}) + "\n")
        return json.loads(self._process.stdout.readline())["answer"]

    def end(self) -> None:
        self._process.communicate()


def main() -> None:
    print("| assignor | subscriptions | change | ours | Java | times as long |\n|---|---|---|---|---|---|")
    java = Java()
    worst = 0.0
    for name in NAMES:
        for subscriptions in ("homogeneous", "half of the topics each", "1 to 20 topics each"):
            random = Random(1)
            wanted = {member_id: sorted(_wanted(subscriptions, random)) for member_id in MEMBERS}
            first = {member_id: Subscription(topics) for member_id, topics in wanted.items()}
            before = shares(assignor(name).assign(TOPICS, first))
            half = {member_id: first[member_id] for member_id in MEMBERS[:100]}
            changes = {
                "first": first,
                "after a member left": _after(name, before, wanted, MEMBERS[1:]),
                "twice as many": _after(name, shares(assignor(name).assign(TOPICS, half)), wanted, MEMBERS),
            }
            for change, members in changes.items():
                ours, mine = _timed(name, members)
                theirs, answer = _java(java, name, members)
                assert mine == {m: [tuple(p) for p in listed] for m, listed in answer.items()}, (name, change)
                worst = max(worst, ours / theirs)
                print(f"| {name} | {subscriptions} | {change} | {ours:.1f} | {theirs:.1f} | {ours / theirs:.1f} |")
    java.end()
    sys.exit(f"{worst:.1f} times as long as Java" if worst > GOAL else 0)


def _wanted(subscriptions: str, random: Random) -> list[str]:
    match subscriptions:
        case "homogeneous":
            return list(TOPICS)
        case "half of the topics each":
            return random.sample(list(TOPICS), len(TOPICS) // 2)
        case _:
            return random.sample(list(TOPICS), random.randint(1, len(TOPICS)))


def _after(name: str, before: Shares, wanted: Mapping[str, list[str]], ids: list[str]) -> dict[str, Subscription]:
    """Return the subscriptions of members ``ids``, with the partitions that they own from generation 1."""
    members = {}
    for member_id in ids:
        member = assignor(name)
        if member_id in before:
            member.on_assignment(as_read(before[member_id]), 1)
        generation = 1 if member_id in before else -1
        owned = sorted(before.get(member_id, [])) if name == "cooperative-sticky" else []
        members[member_id] = Subscription(wanted[member_id], member.user_data(()), owned, generation)
    return members


def _timed(name: str, members: Mapping[str, Subscription]) -> tuple[float, Shares]:
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        answer = assignor(name).assign(TOPICS, members)
        best = min(best, time.perf_counter() - start)
    return best * 1e3, shares(answer)


def _java(java: Java, name: str, members: Mapping[str, Subscription]) -> tuple[float, Any]:
    answer = java.ask(
        assignor=name,
        generation=2,
        rounds=ROUNDS,
        topics={topic: [[]] * len(partitions) for topic, partitions in TOPICS.items()},
        members=[
            {
                "member_id": member_id,
                "subscription": encode_stored(write_subscription(member), 3).hex(),
                "instance_id": None,
            }
            for member_id, member in members.items()
        ],
    )
    return answer["nanoseconds"] / 1e6, answer["shares"]


if __name__ == "__main__":
    main()
