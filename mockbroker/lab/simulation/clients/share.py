"""A member of a share group (KIP-932) in the simulation. It also produces the records that its group reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any
from uuid import UUID

from kwire.apikeys import ApiKey
from kwire.json.objects import uuid_text
from kwire.lazy_dataclass import dataclass
from kwire.messages.produce import ProduceRequest, ProduceResponse
from kwire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kwire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kwire.records.batch import Record, build_batch
from mockbroker.lab.simulation.clients.client import BACKOFF, Client
from mockbroker.lab.simulation.clients.epoch_member import JOINING, LEAVING, LOST
from mockbroker.lab.simulation.clients.reader import NOT_HERE
from mockbroker.lab.simulation.history import Write
from mockbroker.lab.simulation.network import Wire

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
MAX_WAIT_MS = 500
LONGEST_WORK = 4.0  # seconds for which a member processes records; longer than a lock lasts
REPEATED = 0.02  # probability that a fetch has the epoch of the last request, which the broker must refuse
Place = tuple[UUID, int]  # topic id and partition
Batch = tuple[int, int, tuple[int, ...]]  # first offset, last offset, types of acknowledgement


@dataclass(slots=True, eq=False)
class NodeSession:
    """A share session with one broker.

    Attributes:
        wire: the simulated connection to the broker.
        epoch: share session epoch of the next request.
        busy: whether a request is in flight.
        known: partitions of the session.
        waiting: acknowledgements that are not sent yet, as (partition, (first offset, last offset, acknowledgement
            types)).
    """

    wire: Wire
    epoch: int = 0
    busy: bool = False
    known: set[Place] = field(default_factory=set)
    waiting: list[tuple[Place, Batch]] = field(default_factory=list)


class ShareClient(Client):
    """A member of a share group.

    Attributes:
        member_id: member id.
        epoch: member epoch.
        target: assigned partitions, as (topic id, partition).
        sessions: broker id -> share session.
        beating: whether a heartbeat is in flight.
        outlet: connection for Produce; None without a connection.
    """

    def begin(self) -> None:
        self.member_id = uuid_text(self.dice.uuid())
        self.epoch = JOINING
        self.target: frozenset[Place] = frozenset()
        self.sessions: dict[int, NodeSession] = {}
        self.outlet: Wire | None = None
        self._sent = 0  # number of batches so far
        self.beating = False
        self.later(self.script.heartbeat, self._beat)
        self.later(self.script.commit * self.dice.random(), self._produce)

    def stop(self) -> None:
        for session in self.sessions.values():
            self.network.close(session.wire)
        if self.outlet is not None:
            self.network.close(self.outlet)
        self.sessions, self.outlet = {}, None
        super().stop()

    def leave(self) -> None:
        for session in self.sessions.values():
            if not session.busy and session.epoch > 0:
                self._fetch_with(session, [], [], -1)
        if self.coordinator is not None and self.epoch > 0:
            self.epoch = LEAVING
            self._send_heartbeat()
        self.stop()

    def disconnected(self, connection: Wire) -> None:
        for node, session in list(self.sessions.items()):
            if session.wire is connection:
                del self.sessions[node]
                return
        if connection is self.outlet:
            self.outlet = None
        else:
            super().disconnected(connection)

    # --- the group ---

    def ready(self) -> None:
        self.beating = False
        self._send_heartbeat()

    def _beat(self) -> None:
        self.later(self.script.heartbeat, self._beat)
        if not self.beating and self.coordinator is not None:
            self._send_heartbeat()

    def _send_heartbeat(self) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id=self.script.group, member_id=self.member_id, member_epoch=self.epoch
        )
        if self.epoch == JOINING:
            request.subscribed_topic_names = list(self.topics)
        self.beating = True
        self.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, request, self._beaten)

    def _beaten(self, answer: ShareGroupHeartbeatResponse) -> None:
        self.beating = False
        if answer.error_code in NOT_HERE:
            self.find_later()
        elif answer.error_code in LOST:
            self.epoch, self.target = JOINING, frozenset()
            self.later(BACKOFF, self._send_heartbeat)
        elif not answer.error_code:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                lines = answer.assignment.topic_partitions
                self.target = frozenset((line.topic_id, index) for line in lines for index in line.partitions)
            self._fetch_all()

    # --- records ---

    def _produce(self) -> None:
        self.later(self.script.commit * self.dice.random(), self._produce)
        topic = self.dice.pick(sorted(self.topics))
        places = self._cluster().topics[topic].partitions if topic in self._cluster().topics else []
        partition = self.dice.pick(places) if places else None
        if partition is None or partition.leader not in self._cluster().nodes:
            return
        if self.outlet is not None and self.outlet.node != partition.leader:
            self.network.close(self.outlet)
            self.outlet = None
        if self.outlet is None:
            self.outlet = self.network.connect(self, self.link, partition.leader, self.name)
        values = tuple(f"{self.name}.{self.life}.{self._sent}.{n}".encode() for n in range(self.dice.whole(1, 6)))
        self._sent += 1
        place = topic, partition.index
        self.history.writes.append(Write(self.identifier, place, values, -1, sent_at=self.queue.now))
        records = build_batch([Record(value=value, timestamp=1) for value in values])
        kind = ProduceRequest.Topic
        topics = [kind(name=topic, partition_data=[kind.Partition(index=partition.index, records=records)])]
        request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics)
        self.send(self.outlet, ApiKey.PRODUCE, 9, request, self._produced)

    def _produced(self, answer: ProduceResponse) -> None:
        return

    def _fetch_all(self) -> None:
        for node in sorted({self._leader(place) for place in self.target}):
            if node in self._cluster().nodes:
                self._fetch(node)

    def _leader(self, place: Place) -> int:
        topic = self._cluster().by_id.get(place[0])
        partition = None if topic is None else topic.partition(place[1])
        return -1 if partition is None else partition.leader

    def _fetch(self, node: int) -> None:
        session = self.sessions.get(node)
        if session is None:
            session = self.sessions[node] = NodeSession(self.network.connect(self, self.link, node, self.name))
        if session.busy:
            return
        wanted = {place for place in self.target if self._leader(place) == node}
        added = sorted(wanted - session.known)
        gone = sorted(session.known - wanted)
        session.known = wanted
        repeats = session.epoch > 1 and self.dice.chance(REPEATED)
        self._fetch_with(session, added, gone, session.epoch - repeats)

    def _fetch_with(self, session: NodeSession, added: Sequence[Place], gone: Sequence[Place], epoch: int) -> None:
        """Send a ShareFetch with random limits.

        Unless the request creates the session, it contains the waiting acknowledgements.

        Args:
            session: the share session.
            added: partitions to add to the session.
            gone: partitions to remove from the session.
            epoch: share session epoch; 0 creates the session.
        """
        acknowledged = [] if epoch == 0 else session.waiting
        if epoch != 0:
            session.waiting = []
        request = ShareFetchRequest(
            group_id=self.script.group,
            member_id=self.member_id,
            share_session_epoch=epoch,
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=self.dice.pick([1, 5, 50]),
            batch_size=self.dice.pick([1, 10, 500]),
            share_acquire_mode=self.dice.pick([0, 0, 1]),
            topics=_topics(ShareFetchRequest.Topic, acknowledged, added),
            forgotten_topics_data=[
                ShareFetchRequest.ForgottenTopic(topic_id=topic_id, partitions=[index]) for topic_id, index in gone
            ],
        )
        session.busy = True
        self.send(session.wire, ApiKey.SHARE_FETCH, 2, request, lambda answer: self._fetched(session, answer))

    def _fetched(self, session: NodeSession, answer: ShareFetchResponse) -> None:
        session.busy = False
        if not self._is_valid_after(session, answer.error_code):
            return
        for topic in answer.responses:
            for partition in topic.partitions:
                place = topic.topic_id, partition.partition_index
                for each in partition.acquired_records:
                    seconds = LONGEST_WORK * self.dice.random() ** 3
                    self.later(seconds, self._work, session, place, each.first_offset, each.last_offset)
        self.later(BACKOFF * self.dice.random(), self._fetch_again, session)

    def _fetch_again(self, session: NodeSession) -> None:
        node = session.wire.node
        if self.sessions.get(node) is session and node in self._cluster().nodes:
            self._fetch(node)

    def _is_valid_after(self, session: NodeSession, error: int) -> bool:
        """Return whether a share session remains valid after a response. If so, increase its epoch.

        After an error, the session is removed and its connection is closed. The result is also False if the session has
        been removed before.

        Args:
            session: the share session.
            error: error code of the response; 0 without an error.
        """
        if self.sessions.get(session.wire.node) is not session:
            return False
        if not error:
            session.epoch += 1
            return True
        del self.sessions[session.wire.node]
        self.network.close(session.wire)
        return False

    # --- acknowledgements ---

    def _work(self, session: NodeSession, place: Place, first: int, last: int) -> None:
        """Process acquired records: at random, renew their locks or acknowledge them.

        If the session has been removed, do nothing.

        After a renewal, the method is scheduled again. Acknowledgements (accept, release or reject) are sent with a
        ShareAcknowledge now or with the next ShareFetch.

        Args:
            session: the share session.
            place: the partition.
            first: first offset.
            last: last offset.
        """
        if self.sessions.get(session.wire.node) is not session:
            return
        if self.dice.chance(0.2) and not session.busy:
            self._acknowledge(session, [(place, (first, last, (RENEW,)))], renew=True)
            self.later(LONGEST_WORK * self.dice.random() ** 2, self._work, session, place, first, last)
            return
        size = last - first + 1
        kinds = (ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT)
        types = tuple(self.dice.pick(kinds) for _ in range(size if self.dice.chance(0.3) else 1))
        session.waiting.append((place, (first, last, types)))
        if self.dice.chance(0.5) and not session.busy:
            waiting, session.waiting = session.waiting, []
            self._acknowledge(session, waiting, renew=False)

    def _acknowledge(self, session: NodeSession, acknowledged: list[tuple[Place, Batch]], *, renew: bool) -> None:
        request = ShareAcknowledgeRequest(
            group_id=self.script.group,
            member_id=self.member_id,
            share_session_epoch=session.epoch,
            is_renew_ack=renew,
            topics=_topics(ShareAcknowledgeRequest.Topic, acknowledged),
        )
        session.busy = True
        self.send(
            session.wire, ApiKey.SHARE_ACKNOWLEDGE, 2, request, lambda answer: self._acknowledged(session, answer)
        )

    def _acknowledged(self, session: NodeSession, answer: ShareAcknowledgeResponse) -> None:
        session.busy = False
        if self._is_valid_after(session, answer.error_code):
            self.later(BACKOFF * self.dice.random(), self._fetch_again, session)


def _topics(kind: type[Any], acknowledged: Sequence[tuple[Place, Batch]], added: Sequence[Place] = ()) -> list[Any]:
    """Return the topics of a ShareFetch or ShareAcknowledge request.

    Args:
        kind: class of the topics in the request.
        acknowledged: pairs of partition and acknowledgements, in any order.
        added: partitions to add to the share session.
    """
    batch = kind.Partition.AcknowledgementBatch
    return [
        kind(
            topic_id=place[0],
            partitions=[
                kind.Partition(
                    partition_index=place[1],
                    acknowledgement_batches=[
                        batch(first_offset=first, last_offset=last, acknowledge_types=list(types))
                        for first, last, types in _of(place, acknowledged)
                    ],
                )
            ],
        )
        for place in sorted({*added, *(place for place, _ in acknowledged)})
    ]


def _of(place: Place, acknowledged: Sequence[tuple[Place, Batch]]) -> list[Batch]:
    """Return the acknowledgements of one partition, in the order of their offsets.

    Args:
        place: the partition.
        acknowledged: pairs of partition and acknowledgements, in any order.
    """
    return sorted(batch for where, batch in acknowledged if where == place)
