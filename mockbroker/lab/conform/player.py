"""The player of a conversation: it sends the recorded requests to a broker and reports the first difference.

The rules about time are in fixtures/conversations/README.md. A held response must not arrive before the step that
released it. A response that a timer released must not arrive too early and, with the manual clock (pace.py), not too
late. If the recording has no response to a request, the broker must not send a response.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from kwire import APIS, WireError, decode_response, encode_request
from kwire.frames import pack
from kwire.json.objects import from_json, to_json, uuid_text
from kwire.lazy_dataclass import dataclass
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from mockbroker.lab.conform.asker import open_asker
from mockbroker.lab.conform.compare import Bindings, Comparison
from mockbroker.lab.conform.connection import PARKS, SETTLE, PlayedConnection
from mockbroker.lab.conform.conversation import Conversation, Step
from mockbroker.lab.conform.pace import Pace, WallTime
from mockbroker.lab.conform.records import producer_of, with_producer

CLIENT_ID = "probe"
TRANSACTIONAL_ID = "$txn"  # prefix of the labels of transactional ids
WAITS = PARKS | {"Fetch"}
DESCRIBES = frozenset({"ConsumerGroupDescribe", "DescribeGroups", "ListGroups", "StreamsGroupDescribe"})
RESPONSE_TIMEOUT = 4.0  # seconds for a response that is not held
CLOSE_TIMEOUT = 2.0  # seconds
TIMER_SLACK = 0.35  # maximum time in seconds by which a timer may be early or late


@dataclass(frozen=True, slots=True)
class Difference:
    """The first step at which a broker differs from the recording.

    Attributes:
        step: step of the recording.
        text: description of the difference.
        lateness: maximum time by which the player was late, seconds.
    """

    step: Step
    text: str
    lateness: float = 0.0

    def __str__(self) -> str:
        api = f" {self.step.api} v{self.step.api_version}" if self.step.api else ""
        return f"step {self.step.n}{api} on {self.step.conn or '-'}: {self.text}"


@asynccontextmanager
async def background_tasks() -> AsyncIterator[trio.Nursery]:
    """Yield a nursery whose tasks are cancelled at the end of the block.

    An OSError or WireError of the block is raised itself: a nursery would wrap it in an ExceptionGroup.
    """
    failure: OSError | WireError | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield nursery
        except (OSError, WireError) as error:
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


class Player:
    """One run of one conversation against a broker.

    Args:
        conversation: the conversation.
        host: host of the broker.
        port: port of the broker's PLAINTEXT listener.
        describe_delay: seconds to wait before each request that describes or lists groups.
        sasl_port: port of the SASL listener of the broker; None to use ``port`` for the SASL connections too.
        exactly: True to compare error messages, authorized operations and features too; False for external brokers,
            where they may differ.
        pace: clock by which the conversation is played; the wall clock by default.
    """

    def __init__(
        self,
        conversation: Conversation,
        host: str,
        port: int,
        *,
        describe_delay: float = 0.0,
        sasl_port: int | None = None,
        exactly: bool = False,
        pace: Pace | None = None,
    ) -> None:
        self.pace = pace or WallTime()
        self.describe_delay = describe_delay
        self.exactly = exactly
        self.conversation = conversation
        self.address = host, port
        self.sasl_address = host, port if sasl_port is None else sasl_port
        self.bindings = Bindings(conversation.names)
        run = time.time_ns()  # makes transactional ids unique, because they cannot be deleted from a broker
        for recorded, label in conversation.names.items():
            if label.startswith(TRANSACTIONAL_ID):
                self.bindings.bind(recorded, f"{recorded}-{run}")
        self.connections: dict[str, PlayedConnection] = {}
        self.sent: dict[int, tuple[float, float]] = {}  # step -> time by the pace, and by trio's clock
        self.requests = {step.n: step for step in conversation.steps if step.event == "request"}

    async def play(self) -> Difference | None:
        """Play all steps of the conversation. Return the first difference from the recording; None if all steps agree.

        Raises: OSError if the broker is unreachable; WireError if a recorded request cannot be encoded.
        """
        try:
            async with background_tasks() as nursery:
                return await self._play(nursery)
        finally:
            with trio.CancelScope(shield=True):
                for connection in self.connections.values():
                    await trio.aclose_forcefully(connection.stream)

    async def _play(self, nursery: trio.Nursery) -> Difference | None:
        await self._bind_topics()
        for step in self.conversation.steps:
            if step.conn and step.conn not in self.connections:
                address = self.sasl_address if step.conn in self.conversation.sasl else self.address
                connection = PlayedConnection(await trio.open_tcp_stream(*address), self.pace.now)
                self.connections[step.conn] = connection
                nursery.start_soon(connection.listen)
            text = await self._do(step)
            self.sent.setdefault(step.n, self._now())
            if text:
                return Difference(step, text)
        return None

    async def _bind_topics(self) -> None:
        """Bind the recorded ids of the topics that exist at the start of the conversation to the ids of the topics
        in this broker.
        """
        recorded_ids = {
            label.removeprefix("$topic:"): recorded
            for recorded, label in self.conversation.names.items()
            if label.removeprefix("$topic:") in self.conversation.topics
        }
        if not recorded_ids:
            return
        request = MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in recorded_ids])
        async with open_asker(*self.address) as asker:
            body = await asker.ask(request, 12, MetadataResponse)
        for topic in body.topics:
            self.bindings.bind(recorded_ids[topic.name or ""], uuid_text(topic.topic_id))

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
                answered = step.to in connection.answers and self._latency(step, connection) < step.ms / 1000
                return f"recorded no response to step {step.to}, but got one" if answered else None
            case "broker closed the connection":
                closed = await self.pace.wait(connection, lambda: connection.closed, CLOSE_TIMEOUT)
                return None if closed else "recorded a closed connection, but the broker has not closed it"
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
            return f"API key {step.api_key} is not supported by kwire"
        if step.api in DESCRIBES:
            await self.pace.sleep(self.describe_delay)
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
        return None if await connection.send(data) or connection.closed else "sending failed: the connection is broken"

    async def _expect(self, step: Step, connection: PlayedConnection) -> str | None:
        timeout = RESPONSE_TIMEOUT + (step.after_ms / 1000 if step.held else 0)
        await self.pace.wait(connection, lambda: step.to in connection.answers or connection.closed, timeout)
        if step.to not in connection.answers:
            return "the broker closed the connection" if connection.closed else f"no response to step {step.to}"
        if not step.held:  # a late response on a slow machine also shows that timers may have been late
            self.pace.lateness = max(self.pace.lateness, self._latency(step, connection) - step.after_ms / 1000)
        frame = connection.answers[step.to][0]
        return self._timing_difference(step, connection) or self._compare(step, frame)

    def _now(self) -> tuple[float, float]:
        return self.pace.now(), trio.current_time()

    def _latency(self, step: Step, connection: PlayedConnection) -> float:
        """Return the time from a request to its response, in seconds.

        The time is measured by the conversation's clock and by trio's clock, and the larger result is returned.

        Args:
            step: step of the response in the recording.
            connection: connection of the request and the response.
        """
        sent, answer = self.sent[step.to], connection.answers[step.to]
        return max(answer[1] - sent[0], answer[2] - sent[1])

    def _timing_difference(self, step: Step, connection: PlayedConnection) -> str | None:
        if not step.held or step.api not in WAITS:
            return None
        if step.released_by is not None:
            received = connection.answers[step.to][2]
            early = received < self.sent.get(step.released_by, (0.0, received))[1]
            return f"answered before step {step.released_by}" if early else None
        latency, recorded = self._latency(step, connection), step.after_ms / 1000
        by_pace = connection.answers[step.to][1] - self.sent[step.to][0]
        if latency < recorded - TIMER_SLACK or (self.pace.judges and by_pace > recorded + TIMER_SLACK):
            return f"answered after {latency * 1000:.0f} ms, recorded {step.after_ms:.0f} ms"
        return None

    async def _expect_unmatched(self, step: Step, connection: PlayedConnection) -> str | None:
        if not await self.pace.wait(connection, lambda: bool(connection.unmatched), RESPONSE_TIMEOUT):
            return "no response"
        frame = connection.unmatched.pop(0)
        return None if frame == step.data else f"recorded {step.data.hex()}, got {frame.hex()}"

    def _compare(self, step: Step, frame: bytes) -> str | None:
        request = self.requests[step.to]
        try:
            answer = decode_response(frame, request.api_key, request.api_version)
        except WireError as error:
            return str(error)
        if answer.version != step.api_version:
            return f"recorded version {step.api_version}, got {answer.version}"
        recorded = to_json(from_json(type(answer.body), step.fields, answer.version), answer.version)
        ours = to_json(answer.body, answer.version)
        only: dict[str, Callable[[Any], bool]] = {}
        if request.api == "Metadata" and _names_all_topics(request):
            only["topics"] = lambda topic: topic["name"] in self.conversation.topics
        return Comparison(self.bindings, step.api, only, exactly=self.exactly).difference(recorded, ours)


def _names_all_topics(request: Step) -> bool:
    """Return whether a Metadata request asks for all topics: its list of topics is null, or in v0 empty."""
    topics = request.fields["topics"]
    return topics is None or (request.api_version == 0 and not topics)


def _patch_producer(body: Any, bindings: Bindings) -> None:
    """Replace the recorded producer ids in the record batches of a Produce request with the producer ids of this run.

    Args:
        body: body of the request, which is changed; for other requests nothing is done.
        bindings: recorded ids and the corresponding ids of this run.
    """
    for topic in getattr(body, "topic_data", ()):
        for partition in topic.partition_data:
            recorded = producer_of(partition.records or b"")
            ours = bindings.number("producer_id", recorded)
            if ours != recorded:
                partition.records = with_producer(partition.records, ours)
