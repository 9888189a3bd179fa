"""Groups and the assignments that Kafka's own server-side assignors returned for them: fixtures/assignors."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from golden import ROOT, read

from kwire.assignors import GroupAssignment, MemberSubscription, assign

FOLDER = ROOT / "fixtures" / "assignors"


@dataclass(frozen=True)
class Group:
    """One line: the input and output of the assignor."""

    id: str
    name: str
    members: Mapping[str, MemberSubscription]
    partitions: Mapping[UUID, int]
    homogeneous: bool
    expected: GroupAssignment

    def assigned(self) -> GroupAssignment:
        """Return the assignment of our assignor."""
        return assign(self.name, self.members, self.partitions, homogeneous=self.homogeneous)


def groups(name: str, release: str) -> list[Group]:
    """Return all lines about an assignor of a release, including those with unique names."""
    lines = [*read(FOLDER / f"{name}-server-{release}.jsonl.gz"), *read(FOLDER / f"named-{release}.jsonl.gz")]
    return [_group(line, name) for line in lines if line["assignor"] == f"{name}(server)"]


def _group(line: Mapping[str, Any], name: str) -> Group:
    given = line["input"]
    ids = {topic: UUID(bytes=base64.urlsafe_b64decode(text + "==")) for topic, text in given["topic_ids"].items()}
    members = {
        member["member_id"]: MemberSubscription(
            topic_ids=[ids[topic] for topic in member["topics"] if topic in given["topics"]],
            assigned=_by_topic(ids, member["owned"]),
            instance_id=member["instance_id"],
            rack_id=member["rack"],
        )
        for member in given["members"]
    }
    return Group(
        id=line["id"],
        name=name,
        members=members,
        partitions={ids[topic]: count for topic, count in given["topics"].items()},
        homogeneous=given["subscription_type"] == "homogeneous",
        expected={member_id: _by_topic(ids, owned) for member_id, owned in line["output"].items()},
    )


def _by_topic(ids: Mapping[str, UUID], owned: Iterable[tuple[str, int]]) -> dict[UUID, list[int]]:
    partitions: dict[UUID, list[int]] = {}
    for topic, number in owned:
        partitions.setdefault(ids[topic], []).append(number)
    return partitions


def flat(assignment: Mapping[UUID, Iterable[int]]) -> list[tuple[UUID, int]]:
    return [(topic_id, number) for topic_id, numbers in assignment.items() for number in numbers]


def problems(group: Group, target: GroupAssignment) -> list[str]:
    """Return the rules that an assignment of any assignor violates."""
    everything = [partition for assignment in target.values() for partition in flat(assignment)]
    subscribed = {topic_id for member in group.members.values() for topic_id in member.topic_ids}
    complete = {(topic_id, n) for topic_id in subscribed for n in range(group.partitions[topic_id])}
    problems_ = []
    if target.keys() != group.members.keys():
        problems_.append("other members")
    if len(everything) != len(set(everything)):
        problems_.append("a partition is given twice")
    if set(everything) != complete:
        problems_.append("not every partition is given, or others are")
    if any(set(given) - set(group.members[member_id].topic_ids) for member_id, given in target.items()):
        problems_.append("a member gets what it does not subscribe to")
    if any(numbers != sorted(numbers) or not numbers for given in target.values() for numbers in given.values()):
        problems_.append("a list is empty or not ascending")
    return problems_


def loads(target: GroupAssignment) -> list[int]:
    return [len(flat(assignment)) for assignment in target.values()]


def kept(group: Group, target: GroupAssignment) -> int:
    """Return how many partitions stay with their owners."""
    return sum(len({*flat(group.members[m].assigned)} & {*flat(given)}) for m, given in target.items())
