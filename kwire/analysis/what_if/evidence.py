"""Evidence for replays of groups: subscriptions as the leader's assignor receives them, and the partitions of topics.

Each subscription and each list of partitions comes from one call, a request with its response.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from uuid import UUID

from kwire.analysis.clusters import Clusters
from kwire.analysis.events import GroupEvent, host_of, split_partition
from kwire.analysis.topics import topic_key
from kwire.apikeys import ApiKey
from kwire.assignors import Partition, Subscription, read_subscription
from kwire.blobs import decode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.capture.calls.model import Call
from kwire.errors import WireError
from kwire.lazy_dataclass import dataclass


@dataclass(slots=True, frozen=True)
class Subscribed:
    """The subscription of a member in a successful JoinGroup.

    Attributes:
        ts: time of the response, in microseconds since 1970.
        group_id: group id.
        generation: generation id in the response.
        member_id: member id.
        place: index of the member in the member list that the leader receives; -1 if the subscription is from the
            request of the member.
        subscription: decoded subscription, without owned partitions.
    """

    ts: int
    group_id: str
    generation: int
    member_id: str
    place: int
    subscription: Subscription


@dataclass(slots=True, frozen=True)
class Size:
    """The partitions of a topic in a Metadata response.

    Attributes:
        ts: time of the response, in microseconds since 1970.
        conn_id: id of the connection.
        broker: ``host:port`` of the broker.
        client_id: client id of the client that received the response; None if it sends none.
        host: address of the client that received the response.
        topic: topic name; if it is unknown, the text ``id:`` followed by the topic id.
        racks: racks of the replicas of each partition, by partition number; "" for a broker without a rack.
    """

    ts: int
    conn_id: str
    broker: str
    client_id: str | None
    host: str
    topic: str
    racks: tuple[tuple[str, ...], ...]


def subscribed(call: Call) -> Iterator[Subscribed]:
    """Yield the subscriptions in a successful JoinGroup of a consumer.

    These are the subscription in the request, and the subscriptions of all members in a response to the leader.

    Yield nothing for all other calls. Subscriptions that cannot be decoded are left out.
    """
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
    common = call.response_us, request.group_id, answer.generation_id
    for place, member in enumerate(answer.members):
        if (subscription := _subscription(member.metadata, member.group_instance_id)) is not None:
            yield Subscribed(*common, member.member_id, place, subscription)
    for protocol in request.protocols:
        if protocol.name == answer.protocol_name:
            if (subscription := _subscription(protocol.metadata, request.group_instance_id)) is not None:
                yield Subscribed(*common, answer.member_id, -1, subscription)
            return


def _subscription(blob: bytes, instance_id: str | None) -> Subscription | None:
    """Return a decoded subscription; None if it cannot be decoded.

    Owned partitions, user data and the generation are removed, because the replay computes these itself.

    Args:
        blob: encoded subscription.
        instance_id: group instance id of a static member; None for a dynamic member.
    """
    try:
        decoded, _ = decode_stored(ConsumerProtocolSubscription, blob)
    except WireError:
        return None
    read = read_subscription(decoded, instance_id)
    return replace(read, user_data=None, owned=(), generation=-1)


def sizes(call: Call) -> Iterator[Size]:
    """Yield the partitions of each topic in a Metadata response; nothing for all other calls.

    Topics with an error or with missing partition numbers are left out.
    """
    answer = call.response
    if call.api_key != ApiKey.METADATA or answer is None or call.response_us is None:
        return
    common = call.response_us, call.connection, call.broker, call.client_id, host_of(call.client)
    racks = {node.node_id: node.rack or "" for node in answer.brokers}
    for topic in answer.topics:
        if topic.error_code or not topic.partitions:
            continue
        nodes_of = {one.partition_index: one.replica_nodes for one in topic.partitions}
        listed = {number: tuple(racks.get(node, "") for node in nodes) for number, nodes in nodes_of.items()}
        if max(listed) + 1 != len(listed):
            continue  # numbers are missing, which no real broker sends
        name = topic_key(topic.name, topic.topic_id)
        yield Size(*common, name, tuple(listed[n] for n in sorted(listed)))


def wanted(subscriptions: Iterable[Subscribed], events: Iterable[GroupEvent]) -> Iterator[tuple[str, str]]:
    """Yield pairs of a group id and a topic: a replay of the group needs the partitions of the topic.

    Args:
        subscriptions: subscriptions in JoinGroup.
        events: group events. They contain the subscriptions and assignments of KIP-848 members.
    """
    for one in subscriptions:
        yield from ((one.group_id, topic) for topic in one.subscription.topics)
    for event in events:
        yield from ((event.group_id, topic) for topic in event.topics or ())
        if event.event == "assigned":  # it names the topics that regular expressions match
            topics = {split_partition(partition)[0] for partition in event.partitions or ()}
            yield from ((event.group_id, topic) for topic in topics)


Racks = tuple[tuple[str, ...], ...]  # racks of the replicas, by partition
Client = tuple[str | None, str | None]  # client id and host


class Fresh:
    """A filter that removes the partitions of a topic if the previous Metadata response has the same partitions.

    The previous response is the latest earlier response with this topic on the same connection. Two lists of partitions
    are the same only if the racks of all replicas are the same, too.
    """

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], Racks] = {}

    def of(self, sizes: Iterable[Size]) -> Iterator[Size]:
        for size in sizes:
            if self._told.get((size.conn_id, size.topic)) != size.racks:
                self._told[size.conn_id, size.topic] = size.racks
                yield size


class Evidence:
    """The subscriptions of groups and the partitions of topics over time.

    Args:
        subscriptions: subscriptions in JoinGroup, in any order.
        sizes: partitions of topics in Metadata responses, in any order.
        names: topic names; a key is the text ``id:`` followed by the topic id. None if no names are known.
        clusters: clusters of the brokers; None if unknown.
    """

    def __init__(
        self,
        subscriptions: Iterable[Subscribed] = (),
        sizes: Iterable[Size] = (),
        names: Mapping[str, str] | None = None,
        clusters: Clusters | None = None,
    ) -> None:
        where, topic_names = clusters or Clusters(), names or {}
        self._said: dict[tuple[str, str], list[Subscribed]] = defaultdict(list)
        self._said_in: dict[tuple[str, str, int], list[Subscribed]] = defaultdict(list)
        for one in sorted(subscriptions, key=lambda one: (one.ts, one.generation, one.place)):
            self._said[one.group_id, one.member_id].append(one)
            self._said_in[one.group_id, one.member_id, one.generation].append(one)
        self._sizes: dict[tuple[str | None, str, Client | None], list[tuple[int, int, Racks]]] = defaultdict(list)
        for size in sizes:
            about = where.id_of(size.conn_id, size.broker, size.ts), topic_names.get(size.topic, size.topic)
            for client in (None, (size.client_id, size.host)):
                self._sizes[*about, client].append((size.ts, len(size.racks), size.racks))
        for each in self._sizes.values():
            each.sort()
        self._names = topic_names
        self._ids: dict[str, UUID] | None = None  # computed on first use: few replays need them

    def subscription(self, group_id: str, member_id: str, generation: int, ts: int) -> tuple[int, Subscription] | None:
        """Return the index of a member in the leader's member list (-1 if unknown), and the subscription of the member.

        This is the subscription that the member had when it joined the generation. If it was not captured, the latest
        subscription of the member is used. The result is None if no subscription was captured.

        Args:
            group_id: group id.
            member_id: member id.
            generation: generation of the group.
            ts: time in microseconds since 1970. Later subscriptions are ignored.
        """
        stated = [one for one in self._said_in.get((group_id, member_id, generation), ()) if one.ts <= ts]
        if not stated:
            every = self._said.get((group_id, member_id), [])
            place = bisect_right(every, ts, key=lambda one: one.ts)
            stated = every[max(place - 1, 0) : place]
        best = max(stated, key=lambda one: (one.place >= 0, one.ts), default=None)
        return None if best is None else (best.place, best.subscription)

    def partitions(self, cluster: str | None, topic: str, ts: int, leader: Client | None) -> list[Partition]:
        """Return the partitions of a topic in the last Metadata response that the leader received up to a time.

        Without a leader, or if no response to the leader with this topic was captured, the last response to any client
        is used. The result is empty if no response was captured up to the time. Responses of brokers whose cluster is
        unknown count for every cluster.

        Args:
            cluster: cluster id; None if unknown.
            topic: topic name.
            ts: time, in microseconds since 1970.
            leader: client id and address of the leader; None without a leader.
        """
        places = {cluster, None}
        if leader is not None and any((where, topic, leader) in self._sizes for where in places):
            client: Client | None = leader
        else:
            client = None
        latest = []
        for where in places:
            sizes = self._sizes.get((where, topic, client), [])
            place = bisect_right(sizes, ts, key=lambda one: one[0])
            latest += sizes[max(place - 1, 0) : place]
        if not latest:
            return []
        return [Partition(tuple(rack or None for rack in racks)) for racks in max(latest)[2]]

    def topic_id(self, topic: str) -> UUID | None:
        """Return the id of a topic; None if no response contains the id."""
        if self._ids is None:
            self._ids = {
                name: UUID(bytes=urlsafe_b64decode(key.removeprefix("id:") + "=="))
                for key, name in sorted(self._names.items())
            }
        return self._ids.get(topic)
