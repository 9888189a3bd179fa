"""Groups and the assignments that Kafka's client-side assignors returned for them: fixtures/assignors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from golden import ROOT, read

from kwire.assignors import (
    Assignment,
    Partition,
    Subscription,
    Subscriptions,
    TopicPartition,
    Topics,
    assignor,
    read_assignment,
    write_assignment,
)

FOLDER = ROOT / "fixtures" / "assignors"
Shares = Mapping[str, list[TopicPartition]]


@dataclass(frozen=True)
class Group:
    """One line: the input and output of the assignor, and the user data that each member sends next."""

    line: Mapping[str, Any]
    assignor: str
    topics: Topics
    members: Subscriptions
    expected: Shares

    def assigned(self) -> Shares:
        """Return the assignment of our assignor."""
        return shares(assignor(self.assignor).assign(self.topics, self.members))

    def problems(self) -> list[str]:
        """Return the differences in the lists of partitions and in the user data that follows from them."""
        problems = [self.line["id"]] if self.assigned() != self.expected else []
        for member_id, user_data_hex in self.line.get("next_user_data", {}).items():
            member = assignor(self.assignor)
            if member_id in self.expected:
                member.on_assignment(as_read(self.expected[member_id]), self.line["generation"])
                expected = None if user_data_hex is None else bytes.fromhex(user_data_hex)
                if (user_data := member.user_data(())) != expected:
                    problems.append(f"{self.line['id']}: the user data of {member_id} is {user_data!r}")
        return problems


def groups(name: str, release: str) -> list[Group]:
    """Return all lines about an assignor of a release, including those with unique names."""
    lines = [*read(FOLDER / f"{name}-{release}.jsonl.gz"), *read(FOLDER / f"named-{release}.jsonl.gz")]
    return [_group(line) for line in lines if line["assignor"] == name]


def named(name: str, assignor_name: str) -> Group:
    """Return the group with this unique name."""
    (found,) = (group for group in groups(assignor_name, "4.2.0") if group.line.get("name") == name)
    return found


def shares(assignments: Mapping[str, Assignment]) -> Shares:
    return {member_id: list(assignment.partitions) for member_id, assignment in assignments.items()}


def as_read(partitions: Iterable[TopicPartition]) -> Assignment:
    """Return an assignment as its member reads it, encoded and decoded again."""
    return read_assignment(write_assignment(Assignment(list(partitions))))


def _group(line: Mapping[str, Any]) -> Group:
    given = line["input"]
    return Group(
        line=line,
        assignor=line["assignor"],
        topics={topic: _partitions(partitions) for topic, partitions in given["topics"].items()},
        members={member["member_id"]: _subscription(member) for member in given["members"]},
        expected=_shares(line["output"]),
    )


def _partitions(form: int | list[list[str | None]]) -> list[Partition]:
    return [Partition()] * form if isinstance(form, int) else [Partition(racks) for racks in form]


def _subscription(member: Mapping[str, Any]) -> Subscription:
    return Subscription(
        topics=member["topics"],
        user_data=None if member["user_data"] is None else bytes.fromhex(member["user_data"]),
        owned=[(topic, number) for topic, number in member["owned"]],
        generation=member["generation"],
        rack_id=member["rack"],
        instance_id=member["instance_id"],
    )


def _shares(output: Mapping[str, list[tuple[str, int]]]) -> Shares:
    return {member_id: [(topic, number) for topic, number in listed] for member_id, listed in output.items()}
