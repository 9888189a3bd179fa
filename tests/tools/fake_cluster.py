"""A fake Kafka cluster for a consumer's engine, without trio and sockets, in virtual time.

The engine sends bytes through its real Link. The cluster decodes them to requests, and returns responses as bytes. A
request whose response does not depend on the test is answered at once; every other request is pending until the test
answers it. Responses of one connection are sent in the order of its requests, as by a broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from uuid import UUID, uuid5

from kwire import ErrorCode
from kwire.assignors import Assignment, Subscription, write_assignment, write_subscription
from kwire.blobs import encode_stored
from kwire.envelope import decode_request, encode_response
from kwire.frames import FrameBuffer, pack
from kwire.messages import APIS
from kwire.messages.api_versions import ApiVersionsResponse
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kwire.messages.find_coordinator import FindCoordinatorResponse
from kwire.messages.heartbeat import HeartbeatResponse
from kwire.messages.join_group import JoinGroupResponse
from kwire.messages.leave_group import LeaveGroupResponse
from kwire.messages.metadata import MetadataResponse
from kwire.messages.offset_commit import OffsetCommitResponse
from kwire.messages.offset_fetch import OffsetFetchResponse
from kwire.messages.sync_group import SyncGroupResponse
from mockbroker.client.committing import Commit
from mockbroker.client.engine import Engine
from mockbroker.client.link import Link, LinkState
from mockbroker.client.positions import OffsetAndMetadata
from mockbroker.client.settings import ConsumerSettings

BOOTSTRAP_PORT = 9_000  # node n listens on this port + n
WALL_MS = 1_700_000_000_000  # the time of the engine's clock
COMMITTED_OFFSET = 7  # of every partition, unless a test or a commit sets another
TURNS_PER_MOMENT = 1_000  # maximum number of turns of an engine at one moment; more would be an endless loop
TopicPartition = tuple[str, int]
ERROR_RESPONSES: dict[str, Any] = {
    "JoinGroup": JoinGroupResponse,
    "SyncGroup": SyncGroupResponse,
    "Heartbeat": HeartbeatResponse,
    "LeaveGroup": LeaveGroupResponse,
    "ConsumerGroupHeartbeat": ConsumerGroupHeartbeatResponse,
}


@dataclass(eq=False)
class ReceivedRequest:
    """A request that a node has received.

    ``answer``: body of the response, None if it is pending; ``done``: whether the response was sent.
    """

    at: float
    link: Link
    version: int
    correlation_id: int
    body: Any
    answer: Any = None
    done: bool = False

    @property
    def api(self) -> str:
        return type(self.body).__name__.removesuffix("Request")

    @property
    def node(self) -> int:
        return self.link.port - BOOTSTRAP_PORT


class FakeCluster:
    """Brokers of a test, and the engine of one consumer.

    ``topics``: number of partitions by topic; ``nodes``: node ids, which lead the partitions in turn unless ``leaders``
    has another leader; ``served``: versions of an API by its name, (0, -1) if it is not served.
    ``answers``: by API, a function for the responses that nodes send without the test; a request whose API has no
    function, or whose function returns None, is pending.
    ``listener_calls``: calls of the rebalance listener; ``listener_raises``: exceptions that it raises.
    ``down``: nodes that refuse connections; the bootstrap address is node 0.
    ``user_polls``: whether the user polls whenever a node answers.
    """

    user_polls = True

    def __init__(
        self,
        *,
        group: str | None = "g",
        topics: Mapping[str, int] | None = None,
        nodes: Iterable[int] = (1, 2, 3),
        coordinator: int | None = None,
        served: Mapping[str, tuple[int, int]] | None = None,
        **settings: Any,
    ) -> None:
        settings.setdefault("enable_auto_commit", False)
        self.topics = dict(topics or {"t": 3})
        self.topic_ids: dict[str, UUID] = {}  # if different from that of ``topic_id``
        self.nodes = list(nodes)
        self.coordinator = self.nodes[0] if coordinator is None else coordinator
        self.leaders: dict[TopicPartition, int] = {}
        self.leader_epochs: dict[TopicPartition, int] = {}
        self.racks: dict[int, str] = {}
        self.served: dict[str, tuple[int, Any]] = {
            APIS[key].name: (a.versions.first, a.versions.last) for key, a in APIS.items()
        } | dict(served or {})
        self.committed: dict[TopicPartition, int] = {}
        self.default_committed = COMMITTED_OFFSET
        self.engine = Engine(
            [("boot", BOOTSTRAP_PORT)],
            group,
            ConsumerSettings(**settings),
            jitter=lambda: 0.5,
            wall_clock_ms=lambda: WALL_MS,
            member_id="uuid",
        )
        self.listener_calls: list[tuple[str, list[str]]] = []
        self.listener_call_times: list[float] = []
        self.listener_raises: dict[str, Exception] = {}
        self.on_listener_call: Callable[[str], None] = lambda _: None
        self._in_listener = False
        self.requests: list[ReceivedRequest] = []
        self.down: set[int] = set()
        self.answers: dict[str, Callable[[ReceivedRequest], Any]] = {
            "ApiVersions": self.api_versions,
            "Metadata": self.metadata,
            "FindCoordinator": self.find_coordinator,
            "OffsetFetch": self.offset_fetch,
        }
        self.links: list[Link] = []
        self._connections: dict[Link, tuple[FrameBuffer, deque[ReceivedRequest]]] = {}

    @property
    def now(self) -> float:
        return self.engine.clock.now

    @property
    def member(self) -> Any:
        return self.engine.member

    @property
    def assigned(self) -> list[str]:
        return named(self.engine.positions)

    # --- time and bytes ---

    def settle(self, *, polling: bool = False) -> None:
        """Run the engine until nothing more happens at this moment."""
        for _ in range(TURNS_PER_MOMENT):
            self.engine.advance(polling=polling)
            moved = self._carry_bytes() | self._call_listener()
            if not moved and self.engine.next_deadline() > self.now:
                return
        raise AssertionError(f"it never comes to rest, for {self._overdue()}: its driver would spin")

    def _overdue(self) -> list[str]:
        engine = self.engine
        parts: list[Any] = [
            engine.network,
            engine.metadata,
            engine.committer,
            engine.resolver,
            engine.fetcher,
            engine.coordinator,
        ]
        return [type(part).__name__ for part in [*parts, engine.member] if part and part.next_deadline() <= self.now]

    def _call_listener(self) -> bool:
        call = self.engine.listener_call
        if call is None or self._in_listener:
            return False
        self.listener_calls.append((call.kind, named(call.partitions)))
        self.listener_call_times.append(self.now)
        self._in_listener = True
        self.on_listener_call(call.kind)
        self._in_listener = False
        if self.engine.listener_call is call:
            self.engine.listener_returned(self.listener_raises.pop(call.kind, None))
        return True

    def poll(self) -> None:
        """Poll the engine once, as Consumer.poll does with a timeout of 0."""
        self.engine.record_poll()
        self.engine.auto_commit()
        self.settle(polling=True)

    def wait(self, seconds: float, *, polling: bool = False) -> None:
        """Advance the time, and process all events that become due. ``polling``: whether the application polls."""
        end = self.now + seconds
        for _ in range(100_000):
            at = min(self.engine.next_deadline(), end)
            if polling:
                at = min(at, max(self.engine.auto_commit_at, self.now))
            self.engine.clock.now = max(at, self.now)
            if polling:
                self.poll()
            else:
                self.settle()
            if self.now >= end:
                return
        raise AssertionError("time does not pass")

    def wait_for(self, api: str, *, within: float = 60.0, polling: bool = True) -> ReceivedRequest:
        """Advance the time until a request of an API is pending."""
        end = self.now + within
        while not self.pending(api):
            at = min(self.engine.next_deadline(), self.engine.auto_commit_at if polling else end, end)
            assert at < end or self.now < end, f"no {api} within {within} s"
            self.wait(max(at - self.now, 0.0), polling=polling)
        return self.request(api)

    def _carry_bytes(self) -> bool:
        network, moved = self.engine.network, False
        while network.to_open:
            link = network.to_open.pop(0)
            moved = True
            self.links.append(link)
            if link.port - BOOTSTRAP_PORT in self.down:
                link.close("refused")
            else:
                self._connections[link] = FrameBuffer(), deque()
                link.opened()
        for link, (frames, _) in list(self._connections.items()):
            if link.state is LinkState.CLOSED:
                del self._connections[link]
                continue
            data, link.outgoing = b"".join(link.outgoing), []
            frames.feed(data)
            while link in self._connections and (frame := frames.next_frame()) is not None:
                moved = True
                self._receive(link, frame)
        return moved

    def _receive(self, link: Link, frame: bytes) -> None:
        decoded = decode_request(frame, strict=True)
        request = ReceivedRequest(self.now, link, decoded.version, decoded.header.correlation_id, decoded.body)
        self.requests.append(request)
        self._connections[link][1].append(request)
        self._send_answers(link)

    def _send_answers(self, link: Link) -> None:
        """Send the responses that are known, up to the first pending request of each connection."""
        while link.state is not LinkState.CLOSED and link in self._connections:
            waiting = self._connections[link][1]
            if not waiting:
                return
            request = waiting[0]
            if request.answer is None and request.api in self.answers:
                request.answer = self.answers[request.api](request)
            if request.answer is None:
                return
            waiting.popleft()
            request.done = True
            frame = encode_response(request.answer, request.version, correlation_id=request.correlation_id)
            link.received(pack(frame), self.now)

    # --- requests, and responses of the test ---

    def pending(self, *apis: str) -> list[ReceivedRequest]:
        """Return the pending requests of some APIs on open connections; of all APIs if none is given."""
        return [
            one
            for one in self.requests
            if one.answer is None and one.link.state is not LinkState.CLOSED and (not apis or one.api in apis)
        ]

    def request(self, api: str) -> ReceivedRequest:
        """Return the only pending request of an API."""
        (request,) = self.pending(api)
        return request

    def of(self, api: str) -> list[ReceivedRequest]:
        """Return all requests of an API that were received so far."""
        return [one for one in self.requests if one.api == api]

    def count(self, api: str) -> int:
        return len(self.of(api))

    def last(self, api: str) -> Any:
        """Return the body of the last request of an API."""
        return self.of(api)[-1].body

    def hold(self, *apis: str) -> None:
        """Leave later requests of these APIs pending."""
        for api in apis:
            self.answers.pop(api, None)

    def answer(self, request: ReceivedRequest | str, body: Any, *, polling: bool | None = None) -> None:
        """Answer a request, or the only pending request of an API, and run the engine."""
        request = self.request(request) if isinstance(request, str) else request
        assert request.answer is None, "answered twice"
        request.answer = body
        self._send_answers(request.link)
        self._go_on(polling)

    def cut(self, link: Link, *, polling: bool | None = None) -> None:
        """End a connection."""
        link.closed()
        self._go_on(polling)

    def hang_up(self, node: int) -> None:
        """End all connections to a node."""
        for link in self._connections:
            if link.port - BOOTSTRAP_PORT == node:
                link.closed()
        self.settle()

    def _go_on(self, polling: bool | None) -> None:
        if self.user_polls if polling is None else polling:
            self.poll()
        else:
            self.settle()

    def group_link(self) -> Link:
        """Return the connection to the coordinator."""
        node = self.engine.coordinator.node
        assert node is not None
        assert node.link is not None
        return node.link

    # --- responses that nodes send without the test ---

    def api_versions(self, _: ReceivedRequest) -> ApiVersionsResponse:
        keys = {api.name: key for key, api in APIS.items()}
        listed = [
            ApiVersionsResponse.ApiVersion(api_key=keys[name], min_version=first, max_version=last)
            for name, (first, last) in self.served.items()
            if first <= last
        ]
        return ApiVersionsResponse(api_keys=listed)

    def metadata(self, request: ReceivedRequest, *, errors: Mapping[str, int] | None = None) -> MetadataResponse:
        """Return a Metadata response. ``errors``: error codes by topic."""
        wanted = request.body.topics
        names = sorted(self.topics) if wanted is None else [topic.name for topic in wanted]
        broker = MetadataResponse.Broker
        return MetadataResponse(
            brokers=[
                broker(node_id=node, host=f"node{node}", port=BOOTSTRAP_PORT + node, rack=self.racks.get(node))
                for node in self.nodes
            ],
            topics=[self._topic(name, (errors or {}).get(name, 0)) for name in names],
        )

    def _topic(self, name: str, error: int) -> MetadataResponse.Topic:
        count = self.topics.get(name)
        if error or count is None:
            return MetadataResponse.Topic(name=name, error_code=error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return MetadataResponse.Topic(
            name=name,
            topic_id=self.topic_id(name),
            is_internal=name.startswith("__"),
            partitions=[self._partition(name, index) for index in range(count)],
        )

    def _partition(self, topic: str, index: int) -> MetadataResponse.Topic.Partition:
        leader = self.leaders.get((topic, index), self.nodes[index % len(self.nodes)])
        return MetadataResponse.Topic.Partition(
            partition_index=index,
            leader_id=leader,
            leader_epoch=self.leader_epochs.get((topic, index), -1),
            replica_nodes=[leader],
            isr_nodes=[leader],
        )

    def topic_id(self, name: str) -> UUID:
        return self.topic_ids.get(name, topic_id(name))

    def topic_name(self, topic_id: UUID) -> str:
        """Return the topic of an id; an empty name if there is none."""
        return next((name for name in self.topics if self.topic_id(name) == topic_id), "")

    def find_coordinator(self, request: ReceivedRequest, error: int = 0) -> FindCoordinatorResponse:
        node: dict[str, Any] = {
            "node_id": self.coordinator,
            "host": f"node{self.coordinator}",
            "port": BOOTSTRAP_PORT + self.coordinator,
            "error_code": error,
        }
        if request.version < 4:
            return FindCoordinatorResponse(**node)
        coordinators = [FindCoordinatorResponse.Coordinator(key=key, **node) for key in request.body.coordinator_keys]
        return FindCoordinatorResponse(coordinators=coordinators)

    def offset_fetch(
        self, request: ReceivedRequest, *, error: int = 0, of: TopicPartition | None = None
    ) -> OffsetFetchResponse:
        """Return an OffsetFetch response. ``error``: error of the group, or of the partition ``of``."""
        one_group = request.version < 8
        requested = request.body.topics if one_group else request.body.groups[0].topics
        topics = [self._fetched_offsets(request, topic, error if of else 0, of) for topic in requested]
        code = 0 if of else error
        if one_group:
            return OffsetFetchResponse(topics=topics, error_code=code)
        group = OffsetFetchResponse.Group(group_id=request.body.groups[0].group_id, topics=topics, error_code=code)
        return OffsetFetchResponse(groups=[group])

    def _fetched_offsets(self, request: ReceivedRequest, topic: Any, error: int, of: TopicPartition | None) -> Any:
        kind: Any = OffsetFetchResponse.Topic if request.version < 8 else OffsetFetchResponse.Group.Topic
        by_id = request.version >= 10
        name = self.topic_name(topic.topic_id) if by_id else topic.name
        results = [
            kind.Partition(
                partition_index=index,
                committed_offset=self.committed.get((name, index), self.default_committed),
                metadata="",
                error_code=error if of == (name, index) else 0,
            )
            for index in topic.partition_indexes
        ]
        return kind(partitions=results, **({"topic_id": topic.topic_id} if by_id else {"name": name}))

    # --- responses to a member of a classic group ---

    def answer_join(
        self,
        generation: int = 1,
        *,
        member_id: str = "me",
        members: Mapping[str, Sequence[str]] | None = None,
        polling: bool = True,
        **fields: Any,
    ) -> None:
        """Answer the pending JoinGroup. ``members``: topics of each member, if this member is the leader."""
        listed = [
            JoinGroupResponse.Member(
                member_id=name, metadata=encode_stored(write_subscription(Subscription(list(topics))), 3)
            )
            for name, topics in (members or {}).items()
        ]
        values: dict[str, Any] = {
            "generation_id": generation,
            "protocol_type": "consumer",
            "protocol_name": self.last("JoinGroup").protocols[0].name,
            "leader": member_id if members else "other",
            "member_id": member_id,
            "members": listed,
        }
        request = self.request("JoinGroup")
        if request.version < 7:
            values.pop("protocol_type")
        self.answer(request, JoinGroupResponse(**(values | fields)), polling=polling)

    def answer_sync(self, share: Sequence[TopicPartition] | bytes, *, polling: bool = True, **fields: Any) -> None:
        """Answer the pending SyncGroup with an assignment."""
        blob = share if isinstance(share, bytes) else encode_stored(write_assignment(Assignment(share)), 3)
        request = self.request("SyncGroup")
        values: dict[str, Any] = {"assignment": blob}
        if request.version >= 5:
            values |= {"protocol_type": "consumer", "protocol_name": request.body.protocol_name}
        self.answer(request, SyncGroupResponse(**(values | fields)), polling=polling)

    def make_stable(
        self,
        share: Sequence[TopicPartition] = (("t", 0),),
        *,
        generation: int = 1,
        members: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Answer JoinGroup and SyncGroup, so that the consumer is a member with this assignment."""
        self.poll()
        self.answer_join(generation, members=members)
        self.answer_sync(share)
        assert self.assigned == named(share)

    def answer_error(self, api: str, error: int, *, polling: bool = True, **fields: Any) -> None:
        """Answer the pending request of an API with an error."""
        request = self.request(api)
        if api == "FindCoordinator":
            self.answer(request, self.find_coordinator(request, error), polling=polling)
        elif api == "OffsetCommit":
            self.answer_commit(error, polling=polling)
        else:
            self.answer(request, ERROR_RESPONSES[api](error_code=error, **fields), polling=polling)

    def answer_heartbeat(self, error: int = 0, *, polling: bool = True) -> None:
        """Answer the pending Heartbeat."""
        self.answer_error("Heartbeat", error, polling=polling)

    # --- commits ---

    def commit(self, offsets: Mapping[TopicPartition, int], *, retried: bool = True, timeout: float = 60.0) -> Commit:
        """Begin a commit of these offsets, as Consumer.commit does; return it."""
        at = {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}
        commit = self.engine.committer.commit(at, timeout, retried=retried)
        self.settle()
        return commit

    def answer_commit(self, error: int = 0, *, polling: bool = True, request: ReceivedRequest | None = None) -> None:
        """Answer the pending OffsetCommit, with this error for every partition."""
        request = request or self.request("OffsetCommit")
        self.answer(request, self.offset_commit(request, error), polling=polling)

    def offset_commit(self, request: ReceivedRequest, error: int = 0) -> OffsetCommitResponse:
        kind = OffsetCommitResponse.Topic
        return OffsetCommitResponse(
            topics=[
                kind(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        kind.Partition(partition_index=each.partition_index, error_code=error)
                        for each in topic.partitions
                    ],
                )
                for topic in request.body.topics
            ]
        )

    # --- responses to a member of the consumer protocol ---

    def answer_consumer_heartbeat(
        self,
        epoch: int,
        share: Sequence[TopicPartition] | None = None,
        *,
        interval: int = 5000,
        polling: bool = True,
        error: int = 0,
    ) -> None:
        """Answer the pending ConsumerGroupHeartbeat; ``share``: the assignment, None if it is unchanged."""
        response = ConsumerGroupHeartbeatResponse
        assignment = None
        if share is not None:
            parts = [
                response.Assignment.TopicPartition(topic_id=topic_id(name), partitions=[number for _, number in ps])
                for name, ps in groupby(share, lambda partition: partition[0])
            ]
            assignment = response.Assignment(topic_partitions=parts)
        body = response(
            error_code=error,
            member_id=None if error else "uuid",
            member_epoch=epoch,
            heartbeat_interval_ms=interval,
            assignment=assignment,
        )
        self.answer("ConsumerGroupHeartbeat", body, polling=polling)


def named(partitions: Iterable[TopicPartition]) -> list[str]:
    return [f"{topic}{index}" for topic, index in partitions]


def topic_id(name: str) -> UUID:
    """Return the default id of a topic."""
    return uuid5(UUID(int=0), name)
