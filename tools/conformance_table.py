"""What brokers answered, as a table: request, state of the group, who asked, answer, where it was seen.

``python tools/conformance_table.py FOLDER`` writes docs/conformance.md from the conversations below a folder.
States and members are followed only as far as the conversation shows them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kwire import ErrorCode
from mockbroker.groups.classic.state import State
from mockbroker.groups.consumer.state import LEAVING
from mockbroker.groups.coordinated import DEAD
from mockbroker.lab.conform.conversation import Conversation, Step, load

UNKNOWN = "?"  # something happened since, or nothing was seen yet
NO_GROUP = "no group"
CONSUMER = "consumer group"  # of the consumer protocol (KIP-848); its own states are not told apart
EMPTY, PREPARING, COMPLETING, STABLE = (state.value for state in State)
SOURCES = 2  # shown in a row
COLUMNS = "| state | who | answer | versions | Kafka | seen |\n|---|---|---|---|---|---|\n"
HEAD = """# Conformance

What Apache Kafka answered, as recorded in `fixtures/conversations`, and so what mockbroker answers: its tests play
every one of them, but for requests that it does not serve yet. Made by `make docs`; not edited by hand.

State: of the group when the request was sent, as far as the conversation shows it ("?": a timer or a leave may have
changed it); `consumer group`: of the consumer protocol (KIP-848), in whatever state. Who: `leader`, `member`, `id
given` (by MEMBER_ID_REQUIRED, not used yet), `stranger`, `no id`. Answer:
error codes, those of the answer itself before those inside it; `never` and `closed` where nothing came. Seen: the
first conversations and the step of the answer.
"""


@dataclass(slots=True)
class Group:
    """A group as the conversation shows it so far. ``members``: of the classic protocol; ``epochs``: of members of the
    consumer protocol, and of classic ones in a group of that kind."""

    state: str = NO_GROUP
    generation: int = 0
    leader: str = ""
    members: set[str] = field(default_factory=set)
    given: set[str] = field(default_factory=set)
    epochs: dict[str, int] = field(default_factory=dict)

    def who(self, asked: Step) -> str:
        """In what relation to the group the request is."""
        fields = asked.fields
        if "member_id" not in fields:
            return ""
        member_id, words = fields["member_id"], []
        if not member_id:
            words.append("no id")
        elif member_id == self.leader:
            words.append("leader")
        else:
            known = "id given" if member_id in self.given else "stranger"
            words.append("member" if member_id in self.members or member_id in self.epochs else known)
        if fields.get("group_instance_id", fields.get("instance_id")) is not None:
            words.append("instance")
        if "member_epoch" in fields:
            return ", ".join([*words, *self._epoch_words(member_id, fields["member_epoch"])])
        generation = fields.get("generation_id", fields.get("generation_id_or_member_epoch"))
        if member_id in self.epochs:
            return ", ".join([*words, *(["other epoch"] if generation not in (None, self.epochs[member_id]) else [])])
        if generation is not None and self.generation and generation != self.generation:
            words.append("no generation" if generation < 0 else "other generation")
        return ", ".join(words)

    def _epoch_words(self, member_id: str, epoch: int) -> list[str]:
        if epoch <= 0:
            return ["joins" if epoch == 0 else "leaves"]
        return ["other epoch"] if epoch != self.epochs.get(member_id, epoch) else []

    def hear(self, asked: Step, answer: Step) -> None:
        """What an answer tells of the group."""
        error, fields = answer.fields.get("error_code", 0), answer.fields
        match asked.api:
            case "ConsumerGroupHeartbeat" if not error:
                self._beaten(asked, fields)
            case "JoinGroup" if not error and self.epochs and not fields["leader"]:
                self.members.add(fields["member_id"])
                self.epochs[fields["member_id"]] = fields["generation_id"]
            case "LeaveGroup" if not error and self.epochs:
                self._gone({line["member_id"] for line in fields.get("members", []) if not line["error_code"]})
            case "Heartbeat" | "SyncGroup" if self.epochs:
                pass
            case "JoinGroup" if error == ErrorCode.MEMBER_ID_REQUIRED:
                self.given.add(fields["member_id"])
                self.state = EMPTY if self.state == NO_GROUP else self.state
            case "JoinGroup" if not error:
                self._joined(fields)
            case "SyncGroup" if not error:
                self.state = STABLE
            case "Heartbeat" | "SyncGroup" if error == ErrorCode.REBALANCE_IN_PROGRESS:
                self.state = PREPARING
            case "LeaveGroup" if not error and self.state != NO_GROUP:
                self._left(asked, fields)
            case "OffsetCommit" if self.state == NO_GROUP and not any(_codes(fields)):
                self.state = EMPTY
            case _:
                pass

    def _beaten(self, asked: Step, fields: Mapping[str, Any]) -> None:
        if asked.fields["member_epoch"] == LEAVING:
            self._gone({fields["member_id"]})
            return
        if not self.epochs:  # the group is upgraded; its members go on with their generation
            self.epochs = dict.fromkeys(self.members, self.generation)
        self.members.discard(fields["member_id"])
        self.leader = ""
        self.epochs[fields["member_id"]] = fields["member_epoch"]
        self.state = CONSUMER

    def _gone(self, members: Iterable[str]) -> None:
        """Left a consumer group; it may be a classic one then."""
        for member_id in members:
            self.epochs.pop(member_id, None)
            self.members.discard(member_id)
        self.state = UNKNOWN if self.epochs.keys() == self.members else CONSUMER
        self.state = self.state if self.epochs else EMPTY

    def described(self, described: Mapping[str, Any]) -> None:
        """What ConsumerGroupDescribe tells of the group."""
        if described["error_code"]:
            self.state = UNKNOWN if self.epochs else self.state
            self.epochs = {}
            return
        self.state = CONSUMER if described["members"] else EMPTY
        self.epochs = {member["member_id"]: member["member_epoch"] for member in described["members"]}
        self.members &= self.epochs.keys()

    def _left(self, asked: Step, fields: Mapping[str, Any]) -> None:
        said = fields.get("members") or [{"member_id": asked.fields.get("member_id"), "error_code": 0}]
        gone = {member["member_id"] for member in said if not member["error_code"]} - self.given
        if not gone:
            return
        if self.state in (STABLE, COMPLETING) and gone <= self.members:
            self.state = PREPARING if self.members - gone else EMPTY
        else:
            self.state = UNKNOWN
        self.members -= gone

    def _joined(self, fields: Mapping[str, Any]) -> None:
        self.epochs = {}
        if fields["generation_id"] != self.generation:
            self.state, self.members = COMPLETING, set()
        self.generation, self.leader = fields["generation_id"], fields["leader"]
        self.members |= {fields["member_id"], *(member["member_id"] for member in fields["members"])}
        self.given -= self.members


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """``kafka``: the release; ``source``: scenario and step."""

    api: str
    state: str
    who: str
    answer: str
    version: int
    kafka: str
    source: str


def rows(conversation: Conversation) -> Iterator[Row]:
    """A row for each request that was answered, left alone, or ended with a closed connection."""
    groups: dict[str, Group] = {}
    asked: dict[int, tuple[Step, str, str]] = {}
    for step in conversation.steps:
        match step.event:
            case "request":
                group = groups.setdefault(str(step.fields.get("group_id", "")), Group())
                about = "group_id" in step.fields
                asked[step.n] = step, group.state if about else "", group.who(step)
                if step.api == "JoinGroup" and _is_held(conversation, step):
                    group.state = PREPARING
                    group.members.add(step.fields["member_id"])
                    group.given.discard(step.fields["member_id"])
            case "response" | "no answer" | "broker closed the connection" if step.to in asked:
                request, state, who = asked[step.to]
                answer = {"no answer": "never", "response": ""}.get(step.event, "closed")
                if not answer:
                    answer = _answer(step)
                    groups[str(request.fields.get("group_id", ""))].hear(request, step)
                source = f"{conversation.scenario}:{step.n}"
                yield Row(request.api, state, who, answer, request.api_version, conversation.version, source)
            case "wait":
                for group in groups.values():
                    group.state = group.state if group.state in (NO_GROUP, EMPTY) else UNKNOWN
            case _:
                pass
        if step.event == "response" and step.api == "DescribeGroups":
            for described in step.fields["groups"]:
                group = groups.setdefault(described["group_id"], Group())
                if described["group_state"] != DEAD:
                    group.state, group.epochs = described["group_state"], {}
                elif not group.epochs:  # which is also said of consumer groups
                    group.state = NO_GROUP
        if step.event == "response" and step.api == "ConsumerGroupDescribe":
            for described in step.fields["groups"]:
                groups.setdefault(described["group_id"], Group()).described(described)


def _is_held(conversation: Conversation, asked: Step) -> bool:
    return any(step.to == asked.n and (step.held or step.event == "no answer") for step in conversation.steps)


def _answer(step: Step) -> str:
    top = [step.fields["error_code"]] if "error_code" in step.fields else []
    inner = sorted(set(_codes(step.fields, inside=True)))
    text = ErrorCode(top[0]).name if top else ""
    if inner and inner != [0]:
        text += (": " if text else "") + ", ".join(ErrorCode(code).name for code in inner)
    if step.held and step.api in ("JoinGroup", "SyncGroup", "Fetch"):
        text += ", held by a timer" if step.released_by is None else ", held for others"
    return text or "NONE"


def _codes(value: Any, *, inside: bool = False) -> Iterator[int]:
    """Error codes, those inside only if asked for."""
    if isinstance(value, Mapping):
        if not inside and "error_code" in value:
            yield value["error_code"]
        for item in value.values():
            yield from _codes(item)
    elif isinstance(value, list):
        for item in value:
            yield from _codes(item)


def text(found: Iterable[Row]) -> str:
    """The page: one table for each request."""
    merged: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in sorted(found):
        merged.setdefault((row.api, row.state, row.who, row.answer), []).append(row)
    page, current = [HEAD], ""
    for (api, state, who, answer), same in merged.items():
        if api != current:
            page.append(
                f"\n## {api}\n\n| state | who | answer | versions | Kafka | seen |\n|---|---|---|---|---|---|\n"
            )
            current = api
        kafka = " ".join(sorted({row.kafka for row in same}))
        sources = ", ".join(list(dict.fromkeys(row.source for row in same))[:SOURCES])
        versions = _ranges(sorted({row.version for row in same}))
        page.append(f"| {state} | {who} | {answer} | {versions} | {kafka} | {sources} |\n")
    return "".join(page)


def _ranges(versions: Sequence[int]) -> str:
    """``[0, 1, 2, 5]`` -> ``0-2, 5``."""
    parts: list[list[int]] = []
    for version in versions:
        if parts and parts[-1][-1] == version - 1:
            parts[-1].append(version)
        else:
            parts.append([version])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def page(folder: Path) -> str:
    """The page of all conversations below a folder."""
    return text(row for path in sorted(folder.rglob("*.json.gz")) for row in rows(load(path)))


if __name__ == "__main__":
    sys.stdout.write(page(Path(sys.argv[1])))
