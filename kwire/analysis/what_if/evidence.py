"""What calls say that only a replay needs: subscriptions as the leader's assignor takes them, and sizes of topics.

As with events, each depends on its call alone.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from kwire.analysis.clusters import Clusters
from kwire.analysis.events import GroupEvent, split_partition
from kwire.analysis.topics import topic_key
from kwire.apikeys import ApiKey
from kwire.assignors import Partition, Subscription, read_subscription
from kwire.blobs import decode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.capture.calls.model import Call
from kwire.errors import WireError


@dataclass(slots=True, frozen=True)
class Subscribed:
    """What a member subscribed to, in an answer to JoinGroup that names a generation.

    ``place``: in the list that the leader was told, -1 where it is the member's own request.
    """

    ts: int
    group_id: str
    generation: int
    member_id: str
    place: int
    subscription: Subscription


@dataclass(slots=True, frozen=True)
class Size:
    """The partitions of a topic as an answer told them. ``racks``: of the replicas of each; "" where one has none.

    ``client_id`` and ``host``: who was told.
    """

    ts: int
    conn_id: str
    broker: str
    client_id: str | None
    host: str
    topic: str
    racks: tuple[tuple[str, ...], ...]


def subscribed(call: Call) -> Iterator[Subscribed]:
    """Subscriptions of consumers in a JoinGroup that was answered with a generation."""
    request, answer = call.request, call.response
    if (
        call.api_key != ApiKey.JOIN_GROUP
        or request is None
        or answer is None
        or call.response_us is None
        or answer.error_code
    ):
        return
    if request.protocol_type != "consumer":
        return
    told = call.response_us, request.group_id, answer.generation_id
    for place, member in enumerate(answer.members):
        if (found := _subscription(member.metadata, member.group_instance_id)) is not None:
            yield Subscribed(*told, member.member_id, place, found)
    for protocol in request.protocols:
        if protocol.name == answer.protocol_name:
            if (found := _subscription(protocol.metadata, request.group_instance_id)) is not None:
                yield Subscribed(*told, answer.member_id, -1, found)
            return


def _subscription(blob: bytes, instance_id: str | None) -> Subscription | None:
    """Without what the member owned, which a replay knows better."""
    try:
        found, _ = decode_stored(ConsumerProtocolSubscription, blob)
    except WireError:
        return None
    read = read_subscription(found, instance_id)
    return replace(read, user_data=None, owned=(), generation=-1)


def sizes(call: Call) -> Iterator[Size]:
    """What an answer to Metadata tells of the partitions of topics."""
    answer = call.response
    if call.api_key != ApiKey.METADATA or answer is None or call.response_us is None:
        return
    told = call.response_us, call.connection, call.broker, call.client_id, call.client.rpartition(":")[0]
    racks = {node.node_id: node.rack or "" for node in answer.brokers}
    for topic in answer.topics:
        if topic.error_code or not topic.partitions:
            continue
        nodes_of = {one.partition_index: one.replica_nodes for one in topic.partitions}
        listed = {number: tuple(racks.get(node, "") for node in nodes) for number, nodes in nodes_of.items()}
        if max(listed) + 1 != len(listed):
            continue  # some are missing, which no broker tells
        name = topic_key(topic.name, topic.topic_id)
        yield Size(*told, name, tuple(listed[n] for n in sorted(listed)))


def wanted(found: Iterable[Subscribed], events: Iterable[GroupEvent]) -> Iterator[tuple[str, str]]:
    """Groups and the topics whose sizes their replay needs."""
    for one in found:
        yield from ((one.group_id, topic) for topic in one.subscription.topics)
    for event in events:
        yield from ((event.group_id, topic) for topic in event.topics or ())
        if event.event == "assigned":  # of subscriptions by expression
            topics = {split_partition(partition)[0] for partition in event.partitions or ()}
            yield from ((event.group_id, topic) for topic in topics)


Racks = tuple[tuple[str, ...], ...]  # by partition: those of its replicas
Client = tuple[str | None, str | None]  # id and host


class Fresh:
    """Lets those sizes through that are not what the same connection was told last."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], Racks] = {}

    def of(self, found: Iterable[Size]) -> Iterator[Size]:
        for size in found:
            if self._told.get((size.conn_id, size.topic)) != size.racks:
                self._told[size.conn_id, size.topic] = size.racks
                yield size


class Evidence:
    """Finds what is known of a group at a moment. ``names``: of topics by id, as ``id:...``."""

    def __init__(
        self,
        found: Iterable[Subscribed] = (),
        told: Iterable[Size] = (),
        names: Mapping[str, str] | None = None,
        clusters: Clusters | None = None,
    ) -> None:
        where, known = clusters or Clusters(), names or {}
        self._said: dict[tuple[str, str], list[Subscribed]] = defaultdict(list)
        self._said_in: dict[tuple[str, str, int], list[Subscribed]] = defaultdict(list)
        for one in sorted(found, key=lambda one: (one.ts, one.generation, one.place)):
            self._said[one.group_id, one.member_id].append(one)
            self._said_in[one.group_id, one.member_id, one.generation].append(one)
        self._sizes: dict[tuple[str | None, str, Client | None], list[tuple[int, int, Racks]]] = defaultdict(list)
        for size in told:
            about = where.known(size.conn_id, size.broker, size.ts), known.get(size.topic, size.topic)
            for who in (None, (size.client_id, size.host)):
                self._sizes[*about, who].append((size.ts, len(size.racks), size.racks))
        for each in self._sizes.values():
            each.sort()
        self._names = known
        self._ids: dict[str, UUID] | None = None  # made when it is first asked for: few replays need them

    def subscription(self, group_id: str, member_id: str, generation: int, ts: int) -> tuple[int, Subscription] | None:
        """The place in the leader's list, and the subscription: of this generation, else the last before ``ts``."""
        said = [one for one in self._said_in.get((group_id, member_id, generation), ()) if one.ts <= ts]
        if not said:
            every = self._said.get((group_id, member_id), [])
            place = bisect_right(every, ts, key=lambda one: one.ts)
            said = every[max(place - 1, 0) : place]
        best = max(said, key=lambda one: (one.place >= 0, one.ts), default=None)
        return None if best is None else (best.place, best.subscription)

    def partitions(self, cluster: str | None, topic: str, ts: int, leader: Client | None) -> list[Partition]:
        """Those that the leader was told last, at or before ``ts``; brokers of no known cluster tell of any.

        None if it was told only later. Where it never was, as far as was seen, and without one, what anybody was told.
        """
        places = {cluster, None}
        if leader is not None and any((where, topic, leader) in self._sizes for where in places):
            who: Client | None = leader
        else:
            who = None
        found = []
        for where in places:
            told = self._sizes.get((where, topic, who), [])
            place = bisect_right(told, ts, key=lambda one: one[0])
            found += told[max(place - 1, 0) : place]
        if not found:
            return []
        return [Partition(tuple(rack or None for rack in racks)) for racks in max(found)[2]]

    def topic_id(self, topic: str) -> UUID | None:
        """The id of a topic, if an answer told it."""
        if self._ids is None:
            self._ids = {
                name: UUID(bytes=urlsafe_b64decode(key.removeprefix("id:") + "=="))
                for key, name in sorted(self._names.items())
            }
        return self._ids.get(topic)
