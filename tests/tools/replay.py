"""Replays what a real broker was asked and answered (../shared/fixtures/semantics) through the router, in virtual time.

Cheap on purpose: no sockets, so raw bytes and closed connections are left out; answers are compared as the README there
says.
"""

from __future__ import annotations

import base64
import json
import re
from collections import deque
from pathlib import Path

from tools.desk import Desk, Sent

from kwire.jsonform import from_json, to_json, uuid_text
from kwire.messages import APIS

SEMANTICS = Path(__file__).resolve().parents[2].parent / "shared" / "fixtures" / "semantics"
SERVED = {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 19, 22}
LOOKS = {15, 16}  # DescribeGroups, ListGroups: not served yet, and they change nothing
IGNORED = {"host", "port", "cluster_id"}
SETS = {"members", "topics", "partitions", "coordinators"}
ROUND = 0.3  # seconds that a timer's answer may be early or late


class Line:
    """One connection: a request waits until the one before is answered."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.waiting: deque = deque()
        self.current: Sent | None = None

    def push(self, number: int, request, version: int, sent: dict[int, Sent]) -> None:
        self.waiting.append((number, request, version, sent))
        self.go_on()

    def go_on(self) -> bool:
        moved = False
        while self.waiting and (self.current is None or self.current.done):
            number, request, version, sent = self.waiting.popleft()
            sent[number] = self.current = self.desk.send(request, version, client_id="probe")
            moved = True
        return moved


class Replay:
    """``differences``: what was answered otherwise, as text."""

    def __init__(self, scenario: str) -> None:
        self.script = json.loads((SEMANTICS / f"{scenario}__kafka-4.2.0.json").read_text())
        config = {
            name: value
            for name, value in self.script["broker_config"].items()
            if name.startswith(("group.initial", "group.min", "group.max", "offset."))
        }
        self.desk = Desk(topics=self.script["broker_config"]["topics"], config=config, first_node=1)
        self.labels = self.script["names"]  # theirs -> label
        self.ours: dict[str, str] = {
            label: topic_text(self.desk, label) for label in self.labels.values() if label.startswith("$topic:")
        }  # label -> ours
        self.lines: dict[str, Line] = {}
        self.sent: dict[int, Sent] = {}
        self.asked: set[int] = set()
        self.differences: list[str] = []

    def run(self) -> list[str]:
        for step in self.script["steps"]:
            self.until(step.get("t_ms", 0) / 1000)
            match step["event"]:
                case "request":
                    self.request(step)
                case "response":
                    self.response(step)
                case "no answer yet" | "no answer":
                    answered = self.sent.get(step["to"])
                    if answered is not None and not answered.parked and answered.answer is not None:
                        self.differences.append(f"{step['n']}: answered too early")
        return self.differences

    def until(self, seconds: float) -> None:
        if seconds > self.desk.now:
            self.desk.wait(seconds - self.desk.now)
        while any(line.go_on() for line in self.lines.values()):
            pass

    def request(self, step) -> None:
        if step["api_key"] in LOOKS:
            return
        self.asked.add(step["n"])
        fields = self.put_ours(snake(step["fields"]))
        for patch in step.get("records", ()):
            place(fields, snake_name(patch["path"]), bytes.fromhex(patch["hex"]))
        api = APIS[step["api_key"]]
        message = from_json(api.request, fields, step["api_version"])
        line = self.lines.setdefault(step["conn"], Line(self.desk))
        line.push(step["n"], message, step["api_version"], self.sent)

    def response(self, step) -> None:
        if step["to"] not in self.asked:
            return
        deadline = self.desk.now + ROUND
        while (step["to"] not in self.sent or self.sent[step["to"]].parked) and self.desk.now < deadline:
            self.until(min(max(self.desk.router.deadline(), self.desk.now + 0.001), deadline))
        sent = self.sent.get(step["to"])
        where = f"{step['n']}: {step['api']} v{step['api_version']}"
        if sent is None or sent.answer is None:
            self.differences.append(f"{where}: not answered")
            return
        got = to_json(sent.answer, sent.ticket.version)
        expected = snake(step["fields"])
        self.bind(expected, got)
        compare(where, self.put_ours(expected), got, self.differences)

    def put_ours(self, value):
        """Their ids replaced by ours, where known."""
        match value:
            case dict():
                return {key: self.put_ours(item) for key, item in value.items()}
            case list():
                return [self.put_ours(item) for item in value]
            case str() if value in self.labels:
                return self.ours.get(self.labels[value], value)
            case _:
                return value

    def bind(self, theirs, ours) -> None:
        """Learn our ids from the places where theirs stand for the first time."""
        match theirs, ours:
            case dict(), dict():
                for key in theirs.keys() & ours.keys():
                    self.bind(theirs[key], ours[key])
            case list(), list() if len(theirs) == len(ours) == 1:
                self.bind(theirs[0], ours[0])
            case str(), str() if theirs in self.labels and self.labels[theirs] not in self.ours:
                if re.search(r"-[0-9a-f]{8}-[0-9a-f-]{27}$", ours):
                    self.ours[self.labels[theirs]] = ours


def snake_name(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def snake(value):
    """Names of fields as kwire writes them."""
    match value:
        case dict():
            return {snake_name(key): snake(item) for key, item in value.items()}
        case list():
            return [snake(item) for item in value]
        case _:
            return value


def topic_text(desk: Desk, label: str) -> str:
    return uuid_text(desk.topic_id(label.removeprefix("$topic:")))


def place(fields, path: str, data: bytes) -> None:
    """Put real record bytes, base64, where the transcript shows an empty text."""
    *parents, last = re.findall(r"\w+|\[\d+\]", path)
    for part in parents:
        fields = fields[int(part[1:-1])] if part.startswith("[") else fields[part]
    fields[last] = base64.b64encode(data).decode()


def compare(where: str, theirs, ours, differences: list[str]) -> None:
    match theirs, ours:
        case dict(), dict():
            for key in sorted(theirs.keys() | ours.keys()):
                if key in IGNORED:
                    continue
                if key not in theirs or key not in ours:
                    one, other = theirs.get(key, "absent"), ours.get(key, "absent")
                    differences.append(f"{where}.{key}: {one!r}, ours {other!r}")
                elif key == "error_message":
                    kinds = [text if text in (None, "", "NONE") else "text" for text in (theirs[key], ours[key])]
                    if kinds[0] != kinds[1]:
                        differences.append(f"{where}.{key}: {theirs[key]!r}, ours {ours[key]!r}")
                elif key in SETS and isinstance(theirs[key], list):
                    compare(f"{where}.{key}", sort(theirs[key]), sort(ours[key]), differences)
                elif key != "records":
                    compare(f"{where}.{key}", theirs[key], ours[key], differences)
        case list(), list() if len(theirs) == len(ours):
            for index, (one, other) in enumerate(zip(theirs, ours, strict=True)):
                compare(f"{where}[{index}]", one, other, differences)
        case _ if theirs != ours:
            differences.append(f"{where}: {theirs!r}, ours {ours!r}")


def sort(values: list) -> list:
    def key(value):
        if not isinstance(value, dict):
            return str(value)
        return tuple(str(value.get(name, "")) for name in ("name", "topic_id", "partition_index", "member_id", "key"))

    return sorted(values, key=key)
