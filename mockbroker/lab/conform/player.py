"""Plays a conversation against a broker and says where the broker answers differently.

Waiting and timing follow fixtures/conversations/README.md: an answer that was held back must not come before the step
that released it; one that a timer released must not come before its time, nor late by the clock of a broker that waits
for the player (pace.py); silence must be silence.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import trio

from kwire import APIS, WireError, decode_response, encode_request
from kwire.frames import pack
from kwire.json.objects import from_json, to_json, uuid_text
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from mockbroker.lab.conform.asker import open_asker
from mockbroker.lab.conform.compare import Bindings, Comparison
from mockbroker.lab.conform.connection import PARKS, SETTLE, PlayedConnection
from mockbroker.lab.conform.conversation import Conversation, Step
from mockbroker.lab.conform.pace import Pace, WorldTime
from mockbroker.lab.conform.records import producer_of, with_producer

CLIENT_ID = "probe"
TRANSACTIONAL_ID = "$txn"  # how the labels of transactional ids begin
WAITS = PARKS | {"Fetch"}
LOOKS = frozenset({"ConsumerGroupDescribe", "DescribeGroups", "ListGroups"})
PATIENCE = 4.0  # seconds within which an answer that is not held must come
CLOSED_WITHIN = 2.0
TIMER_SLACK = 0.35  # seconds either way


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a broker left the recorded path. ``behind``: seconds by which the player was late at worst."""

    step: Step
    what: str
    behind: float = 0.0

    def __str__(self) -> str:
        api = f" {self.step.api} v{self.step.api_version}" if self.step.api else ""
        return f"step {self.step.n}{api} on {self.step.conn or '-'}: {self.what}"


class Player:
    """One run of one conversation against the broker at ``host:port``.

    ``looks_after``: seconds to wait before groups are described or listed; ``sasl_port``: of the listener for users;
    ``exactly``: as for Comparison; ``pace``: the time in which it is played.
    """

    def __init__(
        self,
        conversation: Conversation,
        host: str,
        port: int,
        *,
        looks_after: float = 0.0,
        sasl_port: int | None = None,
        exactly: bool = False,
        pace: Pace | None = None,
    ) -> None:
        self.pace = pace or WorldTime()
        self.looks_after = looks_after
        self.exactly = exactly
        self.conversation = conversation
        self.address = host, port
        self.sasl_address = host, port if sasl_port is None else sasl_port
        self.bindings = Bindings(conversation.names)
        run = time.time_ns()  # a broker remembers transactional ids, and nothing can make it forget one
        for recorded, label in conversation.names.items():
            if label.startswith(TRANSACTIONAL_ID):
                self.bindings.bind(recorded, f"{recorded}-{run}")
        self.connections: dict[str, PlayedConnection] = {}
        self.sent: dict[int, tuple[float, float]] = {}  # by the pace's time and the world's
        self.requests = {step.n: step for step in conversation.steps if step.event == "request"}

    async def play(self) -> Difference | None:
        """The first difference, or None. Raises: OSError if the broker cannot be reached."""
        try:
            async with trio.open_nursery() as nursery:
                found = await self._play(nursery)
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                for connection in self.connections.values():
                    await trio.aclose_forcefully(connection.stream)
        return found

    async def _play(self, nursery: trio.Nursery) -> Difference | None:
        await self._bind_topics()
        for step in self.conversation.steps:
            if step.conn and step.conn not in self.connections:
                address = self.sasl_address if step.conn in self.conversation.sasl else self.address
                connection = PlayedConnection(await trio.open_tcp_stream(*address), self.pace.now)
                self.connections[step.conn] = connection
                nursery.start_soon(connection.listen)
            what = await self._do(step)
            self.sent.setdefault(step.n, self._now())
            if what:
                return Difference(step, what)
        return None

    async def _bind_topics(self) -> None:
        """Ids of topics that are there from the start."""
        wanted = {
            label.removeprefix("$topic:"): recorded
            for recorded, label in self.conversation.names.items()
            if label.removeprefix("$topic:") in self.conversation.topics
        }
        if not wanted:
            return
        asked = MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in wanted])
        async with open_asker(*self.address) as asker:
            body = await asker.ask(asked, 12, MetadataResponse)
        for topic in body.topics:
            self.bindings.bind(wanted[topic.name or ""], uuid_text(topic.topic_id))

    async def _do(self, step: Step) -> str | None:
        connection = self.connections.get(step.conn)
        if connection is None:
            await self.pace.sleep(step.ms / 1000 if step.event == "wait" else 0)
            return None
        match step.event:
            case "request":
                return await self._send(step, connection)
            case "raw bytes":
                return await self._send_bytes(connection, step.data)
            case "response":
                return await self._expect(step, connection)
            case "unmatched response":
                return await self._expect_unmatched(step, connection)
            case "no answer yet" | "no answer":
                await self.pace.sleep(max(0.0, self.sent[step.to][0] + step.ms / 1000 - self.pace.now()))
                came = step.to in connection.answers and self._took(step, connection) < step.ms / 1000
                return f"an answer to step {step.to} came" if came else None
            case "broker closed the connection":
                closed = await self.pace.wait(connection, lambda: connection.closed, CLOSED_WITHIN)
                return None if closed else "the broker keeps the connection open"
            case "connection still open":
                await self.pace.sleep(min(step.ms / 1000, 0.5))
                return "the broker closed the connection" if connection.closed else None
            case "client closes the connection":
                await trio.aclose_forcefully(connection.stream)
                return None
            case _:
                return None

    async def _send(self, step: Step, connection: PlayedConnection) -> str | None:
        if step.api_key not in APIS:
            return "kwire does not know this API"
        if step.api in LOOKS:
            await self.pace.sleep(self.looks_after)
        fields = self.bindings.ours(step.fields)
        body = from_json(APIS[step.api_key].request, fields, step.api_version)
        _patch_producer(body, self.bindings)
        frame = encode_request(body, step.api_version, correlation_id=step.correlation_id, client_id=CLIENT_ID)
        connection.ids[step.correlation_id] = step.n
        self.sent[step.n] = self._now()
        if failure := await self._send_bytes(connection, pack(frame)):
            return failure
        if step.api in PARKS:
            await self.pace.settle(connection, lambda: step.n in connection.answers or connection.closed, SETTLE)
        return None

    async def _send_bytes(self, connection: PlayedConnection, data: bytes) -> str | None:
        return None if await connection.send(data) or connection.closed else "the connection broke"

    async def _expect(self, step: Step, connection: PlayedConnection) -> str | None:
        patience = PATIENCE + (step.after_ms / 1000 if step.held else 0)
        await self.pace.wait(connection, lambda: step.to in connection.answers or connection.closed, patience)
        if step.to not in connection.answers:
            return "the broker closed the connection" if connection.closed else f"no answer to step {step.to}"
        if not step.held:  # a slow answer of a slow machine: its broker's timers do not wait either
            self.pace.behind = max(self.pace.behind, self._took(step, connection) - step.after_ms / 1000)
        frame = connection.answers[step.to][0]
        return self._late_or_early(step, connection) or self._compare(step, frame)

    def _now(self) -> tuple[float, float]:
        return self.pace.now(), trio.current_time()

    def _took(self, step: Step, connection: PlayedConnection) -> float:
        """Seconds until the answer to a request came: the more of the pace's and the world's, as either may be slow."""
        sent, answer = self.sent[step.to], connection.answers[step.to]
        return max(answer[1] - sent[0], answer[2] - sent[1])

    def _late_or_early(self, step: Step, connection: PlayedConnection) -> str | None:
        if not step.held or step.api not in WAITS:
            return None
        if step.released_by is not None:
            came = connection.answers[step.to][2]
            early = came < self.sent.get(step.released_by, (0.0, came))[1]
            return f"answered before step {step.released_by}" if early else None
        took, recorded = self._took(step, connection), step.after_ms / 1000
        own = connection.answers[step.to][1] - self.sent[step.to][0]
        if took < recorded - TIMER_SLACK or (self.pace.judges and own > recorded + TIMER_SLACK):
            return f"answered after {took * 1000:.0f} ms, recorded {step.after_ms:.0f} ms"
        return None

    async def _expect_unmatched(self, step: Step, connection: PlayedConnection) -> str | None:
        if not await self.pace.wait(connection, lambda: bool(connection.unmatched), PATIENCE):
            return "no answer"
        frame = connection.unmatched.pop(0)
        return None if frame == step.data else f"recorded {step.data.hex()}, got {frame.hex()}"

    def _compare(self, step: Step, frame: bytes) -> str | None:
        asked = self.requests[step.to]
        try:
            answer = decode_response(frame, asked.api_key, asked.api_version)
        except WireError as error:
            return str(error)
        if answer.version != step.api_version:
            return f"recorded version {step.api_version}, got {answer.version}"
        recorded = to_json(from_json(type(answer.body), step.fields, answer.version), answer.version)
        ours = to_json(answer.body, answer.version)
        only: dict[str, Callable[[Any], bool]] = {}
        if asked.api == "Metadata" and _asks_for_all(asked):
            only["topics"] = lambda topic: topic["name"] in self.conversation.topics
        return Comparison(self.bindings, step.api, only, exactly=self.exactly).difference(recorded, ours)


def _asks_for_all(asked: Step) -> bool:
    """A Metadata request for every topic: null, or in v0 none."""
    topics = asked.fields["topics"]
    return topics is None or (asked.api_version == 0 and not topics)


def _patch_producer(body: Any, bindings: Bindings) -> None:
    """Producer ids inside the record batches of a Produce request."""
    for topic in getattr(body, "topic_data", ()):
        for partition in topic.partition_data:
            recorded = producer_of(partition.records or b"")
            ours = bindings.number("producer_id", recorded)
            if ours != recorded:
                partition.records = with_producer(partition.records, ours)
