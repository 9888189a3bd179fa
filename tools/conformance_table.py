"""docs/conformance.md: the recorded responses of Kafka, by API, state of the group, and sender.

    python tools/conformance_table.py fixtures/conversations > docs/conformance.md

States and members of a group are derived from the conversation alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kwire import ErrorCode
from mockbroker.groups.classic.state import State
from mockbroker.groups.consumer.state import LEAVE_EPOCH
from mockbroker.groups.coordinated import DEAD
from mockbroker.lab.conform.conversation import Conversation, Step, load

UNKNOWN = "?"  # a timer or a leave may have changed the state
NO_GROUP = "no group"
CONSUMER = "consumer group"  # of the consumer protocol (KIP-848), in any state
SHARE = "share group"  # KIP-932, with or without members
EMPTY, PREPARING, COMPLETING, STABLE = (state.value for state in State)
SOURCES = 2  # conversations named in a row
COLUMNS = "| state | sender | response | versions | Kafka | recorded in |\n|---|---|---|---|---|---|\n"
HEAD = """# Conformance

Responses of Apache Kafka, recorded in `fixtures/conversations`. The tests replay every conversation against mockbroker,
which must respond in the same way, except to APIs that it does not serve. Made by `make docs`; not edited by hand.

- **State** of the group before the request, as far as the conversation shows it. `?`: a timer or a leave may have
  changed it. `consumer group`: a group of the consumer protocol (KIP-848), in any state. `share group`: a group of
  KIP-932, with or without members.
- **Sender**: `leader`, `member`, `new member id` (from MEMBER_ID_REQUIRED, not used yet), `unknown member`, or `no
  member id`; `instance` if the request has an instance id.
- **Response**: the error codes of the response itself, then of its parts; `no response` or `connection closed` if there
  was none; `delayed` if the broker held the response back.
- **Recorded in**: the first conversations, with the number of the step.
"""


@dataclass(slots=True)
class Group:
    """The state of a group at a point of a conversation.

    Attributes:
        state: name of the state, or one of NO_GROUP, CONSUMER, SHARE and UNKNOWN.
        generation: generation of a classic group.
        leader: member id of the leader of a classic group.
        members: member ids of the classic protocol.
        new_ids: member ids that MEMBER_ID_REQUIRED returned and no JoinGroup has used.
        epochs: member id -> epoch, of all members of a consumer group or share group.
    """

    state: str = NO_GROUP
    generation: int = 0
    leader: str = ""
    members: set[str] = field(default_factory=set)
    new_ids: set[str] = field(default_factory=set)
    epochs: dict[str, int] = field(default_factory=dict)

    def sender(self, request: Step) -> str:
        """Return the relation of a request's sender to the group."""
        fields = request.fields
        if "member_id" not in fields:
            return ""
        member_id, words = fields["member_id"], []
        if not member_id:
            words.append("no member id")
        elif member_id == self.leader:
            words.append("leader")
        else:
            known = "new member id" if member_id in self.new_ids else "unknown member"
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

    def record_response(self, request: Step, response: Step) -> None:
        """Update the state from a response."""
        error, fields = response.fields.get("error_code", 0), response.fields
        match request.api:
            case "ShareGroupHeartbeat" if not error:
                self._record_share_heartbeat(request, fields)
            case _ if self.state == SHARE:
                pass
            case "ConsumerGroupHeartbeat" if not error:
                self._record_heartbeat(request, fields)
            case "JoinGroup" if not error and self.epochs and not fields["leader"]:
                self.members.add(fields["member_id"])
                self.epochs[fields["member_id"]] = fields["generation_id"]
            case "LeaveGroup" if not error and self.epochs:
                self._remove_members(
                    {line["member_id"] for line in fields.get("members", []) if not line["error_code"]}
                )
            case "Heartbeat" | "SyncGroup" if self.epochs:
                pass
            case "JoinGroup" if error == ErrorCode.MEMBER_ID_REQUIRED:
                self.new_ids.add(fields["member_id"])
                self.state = EMPTY if self.state == NO_GROUP else self.state
            case "JoinGroup" if not error:
                self._joined(fields)
            case "SyncGroup" if not error:
                self.state = STABLE
            case "Heartbeat" | "SyncGroup" if error == ErrorCode.REBALANCE_IN_PROGRESS:
                self.state = PREPARING
            case "LeaveGroup" if not error and self.state != NO_GROUP:
                self._left(request, fields)
            case "OffsetCommit" if self.state == NO_GROUP and not any(error_codes(fields)):
                self.state = EMPTY
            case _:
                pass

    def _record_heartbeat(self, request: Step, fields: Mapping[str, Any]) -> None:
        if request.fields["member_epoch"] == LEAVE_EPOCH:
            self._remove_members({fields["member_id"]})
            return
        if not self.epochs:  # the group is upgraded, and its members continue with their generation
            self.epochs = dict.fromkeys(self.members, self.generation)
        self.members.discard(fields["member_id"])
        self.leader = ""
        self.epochs[fields["member_id"]] = fields["member_epoch"]
        self.state = CONSUMER

    def _record_share_heartbeat(self, request: Step, fields: Mapping[str, Any]) -> None:
        self.state = SHARE
        if request.fields["member_epoch"] == LEAVE_EPOCH:
            self.epochs.pop(fields["member_id"], None)
        else:
            self.epochs[fields["member_id"]] = fields["member_epoch"]

    def record_share_description(self, described: Mapping[str, Any]) -> None:
        """Update the state from a ShareGroupDescribe response."""
        if not described["error_code"]:
            self.state = SHARE
            self.epochs = {member["member_id"]: member["member_epoch"] for member in described["members"]}
        elif self.state == SHARE:
            self.state, self.epochs = NO_GROUP, {}

    def _remove_members(self, members: Iterable[str]) -> None:
        """Remove members of a consumer group, which may become a classic group."""
        for member_id in members:
            self.epochs.pop(member_id, None)
            self.members.discard(member_id)
        self.state = UNKNOWN if self.epochs.keys() == self.members else CONSUMER
        self.state = self.state if self.epochs else EMPTY

    def record_description(self, described: Mapping[str, Any]) -> None:
        """Update the state from a ConsumerGroupDescribe response."""
        if self.state == SHARE:
            return
        if described["error_code"]:
            self.state = UNKNOWN if self.epochs else self.state
            self.epochs = {}
            return
        self.state = CONSUMER if described["members"] else EMPTY
        self.epochs = {member["member_id"]: member["member_epoch"] for member in described["members"]}
        self.members &= self.epochs.keys()

    def _left(self, request: Step, fields: Mapping[str, Any]) -> None:
        results = fields.get("members") or [{"member_id": request.fields.get("member_id"), "error_code": 0}]
        gone = {member["member_id"] for member in results if not member["error_code"]} - self.new_ids
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
        self.new_ids -= self.members


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """A recorded response.

    Attributes:
        api: name of the API.
        state: state of the group before the request.
        sender: relation of the sender to the group.
        response: error codes.
        version: version of the request.
        kafka: the release.
        source: scenario and step.
    """

    api: str
    state: str
    sender: str
    response: str
    version: int
    kafka: str
    source: str


def rows(conversation: Conversation) -> Iterator[Row]:
    """Yield a row for each request that got a response, no response, or a closed connection."""
    groups: dict[str, Group] = {}
    requests: dict[int, tuple[Step, str, str]] = {}
    for step in conversation.steps:
        match step.event:
            case "request":
                group = groups.setdefault(str(step.fields.get("group_id", "")), Group())
                about = "group_id" in step.fields
                requests[step.n] = step, group.state if about else "", group.sender(step)
                if step.api == "JoinGroup" and _is_held(conversation, step):
                    group.state = PREPARING
                    group.members.add(step.fields["member_id"])
                    group.new_ids.discard(step.fields["member_id"])
            case "response" | "no answer" | "broker closed the connection" if step.to in requests:
                request, state, sender = requests[step.to]
                response = {"no answer": "no response", "response": ""}.get(step.event, "connection closed")
                if not response:
                    response = _response(step)
                    groups[str(request.fields.get("group_id", ""))].record_response(request, step)
                source = f"{conversation.scenario}:{step.n}"
                yield Row(request.api, state, sender, response, request.api_version, conversation.version, source)
            case "wait":
                for group in groups.values():
                    group.state = group.state if group.state in (NO_GROUP, EMPTY, SHARE) else UNKNOWN
            case _:
                pass
        if step.event == "response" and step.api == "DescribeGroups":
            for described in step.fields["groups"]:
                group = groups.setdefault(described["group_id"], Group())
                if described["group_state"] != DEAD:
                    group.state, group.epochs = described["group_state"], {}
                elif not group.epochs and group.state != SHARE:  # DescribeGroups reports Dead for consumer groups too
                    group.state = NO_GROUP
        if step.event == "response" and step.api == "ConsumerGroupDescribe":
            for described in step.fields["groups"]:
                groups.setdefault(described["group_id"], Group()).record_description(described)
        if step.event == "response" and step.api == "ShareGroupDescribe":
            for described in step.fields["groups"]:
                groups.setdefault(described["group_id"], Group()).record_share_description(described)
        if step.event == "response" and step.api == "DeleteGroups":
            for result in step.fields["results"]:
                deleted = groups.get(result["group_id"])
                if deleted is not None and deleted.state == SHARE and not result["error_code"]:
                    groups[result["group_id"]] = Group()


def _is_held(conversation: Conversation, request: Step) -> bool:
    return any(step.to == request.n and (step.held or step.event == "no answer") for step in conversation.steps)


def _response(step: Step) -> str:
    top = [step.fields["error_code"]] if "error_code" in step.fields else []
    inner = sorted(set(error_codes(step.fields, inside=True)))
    text = ErrorCode(top[0]).name if top else ""
    if inner and inner != [0]:
        text += (": " if text else "") + ", ".join(ErrorCode(code).name for code in inner)
    if step.held and step.api in ("JoinGroup", "SyncGroup", "Fetch"):
        text += ", delayed by a timer" if step.released_by is None else ", delayed for other members"
    return text or "NONE"


def error_codes(value: Any, *, inside: bool = False) -> Iterator[int]:
    """Yield the error codes of a response. ``inside``: True to leave out the error code of the response itself."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if not name.endswith("error_code"):
                yield from error_codes(item)
            elif not inside or name != "error_code":
                yield item
    elif isinstance(value, list):
        for item in value:
            yield from error_codes(item)


def text(table: Iterable[Row]) -> str:
    """Return the page, with a table for each API."""
    merged: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in sorted(table):
        merged.setdefault((row.api, row.state, row.sender, row.response), []).append(row)
    page, current = [HEAD], ""
    for (api, state, sender, response), same in merged.items():
        if api != current:
            page.append(f"\n## {api}\n\n{COLUMNS}")
            current = api
        kafka = " ".join(sorted({row.kafka for row in same}))
        sources = ", ".join(list(dict.fromkeys(row.source for row in same))[:SOURCES])
        versions = _ranges(sorted({row.version for row in same}))
        page.append(f"| {state} | {sender} | {response} | {versions} | {kafka} | {sources} |\n")
    return "".join(page)


def _ranges(versions: Sequence[int]) -> str:
    """Return versions as ranges: ``0-2, 5`` for ``[0, 1, 2, 5]``."""
    parts: list[list[int]] = []
    for version in versions:
        if parts and parts[-1][-1] == version - 1:
            parts[-1].append(version)
        else:
            parts.append([version])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def page(folder: Path) -> str:
    """Return the page of all conversations below a folder."""
    return text(row for path in sorted(folder.rglob("*.json.gz")) for row in rows(load(path)))


if __name__ == "__main__":
    sys.stdout.write(page(Path(sys.argv[1])))
