"""A consumer's engine without trio, and pretend nodes that answer when and what a test says. Time is a number.

Requests are read from the bytes that the engine wants sent, and answers go in as bytes: the real Link is between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from uuid import UUID, uuid5

from kwire import ErrorCode
from kwire.assignors import Assignment, Subscription, write_assignment, write_subscription
from kwire.blobs import encode_stored
from kwire.envelope import decode_request
from kwire.envelope import encode_response as encode_answer
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
from mockbroker.client.settings import Settings

BOOTSTRAP = 9000  # its port; that of node n is 9000 + n
MOVES = 500  # that an engine makes at one moment, at most: more are an endless loop
Share = Sequence[tuple[str, int]]


@dataclass(eq=False)
class Asked:
    """A request that came to a node, at a time; ``link``: over which it came."""

    at: float
    link: Link
    version: int
    correlation_id: int
    body: Any
    done: bool = False

    @property
    def api(self) -> str:
        return type(self.body).__name__.removesuffix("Request")

    @property
    def port(self) -> int:
        return self.link.port


class Nodes:
    """``topics``: names to partitions; ``served``: versions of an API by its name, (0, -1) for none of them.

    ``told``: what the listener heard, with the time; ``raises``: what it raises when it hears that.
    ``answers``: by API, what nodes answer by themselves; None leaves the request open for the test to answer.
    ``refused``: ports that cannot be connected to.
    """

    def __init__(
        self,
        *,
        group: str | None = "g",
        topics: Mapping[str, int] | None = None,
        nodes: Iterable[int] = (1, 2, 3),
        coordinator: int = 1,
        served: Mapping[str, tuple[int, int]] | None = None,
        **settings: Any,
    ) -> None:
        settings.setdefault("enable_auto_commit", False)
        self.topics = dict(topics or {"t": 3})
        self.nodes, self.coordinator = list(nodes), coordinator
        self.racks: dict[int, str] = {}
        self.served: dict[str, tuple[int, Any]] = {
            APIS[key].name: (a.versions.first, a.versions.last) for key, a in APIS.items()
        } | dict(served or {})
        self.engine = Engine(
            [("boot", BOOTSTRAP)], group, Settings(**settings), chance=lambda: 0.5, wall_ms=lambda: 0, member_id="uuid"
        )
        self.told: list[tuple[str, list[str]]] = []
        self.told_at: list[float] = []
        self.raises: dict[str, Exception] = {}
        self.hears: Callable[[str], None] = lambda _: None
        self._telling = False
        self.seen: list[Asked] = []
        self.refused: set[int] = set()
        self.silent: set[int] = set()  # ports that take connections and never say anything
        self.answers: dict[str, Callable[[Asked], Any]] = {
            "ApiVersions": self.api_versions,
            "Metadata": self.metadata,
            "FindCoordinator": self.found,
            "OffsetFetch": self.fetched,
        }
        self._frames: dict[Link, FrameBuffer] = {}
        self.links: list[Link] = []

    @property
    def now(self) -> float:
        return self.engine.time.now

    @property
    def member(self) -> Any:
        return self.engine.member

    @property
    def assigned(self) -> list[str]:
        return [f"{topic}{number}" for topic, number in self.engine.positions]

    # How it moves

    def settle(self, *, polling: bool = False) -> None:
        """Until nothing moves any more at this moment."""
        for _ in range(MOVES):
            self.engine.advance(polling=polling)
            moved = self._carry()
            if (tell := self.engine.listener_call) and not self._telling:
                self.told.append((tell.what, [f"{topic}{number}" for topic, number in tell.partitions]))
                self.told_at.append(self.now)
                self._telling = True
                self.hears(tell.what)
                self._telling = False
                if self.engine.listener_call is tell:
                    self.engine.listener_returned(self.raises.pop(tell.what, None))
                moved = True
            if not moved and self.engine.due() > self.now:
                break
        else:
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
        return [type(part).__name__ for part in [*parts, engine.member] if part and part.due() <= self.now]

    def poll(self) -> None:
        """What a user's poll does that does not wait."""
        self.engine.polled()
        self.engine.auto_commit()
        self.settle(polling=True)

    def wait(self, seconds: float, *, polling: bool = False) -> None:
        """Time passes, and what is due happens when it is. ``polling``: inside a poll, else the user is busy."""
        end = self.now + seconds
        for _ in range(100_000):
            at = min(self.engine.due(), end)
            if polling:
                at = min(at, max(self.engine.auto_commit_at, self.now))
            self.engine.time.now = max(at, self.now)
            if polling:
                self.poll()
            else:
                self.settle()
            if self.now >= end:
                return
        raise AssertionError("time does not pass")

    def _carry(self) -> bool:
        network, moved = self.engine.network, False
        while network.to_open:
            link = network.to_open.pop()
            moved = True
            self.links.append(link)
            if link.port in self.refused:
                link.close("refused")
            else:
                self._frames[link] = FrameBuffer()
                link.opened()
        for link in list(self._frames):
            if link.state is LinkState.CLOSED:
                del self._frames[link]
                continue
            data, link.outgoing = b"".join(link.outgoing), []
            self._frames[link].feed(data)
            while link in self._frames and (frame := self._frames[link].next_frame()) is not None:
                moved = True
                self._come(link, frame)
        return moved

    def _come(self, link: Link, frame: bytes) -> None:
        request = decode_request(frame, strict=True)
        asked = Asked(self.now, link, request.version, request.header.correlation_id, request.body)
        self.seen.append(asked)
        self._answer_what_goes_by_itself(link)

    def _answer_what_goes_by_itself(self, link: Link) -> None:
        """As far as the order of a connection allows: behind what is open nothing is answered."""
        for asked in self.seen:
            if asked.link is link and not asked.done and link.port not in self.silent:
                own = self.answers.get(asked.api)
                body = own(asked) if own else None
                if body is None:
                    return
                self._say(asked, body)

    def _say(self, asked: Asked, body: Any) -> None:
        assert not asked.done
        asked.done = True
        frame = encode_answer(body, asked.version, correlation_id=asked.correlation_id)
        asked.link.received(pack(frame), self.now)

    # What a test sees and says

    def open(self, api: str) -> list[Asked]:
        """Requests without an answer, over connections that are there."""
        return [one for one in self.seen if one.api == api and not one.done and one.link.state is not LinkState.CLOSED]

    def one(self, api: str) -> Asked:
        """The only open request of this kind."""
        (found,) = self.open(api)
        return found

    def count(self, api: str) -> int:
        return sum(one.api == api for one in self.seen)

    def last(self, api: str) -> Any:
        """The body of the newest request of this kind."""
        return [one for one in self.seen if one.api == api][-1].body

    def answer(self, asked: Asked | str, body: Any, *, polling: bool = True) -> None:
        """A node answers, and the engine goes on, inside of a poll or while the user is busy."""
        asked = self.one(asked) if isinstance(asked, str) else asked
        before = [one for one in self.seen if one.link is asked.link and not one.done]
        assert before[0] is asked, f"{before[0].api} is to be answered first"
        self._say(asked, body)
        self._answer_what_goes_by_itself(asked.link)
        self.poll() if polling else self.settle()

    def cut(self, link: Link, *, polling: bool = True) -> None:
        """A connection ends."""
        link.closed()
        self.poll() if polling else self.settle()

    def group_link(self) -> Link:
        """The connection to the coordinator."""
        node = self.engine.coordinator.node
        assert node is not None
        assert node.link is not None
        return node.link

    # What nodes say by themselves

    def api_versions(self, asked: Asked) -> ApiVersionsResponse:
        keys = {api.name: key for key, api in APIS.items()}
        listed = [
            ApiVersionsResponse.ApiVersion(api_key=keys[name], min_version=first, max_version=last)
            for name, (first, last) in self.served.items()
            if first <= last
        ]
        return ApiVersionsResponse(api_keys=listed)

    def metadata(self, asked: Asked, *, errors: Mapping[str, int] | None = None) -> MetadataResponse:
        named = asked.body.topics
        names = self.topics if named is None else [topic.name for topic in named]
        return MetadataResponse(
            brokers=[
                MetadataResponse.Broker(
                    node_id=node, host=f"node{node}", port=BOOTSTRAP + node, rack=self.racks.get(node)
                )
                for node in self.nodes
            ],
            topics=[self.topic(name, (errors or {}).get(name, 0)) for name in names],
        )

    def topic(self, name: str, error: int = 0) -> MetadataResponse.Topic:
        count = self.topics.get(name)
        if error or count is None:
            return MetadataResponse.Topic(name=name, error_code=error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition = MetadataResponse.Topic.Partition
        partitions = [
            partition(partition_index=number, leader_id=leader, replica_nodes=[leader], isr_nodes=[leader])
            for number in range(count)
            for leader in [self.nodes[number % len(self.nodes)]]
        ]
        internal = name.startswith("__")
        return MetadataResponse.Topic(name=name, topic_id=topic_id(name), is_internal=internal, partitions=partitions)

    def found(self, asked: Asked, error: int = 0) -> FindCoordinatorResponse:
        port = BOOTSTRAP + self.coordinator
        if asked.version < 4:
            return FindCoordinatorResponse(
                error_code=error, node_id=self.coordinator, host=f"node{self.coordinator}", port=port
            )
        one = FindCoordinatorResponse.Coordinator(
            key=asked.body.coordinator_keys[0],
            node_id=self.coordinator,
            host=f"node{self.coordinator}",
            port=port,
            error_code=error,
        )
        return FindCoordinatorResponse(coordinators=[one])

    def fetched(self, asked: Asked) -> OffsetFetchResponse:
        if asked.version < 8:
            topics: Any = asked.body.topics
            group: Any = OffsetFetchResponse()
        else:
            topics = asked.body.groups[0].topics
            group = OffsetFetchResponse.Group(group_id="g")
        for topic in topics:
            made = type(group).Topic(name=getattr(topic, "name", ""))
            if asked.version >= 10:
                made.topic_id = topic.topic_id
            made.partitions = [
                type(made).Partition(partition_index=number, committed_offset=7, metadata="")
                for number in topic.partition_indexes
            ]
            group.topics.append(made)
        return group if asked.version < 8 else OffsetFetchResponse(groups=[group])

    # A whole membership

    def committed(self, error: int = 0, *, polling: bool = True, asked: Asked | None = None) -> None:
        """Answer the open OffsetCommit, every partition with this error."""
        asked = asked or self.one("OffsetCommit")
        self.answer(asked, self.stored(asked, error), polling=polling)

    def stored(self, asked: Asked, error: int = 0) -> OffsetCommitResponse:
        topic = OffsetCommitResponse.Topic
        return OffsetCommitResponse(
            topics=[
                topic(
                    name=one.name,
                    topic_id=one.topic_id,
                    partitions=[
                        topic.Partition(partition_index=p.partition_index, error_code=error) for p in one.partitions
                    ],
                )
                for one in asked.body.topics
            ]
        )

    def joined(
        self,
        generation: int = 1,
        *,
        member_id: str = "me",
        members: Mapping[str, Sequence[str]] | None = None,
        polling: bool = True,
        **fields: Any,
    ) -> None:
        """Answer the open JoinGroup; ``members``: what each subscribes to, of a group that this member leads."""
        listed = [
            JoinGroupResponse.Member(
                member_id=name,
                metadata=encode_stored(write_subscription(Subscription(list(topics))), 3),
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
        asked = self.one("JoinGroup")
        if asked.version < 7:
            values.pop("protocol_type")
        self.answer(asked, JoinGroupResponse(**(values | fields)), polling=polling)

    def synced(self, share: Share | bytes, *, polling: bool = True, **fields: Any) -> None:
        """Answer the open SyncGroup."""
        blob = share if isinstance(share, bytes) else encode_stored(write_assignment(Assignment(share)), 3)
        asked = self.one("SyncGroup")
        values: dict[str, Any] = {"assignment": blob}
        if asked.version >= 5:
            values |= {"protocol_type": "consumer", "protocol_name": asked.body.protocol_name}
        self.answer(asked, SyncGroupResponse(**(values | fields)), polling=polling)

    def stable(
        self, share: Share = (("t", 0),), *, generation: int = 1, members: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        """Join and sync: a member with this share."""
        self.poll()
        self.joined(generation, members=members)
        self.synced(share)
        assert self.assigned == [f"{topic}{number}" for topic, number in share]

    def refuse(self, api: str, error: int, *, polling: bool = True, **fields: Any) -> None:
        """Answer the open request of this kind with an error."""
        asked = self.one(api)
        if api == "FindCoordinator":
            self.answer(asked, self.found(asked, error), polling=polling)
        elif api == "OffsetCommit":
            self.committed(error, polling=polling)
        else:
            self.answer(asked, ANSWERS[api](error_code=error, **fields), polling=polling)

    def beat(self, error: int = 0, *, polling: bool = True) -> None:
        """Answer the open Heartbeat."""
        self.refuse("Heartbeat", error, polling=polling)

    def until(self, api: str, *, within: float = 60.0, polling: bool = True) -> Asked:
        """Time passes until such a request is open."""
        end = self.now + within
        while not self.open(api):
            at = min(self.engine.due(), self.engine.auto_commit_at if polling else end, end)
            assert at < end or self.now < end, f"no {api} within {within} s"
            self.wait(max(at - self.now, 0.0), polling=polling)
        return self.one(api)

    def commit(self, offsets: Mapping[tuple[str, int], int], *, retried: bool = True, timeout: float = 60.0) -> Commit:
        """As the user commits."""
        from mockbroker.client.positions import OffsetAndMetadata

        at = {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}
        commit = self.engine.committer.commit(at, timeout, retried=retried)
        self.settle()
        return commit

    # The consumer protocol

    def told_to_own(
        self, epoch: int, share: Share | None = None, *, interval: int = 5000, polling: bool = True, error: int = 0
    ) -> None:
        """Answer the open ConsumerGroupHeartbeat; ``share``: None for unchanged."""
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


def topic_id(name: str) -> UUID:
    return uuid5(UUID(int=0), name)


ANSWERS: dict[str, Any] = {
    "JoinGroup": JoinGroupResponse,
    "SyncGroup": SyncGroupResponse,
    "Heartbeat": HeartbeatResponse,
    "LeaveGroup": LeaveGroupResponse,
    "ConsumerGroupHeartbeat": ConsumerGroupHeartbeatResponse,
}
