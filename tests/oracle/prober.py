"""A recorder of conversations with a broker, in the format of fixtures/conversations.

``Prober`` records the steps, with one method for each kind of event. ``Client`` is a member of a group with its own
connection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import trio

from kwire import ErrorCode, decode_response, encode_request
from kwire.envelope import decode_request_header
from kwire.frames import pack
from kwire.json.objects import to_json, uuid_text
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.sync_group import SyncGroupRequest
from mockbroker.lab.conform.asker import open_asker
from mockbroker.lab.conform.compare import SHORT_UUID, UUID
from mockbroker.lab.conform.connection import PARKS, SETTLE, PlayedConnection

CLIENT_ID = "probe"
PATIENCE = 15.0  # seconds
SOON = 0.1  # a response within this time after a step of another connection was released by that step
HOLDS = PARKS | {"Fetch", "ShareFetch"}
RANGE = ("range", b"\0\1\0\0\0\1\0\5probe\xff\xff\xff\xff\0\0\0\0")
MORE = ("range", b"\0\1\0\0\0\2\0\5probe\0\6probe2\xff\xff\xff\xff\0\0\0\0")
ROUND_ROBIN = ("roundrobin", RANGE[1])
SHARE = b"\0\1\0\0\0\1\0\5probe\0\0\0\1\0\0\0\0\xff\xff\xff\xff"  # partition 0 of topic probe
MADE_UP = re.compile(rf"{UUID.pattern}|^{SHORT_UUID.pattern}$")  # member ids that the broker generates


@dataclass(slots=True)
class Asked:
    """A sent request."""

    n: int
    conn: str
    api: str
    key: int
    version: int
    correlation_id: int
    at: float


@dataclass(slots=True)
class Prober:
    """The recorder of a conversation. Steps are recorded in the order in which the script takes or observes them."""

    host: str
    port: int
    nursery: trio.Nursery
    scenario: str
    release: str
    sasl_port: int | None = None  # if set, connections use this port
    plaintext: Sequence[str] = ()  # connections that use ``port`` nevertheless
    begun: float = field(default_factory=trio.current_time)
    steps: list[dict[str, Any]] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    moves: list[tuple[float, int, str]] = field(default_factory=list)
    connections: dict[str, PlayedConnection] = field(default_factory=dict)

    @property
    def group(self) -> str:
        return f"g-{self.scenario}"

    async def name_topics(self, topics: Sequence[str]) -> None:
        """Look up the ids of topics that exist from the start, and name them."""
        request = MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in topics])
        async with open_asker(self.host, self.port) as asker:
            answer = await asker.ask(request, 12, MetadataResponse)
        self.names |= {uuid_text(topic.topic_id): f"$topic:{topic.name}" for topic in answer.topics}

    async def send(self, conn: str, request: object, version: int) -> Asked:
        """Send a request without waiting for the response, except for a short time if the broker may delay it."""
        connection = await self._connection(conn)
        number = 1 + sum(step["event"] == "request" for step in self.steps)
        frame = encode_request(request, version, correlation_id=number, client_id=CLIENT_ID)
        api, _, _ = decode_request_header(frame)
        sent = Asked(0, conn, api.name, api.key, version, number, trio.current_time())
        sent.n = self._write(
            conn=conn,
            event="request",
            api=api.name,
            api_key=api.key,
            api_version=version,
            correlation_id=number,
            fields=camel(to_json(request, version)),
            hex=frame.hex(),
        )
        connection.ids[number] = sent.n
        self.moves.append((sent.at, sent.n, conn))
        await connection.send(pack(frame))
        if api.name in PARKS:
            await connection.wait(lambda: sent.n in connection.answers, SETTLE)
        return sent

    async def answer(self, sent: Asked) -> Any:
        """Wait for a response and record it."""
        connection = self.connections[sent.conn]
        if not await connection.wait(lambda: sent.n in connection.answers, PATIENCE):
            raise RuntimeError(f"{self.scenario}: no answer to step {sent.n}, {sent.api}")
        frame, came, _ = connection.answers[sent.n]
        response = decode_response(frame, sent.key, sent.version)
        fields = to_json(response.body, response.version)
        self._label(sent, fields)
        held = sent.api in HOLDS and came - sent.at > SETTLE
        step: dict[str, Any] = {
            "conn": sent.conn,
            "event": "response",
            "to": sent.n,
            "api": sent.api,
            "api_version": response.version,
            "correlation_id": sent.correlation_id,
            "after_ms": round((came - sent.at) * 1000, 1),
            "held": held,
        }
        if held:
            earlier = [(at, n) for at, n, conn in self.moves if sent.at < at <= came and conn != sent.conn]
            at, n = max(earlier, default=(0.0, 0))
            step["released_by_step"] = n if came - at <= SOON else None
        step["fields"] = camel(fields)
        if "error_code" in fields:
            step |= {"error_code": fields["error_code"], "error": ErrorCode(fields["error_code"]).name}
        self._write(**step, hex=frame.hex())
        return response.body

    async def ask(self, conn: str, request: object, version: int) -> Any:
        return await self.answer(await self.send(conn, request, version))

    async def silent(self, sent: Asked, since_ms: int = 300) -> None:
        """Check and record that there is no response yet, at this time after the request."""
        await trio.sleep_until(sent.at + since_ms / 1000)
        assert sent.n not in self.connections[sent.conn].answers, f"step {sent.n} was answered"
        self._write(conn=sent.conn, event="no answer yet", to=sent.n, since_ms=since_ms)

    async def never(self, sent: Asked, waited_ms: int) -> None:
        """Check and record that there is no response; later steps do not wait for it."""
        await trio.sleep_until(sent.at + waited_ms / 1000)
        assert sent.n not in self.connections[sent.conn].answers, f"step {sent.n} was answered"
        self._write(conn=sent.conn, event="no answer", to=sent.n, waited_ms=waited_ms)

    async def wait(self, ms: int, why: str = "") -> None:
        self._write(event="wait", ms=ms, why=why)
        await trio.sleep(ms / 1000)

    async def close(self, conn: str) -> None:
        n = self._write(conn=conn, event="client closes the connection")
        self.moves.append((trio.current_time(), n, conn))
        await trio.aclose_forcefully(self.connections[conn].stream)

    async def closed(self, sent: Asked | str) -> None:
        """Wait until the broker closes a connection, instead of a response or after the last one, and record it."""
        conn = sent if isinstance(sent, str) else sent.conn
        connection = self.connections[conn]
        assert await connection.wait(lambda: connection.closed, PATIENCE), f"{conn} is open"
        assert isinstance(sent, str) or sent.n not in connection.answers, f"step {sent} was answered"
        to = {} if isinstance(sent, str) else {"to": sent.n}
        self._write(conn=conn, event="broker closed the connection", **to)

    async def raw(self, conn: str, data: bytes, what: str) -> None:
        """Send bytes unchanged, without adding a length prefix."""
        connection = await self._connection(conn)
        self._write(conn=conn, event="raw bytes", what=what, hex=data.hex(), bytes=len(data))
        await connection.send(data)

    async def unmatched(self, conn: str) -> None:
        """Wait for a frame that responds to raw bytes, and record it."""
        connection = self.connections[conn]
        assert await connection.wait(lambda: bool(connection.unmatched), PATIENCE), f"nothing came to {conn}"
        self._write(conn=conn, event="unmatched response", hex=connection.unmatched.pop(0).hex())

    async def still_open(self, conn: str, ms: int = 300) -> None:
        await trio.sleep(ms / 1000)
        assert not self.connections[conn].closed, f"{conn} is closed"
        self._write(conn=conn, event="connection still open", waited_ms=ms)

    def note(self, text: str) -> None:
        self._write(event="note", text=text)

    async def _connection(self, conn: str) -> PlayedConnection:
        if conn not in self.connections:
            port = self.port if self.sasl_port is None or conn in self.plaintext else self.sasl_port
            connection = PlayedConnection(await trio.open_tcp_stream(self.host, port))
            self.nursery.start_soon(connection.listen)
            self.connections[conn] = connection
        return self.connections[conn]

    def _label(self, sent: Asked, fields: Mapping[str, Any]) -> None:
        """Name the ids that the broker has generated: of members, delegation tokens and created topics."""
        member_id = fields.get("member_id") if sent.api in ("JoinGroup", "ConsumerGroupHeartbeat") else None
        if member_id and MADE_UP.search(member_id) and member_id not in self.names:
            taken = sum(label.rstrip("0123456789") == f"${sent.conn}" for label in self.names.values())
            self.names[member_id] = f"${sent.conn}{taken + 1 if taken else ''}"
        if sent.api == "CreateDelegationToken" and fields["token_id"]:
            number = sum(label.startswith("$token:") for label in self.names.values()) + 1
            self.names |= {fields["token_id"]: f"$token:{number}", fields["hmac"]: f"$hmac:{number}"}
        for topic in fields.get("topics") or ():
            if sent.api == "CreateTopics" and topic.get("topic_id", "A" * 22) != "A" * 22:
                self.names[topic["topic_id"]] = f"$topic:{topic['name']}"

    def _write(self, **step: Any) -> int:
        n = len(self.steps) + 1
        self.steps.append({"n": n, "t_ms": round((trio.current_time() - self.begun) * 1000, 1), **step})
        return n


def camel(value: Any) -> Any:
    """Convert keys to Kafka's form: ``group_id`` -> ``groupId``."""
    if isinstance(value, Mapping):
        return {re.sub(r"_([a-z0-9])", lambda m: m[1].upper(), key): camel(item) for key, item in value.items()}
    return [camel(item) for item in value] if isinstance(value, list) else value


@dataclass(slots=True, kw_only=True)
class Client:
    """A member, or a client that joins, with the default fields of its requests, and the versions of its requests."""

    p: Prober
    conn: str
    group: str = ""
    member_id: str = ""
    generation: int = -1
    instance: str | None = None
    session: int = 10_000
    rebalance: int = 5_000
    protocols: Sequence[tuple[str, bytes]] = (RANGE,)
    kind: str = "consumer"
    join_version: int = 9
    sync_version: int = 5

    def __post_init__(self) -> None:
        self.group = self.group or self.p.group

    async def get_id(self) -> str:
        """Send the first JoinGroup of a dynamic member, which gets MEMBER_ID_REQUIRED; return the member id."""
        answer = await self.p.ask(self.conn, self._join(), self.join_version)
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        self.member_id = answer.member_id
        return self.member_id

    async def join(self, **changes: Any) -> Asked:
        """Send JoinGroup; request a member id before if one is needed."""
        if not self.member_id and self.instance is None and self.join_version >= 4:
            await self.get_id()
        return await self.p.send(self.conn, self._join(**changes), self.join_version)

    async def joined(self, sent: Asked) -> Any:
        answer = await self.p.answer(sent)
        if not answer.error_code:
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    async def enter(self, **changes: Any) -> Any:
        """Send JoinGroup and wait for the response."""
        return await self.joined(await self.join(**changes))

    async def sync(self, shares: Mapping[str, bytes] | None = None, **changes: Any) -> Asked:
        given = [SyncGroupRequest.Assignment(member_id=m, assignment=share) for m, share in (shares or {}).items()]
        request = SyncGroupRequest(
            **{
                "group_id": self.group,
                "generation_id": self.generation,
                "member_id": self.member_id,
                "group_instance_id": self.instance if self.sync_version >= 3 else None,
                "assignments": given,
                **(
                    {"protocol_type": self.kind, "protocol_name": self.protocols[0][0]}
                    if self.sync_version >= 5
                    else {}
                ),
                **changes,
            }
        )
        return await self.p.send(self.conn, request, self.sync_version)

    async def synced(self, shares: Mapping[str, bytes] | None = None, **changes: Any) -> Any:
        return await self.p.answer(await self.sync(shares, **changes))

    async def stable(self, **changes: Any) -> None:
        """Join as the only member, with an assignment of all partitions."""
        await self.enter(**changes)
        await self.synced({self.member_id: SHARE})

    async def beat(self, *, conn: str = "", **changes: Any) -> Any:
        request = HeartbeatRequest(
            **{
                "group_id": self.group,
                "generation_id": self.generation,
                "member_id": self.member_id,
                "group_instance_id": self.instance,
                **changes,
            }
        )
        return await self.p.ask(conn or self.conn, request, 4)

    async def commit(self, offset: int = 7, *, version: int = 8, conn: str = "", **changes: Any) -> Any:
        place = OffsetCommitRequest.Topic.Partition(
            partition_index=0, committed_offset=offset, committed_metadata=changes.pop("metadata", "")
        )
        request = OffsetCommitRequest(
            **{
                "group_id": self.group,
                "generation_id_or_member_epoch": self.generation,
                "member_id": self.member_id,
                "group_instance_id": self.instance,
                "topics": [OffsetCommitRequest.Topic(name=changes.pop("topic", "probe"), partitions=[place])],
                **changes,
            }
        )
        return await self.p.ask(conn or self.conn, request, version)

    async def leave(self, *who: tuple[str, str | None], conn: str = "", version: int = 5) -> Any:
        members = [
            LeaveGroupRequest.Member(member_id=member_id, group_instance_id=instance)
            for member_id, instance in who or [(self.member_id, self.instance)]
        ]
        return await self.p.ask(conn or self.conn, LeaveGroupRequest(group_id=self.group, members=members), version)

    def _join(self, **changes: Any) -> JoinGroupRequest:
        protocols = changes.pop("protocols", self.protocols)
        fields: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": self.session,
            "rebalance_timeout_ms": self.rebalance if self.join_version else -1,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": self.kind,
            "protocols": [JoinGroupRequest.Protocol(name=name, metadata=data) for name, data in protocols],
        }
        return JoinGroupRequest(**(fields | changes))
