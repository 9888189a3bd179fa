"""Sends broken requests to a broker and looks what becomes of it: the shell around ``session`` and ``findings``.

After every case a second connection sees whether the broker still does what it did: it answers newcomers, a group of
ours that has nothing to do with the case still has its member, generation and offsets, and its topic is there.
"""

from __future__ import annotations

import math
import secrets
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Protocol

from kwire.connection import ClientSide
from kwire.envelope import Response, decode_response
from kwire.errorcodes import ErrorCode
from kwire.errors import WireError
from kwire.frames import FrameBuffer
from kwire.fuzz.findings import CORRELATION, CRASH, HANG, HARM, UNREADABLE, Finding, Recorded, shrink
from kwire.fuzz.session import CLIENT, PATIENCE, Names, Session, Step, due, shared
from kwire.messages import APIS
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.sync_group import SyncGroupRequest

Address = tuple[str, int]
MOMENT = 0.1  # seconds for an answer that need not come
HEALTHY_SESSION_MS = 300_000
STEADY = 20.0  # seconds that the healthy client gives the broker, for anything
OFFSET = 7  # what the healthy group has committed
PARTITIONS = 2
TRIES, TRYING = 40, 60.0  # replays to make a finding smaller, and seconds for them
ALIKE = 2  # findings of one kind and API that are made smaller; of more one learns nothing
LOST = (ConnectionError, TimeoutError, OSError)
READY_WITHIN = 20.0  # seconds for a fresh cluster to make its offsets topic
RETRY = 0.1  # seconds between two requests to a coordinator that is not ready
NOT_READY = frozenset(  # until the offsets topic of a fresh cluster exists and its partition is loaded
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)


class BrokerError(Exception):
    """The broker cannot be fuzzed: it is not there, or does not do the least that is needed."""


class Script(Protocol):
    """What can be played: a Session or a Recorded."""

    steps: list[Step]

    def next(self) -> Step | None: ...

    def answered(self, response: Response) -> None: ...


@dataclass(frozen=True, slots=True)
class Trouble:
    """What was wrong, before it is a Finding."""

    kind: str
    detail: str


class Wire:
    """One connection of raw bytes."""

    def __init__(self, address: Address) -> None:
        self._sock = socket.create_connection(address, timeout=PATIENCE)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = FrameBuffer()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def send(self, data: bytes) -> None:
        """Send; that the other side has hung up is seen when its answer is read."""
        self._sock.settimeout(PATIENCE)
        with suppress(*LOST):
            self._sock.sendall(data)

    def receive(self, within: float) -> bytes | None:
        """The next frame; b"" if the broker hung up, None if nothing came within so many seconds.

        Raises: WireError for what cannot be a frame.
        """
        until = time.monotonic() + within
        while (frame := self._frames.next_frame()) is None:
            left = until - time.monotonic()
            if left <= 0:
                return None
            self._sock.settimeout(left)
            try:
                data = self._sock.recv(65_536)
            except TimeoutError:
                return None
            except OSError:
                data = b""
            if not data:
                return b""
            self._frames.feed(data)
        return frame


class Client:
    """Asks as it should be done, and expects answers. Raises: OSError, WireError."""

    def __init__(self, address: Address, offered: Mapping[int, range]) -> None:
        self._sock = socket.create_connection(address, timeout=STEADY)
        self._side = ClientSide(CLIENT)
        self._offered = shared(offered)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._sock.close()

    def ask(self, body: Any, key: int, most: int = 99) -> Any:
        """The answer to a request in the newest version that both have, up to ``most``."""
        versions = [version for version in self._offered.get(key, ()) if version <= most]
        if not versions:
            raise BrokerError(f"the broker has no version of {APIS[key].name} that kwire can use here")
        return self.ask_in(body, versions[-1])

    def ask_in(self, body: Any, version: int) -> Any:
        self._sock.sendall(self._side.send(body, version))
        while (response := self._side.next_response()) is None:
            data = self._sock.recv(65_536)
            if not data:
                raise ConnectionError("the broker hung up")
            self._side.receive(data)
        return response.body


class Healthy:
    """A group with one member that has nothing to do with what is fuzzed. Raises: BrokerError, OSError, WireError."""

    def __init__(self, address: Address, offered: Mapping[int, range], names: Names, group: str) -> None:
        self._address = address
        self._offered = offered
        self._names = names
        self._group = group
        self._client = Client(address, offered)
        self._member_id = ""
        try:
            self._settle()
        except BaseException:
            self._client.close()
            raise

    def _settle(self) -> None:
        """Find the coordinator, join, be assigned nothing, and commit."""
        self._must(self._once_ready(self._find), "find the coordinator of a group")
        answer = self._once_ready(self._join)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
            answer = self._once_ready(self._join)
        self._must(answer, "join a group")
        self._member_id, self._generation = answer.member_id, answer.generation_id
        sync = SyncGroupRequest(group_id=self._group, generation_id=self._generation, member_id=self._member_id)
        self._must(self._client.ask(sync, 14, most=4), "sync")
        self._must(self._client.ask(self._commit(), 8, most=7).topics[0].partitions[0], "commit")

    def _once_ready(self, ask: Callable[[], Any]) -> Any:
        """The first answer that is not of a coordinator that is still being made, or the last within READY_WITHIN."""
        until = time.monotonic() + READY_WITHIN
        while (answer := ask()).error_code in NOT_READY and time.monotonic() < until:
            time.sleep(RETRY)
        return answer

    def _find(self) -> Any:
        """Ask for the coordinator: a fresh Kafka creates the offsets topic only when a client does."""
        return self._client.ask(FindCoordinatorRequest(key=self._group), 10, most=3)

    def _join(self) -> Any:
        request = JoinGroupRequest(
            group_id=self._group,
            member_id=self._member_id,
            session_timeout_ms=HEALTHY_SESSION_MS,
            rebalance_timeout_ms=HEALTHY_SESSION_MS,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")],
        )
        return self._client.ask(request, 11, most=6)

    def _commit(self) -> OffsetCommitRequest:
        partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=OFFSET)
        topic = OffsetCommitRequest.Topic(name=self._names.topic, partitions=[partition])
        return OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=[topic],
        )

    def _must(self, answer: Any, what: str) -> None:
        if answer.error_code:
            raise BrokerError(f"a healthy client cannot {what}: {_named(answer.error_code)}")

    def trouble(self) -> Trouble | None:
        """What has become of the broker and the group, None if all is well."""
        try:
            newcomer = Client(self._address, self._offered)
        except LOST as error:
            return Trouble(CRASH, f"a new connection: {error}")
        try:
            with newcomer:
                newcomer.ask_in(ApiVersionsRequest(), 0)
            return self._changed()
        except (*LOST, WireError) as error:
            return Trouble(HARM, f"a healthy client: {error}")

    def _changed(self) -> Trouble | None:
        beat = HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._member_id)
        code = self._client.ask(beat, 12).error_code
        if code:
            return Trouble(HARM, f"the heartbeat of the healthy member is answered {_named(code)}")
        topic = OffsetFetchRequest.Topic(name=self._names.topic, partition_indexes=[0])
        fetched = self._client.ask(OffsetFetchRequest(group_id=self._group, topics=[topic]), 9, most=7)
        offset = fetched.topics[0].partitions[0].committed_offset if fetched.topics else None
        if offset != OFFSET:
            return Trouble(HARM, f"the offset of the healthy group was {OFFSET} and is {offset}")
        partitions = _partitions(self._client, self._names)
        if partitions != PARTITIONS:
            return Trouble(HARM, f"the topic of the healthy group had {PARTITIONS} partitions and has {partitions}")
        return None

    def leave(self) -> None:
        """Go away."""
        with suppress(*LOST, WireError, BrokerError):
            self._client.ask(LeaveGroupRequest(group_id=self._group, member_id=self._member_id), 13, most=2)
        self._client.close()


class Fuzzer:
    """A run against one broker. ``api``: the key of the only API to break. Raises: BrokerError if it cannot begin.

    What was sent is a function of the seed, and of what the broker offers and answers.
    """

    def __init__(self, address: Address, seed: int = 0, api: int | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.findings = 0
        self._address = address
        self._seed = seed
        self._api = api
        self._lives = 0
        self._alike: Counter[str] = Counter()
        self._counting = True
        try:
            self.offered = self._ask_versions()
            if api is not None and api not in shared(self.offered):
                raise BrokerError(f"the broker does not serve {APIS[api].name} in a version that kwire knows")
            self._names = self._prepare(Names(secrets.token_hex(4)))
            self._healthy = self._new_healthy()
        except (*LOST, WireError) as error:
            raise BrokerError(f"{address[0]}:{address[1]}: {error}") from error

    def _ask_versions(self) -> dict[int, range]:
        with Client(self._address, {}) as client:
            answer = client.ask_in(ApiVersionsRequest(), 0)
        return {one.api_key: range(one.min_version, one.max_version + 1) for one in answer.api_keys}

    def _prepare(self, names: Names) -> Names:
        """Make the topic of the run, and learn its id."""
        with Client(self._address, self.offered) as client:
            topic = CreateTopicsRequest.Topic(name=names.topic, num_partitions=PARTITIONS, replication_factor=1)
            client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 19)
            until = time.monotonic() + STEADY
            while _partitions(client, names) != PARTITIONS:
                if time.monotonic() > until:
                    raise BrokerError(f"topic {names.topic} cannot be created")
            found = client.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=names.topic)]), 3)
        return replace(names, topic_id=found.topics[0].topic_id)

    def _new_healthy(self) -> Healthy:
        self._lives += 1
        group = self._names.healthy if self._lives == 1 else f"{self._names.healthy}-{self._lives}"
        return Healthy(self._address, self.offered, self._names, group)

    def close(self) -> None:
        """Take away what the run made."""
        self._healthy.leave()
        with suppress(*LOST, WireError, BrokerError), Client(self._address, self.offered) as client:
            names = [self._names.topic]
            client.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=10_000), 20, most=5)

    def run(self, cases: Sequence[int] | range) -> Iterator[Finding | None]:
        """Play these cases, and give for each what it found. It ends early when the broker is gone."""
        for case in cases:
            chance = Random(f"{self._seed}-{case}")  # noqa: S311 - not for secrets
            session = Session(chance, self._names, case, self.offered, self._api)
            trouble = self._play(session)
            self.counts["cases"] += 1
            if trouble is None:
                yield None
                continue
            self.findings += 1
            steps = self._shrunk(tuple(session.steps), trouble.kind)
            yield Finding(trouble.kind, trouble.detail, self._seed, case, self._names, steps)
            if trouble.kind == CRASH:
                return

    def replay(self, finding: Finding) -> Trouble | None:
        """Play a finding again; what it does now."""
        return self._play(Recorded(finding.steps, finding.names, self._names))

    def _shrunk(self, steps: tuple[Step, ...], kind: str) -> tuple[Step, ...]:
        alike = f"{kind} {steps[-1].what.partition(' ')[0]}" if steps else kind
        self._alike[alike] += 1
        if kind == CRASH or self._alike[alike] > ALIKE:
            return steps
        until = time.monotonic() + TRYING
        number = 0

        def holds(smaller: Sequence[Step]) -> bool:
            nonlocal number
            if time.monotonic() > until:
                return False
            number += 1
            now = replace(self._names, nonce=f"{self._names.nonce[:4]}{number:04x}")  # a group that nobody was in
            trouble = self._play(Recorded(smaller, self._names, now))
            return trouble is not None and trouble.kind == kind

        self._counting = False
        try:
            return shrink(steps, holds, TRIES)
        finally:
            self._counting = True

    def _play(self, script: Script) -> Trouble | None:
        """One case: what it did wrong, or what is wrong since then."""
        trouble = None
        try:
            with Wire(self._address) as wire:
                while trouble is None and (step := script.next()):
                    answer = self._exchange(wire, step)
                    if isinstance(answer, Trouble):
                        trouble = answer
                    elif answer is None:
                        break
                    elif isinstance(answer, Response):
                        script.answered(answer)
        except LOST as error:
            trouble = Trouble(CRASH, f"a new connection: {error}")
        after = self._healthy.trouble()
        if after is not None and after.kind != CRASH:
            self._recover()
        return after or trouble

    def _recover(self) -> None:
        self._healthy.leave()
        with suppress(*LOST, WireError, BrokerError):
            self._healthy = self._new_healthy()

    def _exchange(self, wire: Wire, step: Step) -> Response | Trouble | bool | None:
        """Send a step. The answer, True for one of an unknown API, None if nothing can follow, or what is wrong."""
        limit = due(step.data, self.offered)
        wire.send(step.data)
        try:
            frame = wire.receive(MOMENT if limit == math.inf else limit)
        except WireError as error:
            return Trouble(UNREADABLE, f"{step.what}: {error}")
        if frame is None:
            self._count(step, "silent")
            return None if limit == math.inf else Trouble(HANG, f"{step.what}: no answer and no close in {limit:g} s")
        if not frame:
            self._count(step, "closed")
            return None
        self._count(step, "answered")
        return self._read(step, frame)

    def _read(self, step: Step, frame: bytes) -> Response | Trouble | bool | None:
        sent = step.data[4:]
        if frame[:4] != sent[4:8]:
            return Trouble(CORRELATION, f"{step.what}: {sent[4:8].hex()} was asked, {frame[:4].hex()} is answered")
        key, version = struct.unpack_from(">hh", sent)
        if key not in shared(self.offered):
            return True
        try:
            response = decode_response(frame, key, version)
        except WireError as error:
            return Trouble(UNREADABLE, f"{step.what}: {error}")
        if response.trailing:
            return Trouble(UNREADABLE, f"{step.what}: {len(response.trailing)} bytes behind the answer")
        code = getattr(response.body, "error_code", None)
        if step.broken and self._counting and code is not None:
            self.errors[_named(code)] += 1
        whole = struct.unpack_from(">i", step.data)[0] == len(sent)
        return response if whole else None

    def _count(self, step: Step, outcome: str) -> None:
        if step.broken and self._counting:
            self.counts[outcome] += 1


def _partitions(client: Client, names: Names) -> int:
    """How many partitions of the topic of the run have a leader."""
    answer = client.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=names.topic)]), 3)
    return sum(partition.leader_id >= 0 for topic in answer.topics for partition in topic.partitions)


def _named(code: int) -> str:
    return ErrorCode(code).name if code in tuple(ErrorCode) else f"error {code}"
