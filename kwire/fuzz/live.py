"""The fuzzer, which sends malformed requests to a broker and checks that the broker survives.

After every test case, a second connection checks that the broker accepts connections and that the topic of the run
exists. It also checks that a group without malformed requests still has its member, generation and offsets. If the
broker has confirmed that a request deleted or changed this topic, the run continues with a new topic. This module uses
sockets and a clock.
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
from dataclasses import replace
from random import Random
from typing import Any, Protocol

from kwire.connection import ClientSide
from kwire.envelope import Response, decode_response
from kwire.errorcodes import ErrorCode
from kwire.errors import WireError
from kwire.frames import FrameBuffer
from kwire.fuzz.findings import CORRELATION, CRASH, HANG, HARM, UNREADABLE, Finding, Recorded, shrink
from kwire.fuzz.session import CLIENT, NONCE, RESPONSE_TIME, Names, Session, Step, due, shared
from kwire.lazy_dataclass import dataclass
from kwire.messages import APIS
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.create_partitions import CreatePartitionsResponse
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.sync_group import SyncGroupRequest

Address = tuple[str, int]
MOMENT = 0.1  # seconds to wait for an optional response
HEALTHY_SESSION_MS = 300_000
STEADY = 20.0  # timeout of the healthy client's requests, in seconds
OFFSET = 7  # committed offset of the healthy group
PARTITIONS = 2
TRIES, TRYING = 40, 60.0  # limits of minimisation: replays, and seconds
SIMILAR = 2  # maximum findings of one kind and API that are minimised
LOST = (ConnectionError, TimeoutError, OSError)
READY_WITHIN = 20.0  # seconds for a new cluster to create its offsets topic
RETRY = 0.1  # seconds between requests to a coordinator that is not ready
NOT_READY = frozenset(  # until the offsets topic of a new cluster exists and its partition is loaded
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)


CHANGED = (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)  # errors of a topic that a request changes, now or later


class BrokerError(Exception):
    """The error for a broker that cannot be fuzzed: it is unreachable, or it does not support a required API."""


class Script(Protocol):
    """The interface of ``Session`` and ``Recorded``, which supply the requests of a test case one by one.

    Attributes:
        steps: requests that ``next`` has returned so far.
    """

    steps: list[Step]

    def next(self) -> Step | None: ...

    def answered(self, response: Response) -> None: ...


@dataclass(frozen=True, slots=True)
class Trouble:
    """A failure of the broker in a test case. The fuzzer converts it, together with the requests, to a ``Finding``.

    Attributes:
        kind: kind of failure, one of KINDS.
        detail: description of the failure.
    """

    kind: str
    detail: str


class Wire:
    """A TCP connection that sends raw bytes, and receives frames.

    Args:
        address: host and port of the broker.
    """

    def __init__(self, address: Address) -> None:
        self._sock = socket.create_connection(address, timeout=RESPONSE_TIME)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = FrameBuffer()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def send(self, data: bytes) -> None:
        """Send bytes. No error is raised if the broker has closed the connection; then ``receive`` returns b""."""
        self._sock.settimeout(RESPONSE_TIME)
        with suppress(*LOST):
            self._sock.sendall(data)

    def receive(self, within: float) -> bytes | None:
        """Return the next frame from the broker.

        Args:
            within: maximum time to wait, in seconds.

        Returns: the frame; b"" if the broker has closed the connection; None if no frame arrived in time.

        Raises: WireError for an invalid length prefix.
        """
        until = time.monotonic() + within
        while (frame := self._frames.next_frame()) is None:
            remaining = until - time.monotonic()
            if remaining <= 0:
                return None
            self._sock.settimeout(remaining)
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
    """A client that sends only valid requests, and waits for each response.

    Args:
        address: host and port of the broker.
        offered: versions that the broker supports, by API key.

    Raises: OSError if the connection fails; WireError for an invalid response.
    """

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
        """Send a request in the newest version that both broker and kwire support, wait for the response, and return
        it.

        Args:
            body: body of the request.
            key: API key of the request.
            most: highest version to use.

        Raises: BrokerError if broker and kwire have no common version up to ``most``.
        """
        versions = [version for version in self._offered.get(key, ()) if version <= most]
        if not versions:
            raise BrokerError(f"the broker and kwire have no common version of {APIS[key].name}")
        return self.ask_in(body, versions[-1])

    def ask_in(self, body: Any, version: int) -> Any:
        self._sock.sendall(self._side.send(body, version))
        while (response := self._side.next_response()) is None:
            data = self._sock.recv(65_536)
            if not data:
                raise ConnectionError(f"the broker closed the connection without a response to {type(body).__name__}")
            self._side.receive(data)
        return response.body


class Healthy:
    """A control group with one member that sends only valid requests.

    With this group, the fuzzer checks that malformed requests affect only the groups to which they are sent.

    Args:
        address: host and port of the broker.
        offered: versions that the broker supports, by API key.
        names: names of the run, for the topic to which offsets are committed.
        group: group id of the control group.

    Raises: BrokerError, OSError or WireError if the group cannot be set up.
    """

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
        """Set up the control group: find the coordinator, join, receive an empty assignment, and commit an offset."""
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
        """Send a request, and repeat it for at most READY_WITHIN seconds while the response has an error in NOT_READY.

        Args:
            ask: function that sends the request and returns the response.

        Returns: the last response.
        """
        until = time.monotonic() + READY_WITHIN
        while (answer := ask()).error_code in NOT_READY and time.monotonic() < until:
            time.sleep(RETRY)
        return answer

    def _find(self) -> Any:
        """Send FindCoordinator for the control group, and return the response.

        In a new Kafka cluster, this request creates __consumer_offsets.
        """
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
            raise BrokerError(f"a correct client cannot {what}: the broker returned {_named(answer.error_code)}")

    def trouble(self, *, is_topic_changed: bool = False) -> Trouble | None:
        """Check that the broker accepts a connection, and that the control group and its topic are unchanged.

        Return the first failure; None if the check found no failure.

        ``is_topic_changed``: True if a request has deleted or changed the topic: the topic and the committed offset are
        not checked.
        """
        try:
            newcomer = Client(self._address, self._offered)
        except LOST as error:
            return Trouble(CRASH, f"a new connection: {error}")
        try:
            with newcomer:
                newcomer.ask_in(ApiVersionsRequest(), 0)
            return self._failed_heartbeat() or (None if is_topic_changed else self._changed_topic())
        except (*LOST, WireError) as error:
            return Trouble(HARM, f"a healthy client: {error}")

    def _failed_heartbeat(self) -> Trouble | None:
        beat = HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._member_id)
        code = self._client.ask(beat, 12).error_code
        if code:
            return Trouble(HARM, f"the heartbeat of the healthy member failed with {_named(code)}")
        return None

    def _changed_topic(self) -> Trouble | None:
        topic = OffsetFetchRequest.Topic(name=self._names.topic, partition_indexes=[0])
        fetched = self._client.ask(OffsetFetchRequest(group_id=self._group, topics=[topic]), 9, most=7)
        offset = fetched.topics[0].partitions[0].committed_offset if fetched.topics else None
        if offset != OFFSET:
            return Trouble(HARM, f"the committed offset of the healthy group changed from {OFFSET} to {offset}")
        partitions = _partitions(self._client, self._names)
        if partitions != PARTITIONS:
            return Trouble(HARM, f"the topic of the healthy group had {PARTITIONS} partitions, now it has {partitions}")
        return None

    def leave(self) -> None:
        """Send LeaveGroup for the member of the control group, and close its connection."""
        with suppress(*LOST, WireError, BrokerError):
            self._client.ask(LeaveGroupRequest(group_id=self._group, member_id=self._member_id), 13, most=2)
        self._client.close()


class Fuzzer:
    """A fuzzing run against one broker.

    The requests depend only on the seed, on the versions that the broker supports, and on the responses of the broker.

    Args:
        address: host and port of the broker.
        seed: seed of the random choices.
        api: key of the only API to mutate; None for all APIs.

    Attributes:
        counts: number of test cases (key ``cases``), and number of malformed requests by outcome: ``answered``,
            ``closed`` or ``silent``.
        errors: number of malformed requests by name of the error code in the response.
        findings: number of findings so far.
        offered: versions that the broker supports, by API key.

    Raises: BrokerError if the broker cannot be fuzzed.
    """

    def __init__(self, address: Address, seed: int = 0, api: int | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.findings = 0
        self._address = address
        self._seed = seed
        self._api = api
        self._stopped_by: Exception | None = None
        self._similar: Counter[str] = Counter()
        self._counting = True
        self._is_topic_changed = False  # by a request of the current test case
        try:
            self.offered = self._ask_versions()
            if api is not None and api not in shared(self.offered):
                raise BrokerError(f"the broker and kwire have no common version of {APIS[api].name}")
            self._names, self._healthy = self._new_healthy()
        except (*LOST, WireError, UnicodeError) as error:
            raise BrokerError(f"cannot prepare {address[0]}:{address[1]} for fuzzing: {_reason(error)}") from error

    def _ask_versions(self) -> dict[int, range]:
        with Client(self._address, {}) as client:
            answer = client.ask_in(ApiVersionsRequest(), 0)
        return {one.api_key: range(one.min_version, one.max_version + 1) for one in answer.api_keys}

    def _new_healthy(self) -> tuple[Names, Healthy]:
        """Create a topic and a control group with new names. Return the names and the group.

        Raises: BrokerError, OSError or WireError if that is not possible.
        """
        names = self._prepare(Names(secrets.token_hex(NONCE // 2)))
        return names, Healthy(self._address, self.offered, names, names.healthy)

    def _prepare(self, names: Names) -> Names:
        """Create the topic of the run. Return ``names`` with the topic id that the broker has assigned.

        Raises: BrokerError if the topic is not created in time, or if the broker does not support a required API.
        """
        with Client(self._address, self.offered) as client:
            topic = CreateTopicsRequest.Topic(name=names.topic, num_partitions=PARTITIONS, replication_factor=1)
            client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 19)
            until = time.monotonic() + STEADY
            while _partitions(client, names) != PARTITIONS:
                if time.monotonic() > until:
                    raise BrokerError(f"topic {names.topic} was not created within {STEADY:g} s")
            metadata = client.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=names.topic)]), 3)
        return replace(names, topic_id=metadata.topics[0].topic_id)

    def close(self) -> None:
        """Let the member of the control group leave, and delete the topic of the run."""
        self._healthy.leave()
        with suppress(*LOST, WireError, BrokerError), Client(self._address, self.offered) as client:
            names = [self._names.topic]
            client.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=10_000), 20, most=5)

    def run(self, cases: Sequence[int] | range) -> Iterator[Finding | None]:
        """Run test cases. Stop after the case in which the broker crashed.

        Args:
            cases: numbers of the test cases.

        Yields: for each case a Finding, or None if the broker survived.

        Raises: BrokerError if the control group was affected and cannot be set up again.
        """
        for case in cases:
            chance = Random(f"{self._seed}-{case}")  # noqa: S311 - not for secrets
            names = self._names  # those of the run change if the control group is set up again
            session = Session(chance, names, case, self.offered, self._api)
            trouble = self._play(session)
            self.counts["cases"] += 1
            if trouble is None:
                yield None
                continue
            self.findings += 1
            steps = self._shrunk(tuple(session.steps), names, trouble.kind)
            yield Finding(trouble.kind, trouble.detail, self._seed, case, names, steps)
            if trouble.kind == CRASH:
                return
            if self._stopped_by is not None:
                raise BrokerError(
                    f"cannot continue after case {case}: {_reason(self._stopped_by)}"
                ) from self._stopped_by

    def replay(self, finding: Finding) -> Trouble | None:
        """Send the requests of a finding again. Return the failure; None if the broker did not fail this time."""
        return self._play(Recorded(finding.steps, finding.names, self._names))

    def _shrunk(self, steps: tuple[Step, ...], names: Names, kind: str) -> tuple[Step, ...]:
        category = f"{kind} {steps[-1].what.partition(' ')[0]}" if steps else kind
        self._similar[category] += 1
        if kind == CRASH or self._similar[category] > SIMILAR:
            return steps
        until = time.monotonic() + TRYING
        number = 0

        def holds(smaller: Sequence[Step]) -> bool:
            nonlocal number
            if time.monotonic() > until or self._stopped_by is not None:
                return False
            number += 1
            now = replace(self._names, nonce=f"{self._names.nonce[:4]}{number:04x}")  # a group without earlier members
            trouble = self._play(Recorded(smaller, names, now))
            return trouble is not None and trouble.kind == kind

        self._counting = False
        try:
            return shrink(steps, holds, TRIES)
        finally:
            self._counting = True

    def _play(self, script: Script) -> Trouble | None:
        """Send the requests of one test case, then check the broker. Return the failure; None if the broker did not
        fail.

        If the control group was affected, or its topic was changed, set both up again.
        """
        trouble = None
        self._is_topic_changed = False
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
        after = self._healthy.trouble(is_topic_changed=self._is_topic_changed)
        is_harmed = after is not None and after.kind != CRASH
        if is_harmed or (after is None and self._is_topic_changed):
            self._recover()
        return after or trouble

    def _recover(self) -> None:
        """Set up a control group with a new topic, because a request may have deleted or changed the earlier one."""
        self.close()
        try:
            self._names, self._healthy = self._new_healthy()
        except (*LOST, WireError, BrokerError) as error:
            self._stopped_by = error

    def _exchange(self, wire: Wire, step: Step) -> Response | Trouble | bool | None:
        """Send a request and receive its response.

        Returns: the response; a Trouble if the broker failed; True if a response arrived, but its API is not among the
        APIs that both broker and kwire support; None if no further request can be sent on this connection.
        """
        limit = due(step.data, self.offered)
        wire.send(step.data)
        try:
            frame = wire.receive(MOMENT if limit == math.inf else limit)
        except WireError as error:
            return Trouble(UNREADABLE, f"{step.what}: {error}")
        if frame is None:
            self._count(step, "silent")
            return None if limit == math.inf else Trouble(HANG, f"{step.what}: no response within {limit:g} s")
        if not frame:
            self._count(step, "closed")
            return None
        self._count(step, "answered")
        return self._read(step, frame)

    def _read(self, step: Step, frame: bytes) -> Response | Trouble | bool | None:
        sent = step.data[4:]
        if frame[:4] != sent[4:8]:
            return Trouble(CORRELATION, f"{step.what}: sent correlation id {sent[4:8].hex()}, got {frame[:4].hex()}")
        key, version = struct.unpack_from(">hh", sent)
        if key not in shared(self.offered):
            return True
        try:
            response = decode_response(frame, key, version)
        except WireError as error:
            return Trouble(UNREADABLE, f"{step.what}: {error}")
        if response.trailing:
            return Trouble(UNREADABLE, f"{step.what}: {len(response.trailing)} trailing bytes after the response")
        self._is_topic_changed |= _changes_topic(response.body, self._names)
        code = getattr(response.body, "error_code", None)
        if step.broken and self._counting and code is not None:
            self.errors[_named(code)] += 1
        whole = struct.unpack_from(">i", step.data)[0] == len(sent)
        return response if whole else None

    def _count(self, step: Step, outcome: str) -> None:
        if step.broken and self._counting:
            self.counts[outcome] += 1


def _changes_topic(response: Any, names: Names) -> bool:
    """Return whether a broker confirms in a response that it deletes the topic of the run, or adds partitions to it.

    Args:
        response: body of a response.
        names: names of the run.
    """
    results: Sequence[Any] = ()
    if isinstance(response, DeleteTopicsResponse):
        results = response.responses
    elif isinstance(response, CreatePartitionsResponse):
        results = response.results
    return any(
        one.error_code in CHANGED and (one.name == names.topic or getattr(one, "topic_id", None) == names.topic_id)
        for one in results
    )


def _partitions(client: Client, names: Names) -> int:
    """Return the number of partitions of the run's topic that have a leader.

    Args:
        client: client that sends the Metadata request.
        names: names of the run.
    """
    answer = client.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=names.topic)]), 3)
    return sum(partition.leader_id >= 0 for topic in answer.topics for partition in topic.partitions)


def _reason(error: Exception) -> str:
    """Return the text of an error of a connection, in a message."""
    if isinstance(error, UnicodeError):  # from the encoding of the host name for DNS
        return "the host name is not valid"
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _named(code: int) -> str:
    return ErrorCode(code).name if code in tuple(ErrorCode) else f"error {code}"
