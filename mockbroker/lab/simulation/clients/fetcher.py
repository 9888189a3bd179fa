"""The Fetch requests of a consumer in the simulation, with one fetch session per broker (KIP-227).

Source: Kafka's Fetcher, FetchSessionHandler and CompletedFetch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import field

from kwire import ErrorCode as E
from kwire.apikeys import ApiKey
from kwire.lazy_dataclass import dataclass
from kwire.messages.fetch import FetchRequest, FetchResponse
from kwire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kwire.records.batch import Batch, batches
from kwire.records.control import ControlType, control_records
from mockbroker.lab.simulation.clients.client import BACKOFF, Client
from mockbroker.lab.simulation.clients.leaders import Leaders
from mockbroker.lab.simulation.clients.plans import Place
from mockbroker.lab.simulation.history import READ_COMMITTED, Listing, Read
from mockbroker.lab.simulation.network import Wire

LIST_VERSION = 7
BY_ID_SINCE = 13
MAX_WAIT_MS = 500
AGAIN = -1  # fetch offset of a partition that is sent again after an error, as by Kafka's client
SESSION_LOST = (E.FETCH_SESSION_ID_NOT_FOUND, E.INVALID_FETCH_SESSION_EPOCH, E.FETCH_SESSION_TOPIC_ID_ERROR)
ResponsePartition = FetchResponse.Topic.Partition


@dataclass(slots=True, eq=False)
class NodeSession:
    """A fetch session with one broker.

    Attributes:
        wire: the simulated connection to the broker.
        session_id: session id; 0 without a session.
        epoch: session epoch of the next request.
        busy: whether a request is in flight, or the pause before the next request is not over.
        sent: partition -> last fetch offset sent to the broker.
    """

    wire: Wire
    session_id: int = 0
    epoch: int = 0
    busy: bool = False
    sent: dict[Place, int] = field(default_factory=dict)

    def forget(self) -> None:
        """Discard the session, so that the next Fetch creates a new one."""
        self.session_id, self.epoch, self.sent = 0, 0, {}


class Fetcher:
    """The sender of a client's Fetch requests. It also updates the client's positions.

    Args:
        client: the client.
        leaders: leaders of the partitions.
        isolation: READ_UNCOMMITTED or READ_COMMITTED.
        version: version of Fetch.
        positions: function that returns the positions (partition -> next offset), a dictionary that the fetcher
            updates.
        on_read: function that is called with the records (Read) of each successful fetch of a partition.

    Attributes:
        sessions: broker id -> fetch session.
        max_bytes: maximum number of bytes of a partition in a response.
        min_bytes: number of available bytes from which a broker responds immediately.
        on_out_of_range: function that is called with a partition whose position was removed because it is out of range.
    """

    def __init__(
        self,
        client: Client,
        leaders: Leaders,
        isolation: int,
        version: int,
        positions: Callable[[], dict[Place, int]],
        on_read: Callable[[Read], None],
    ) -> None:
        self.sessions: dict[int, NodeSession] = {}
        self.isolation = isolation
        self.max_bytes = client.dice.pick([1, 300, 2_000, 100_000])
        self.min_bytes = client.dice.pick([0, 1, 1, 500])
        self._client = client
        self._leaders = leaders
        self._version = version
        self._positions = positions
        self._on_read = on_read
        self._listing: set[Place] = set()
        self.on_out_of_range: Callable[[Place], object] = lambda _: None

    def disconnected(self, connection: Wire) -> None:
        """End the fetch session that uses a closed connection, and forget the ListOffsets lookups in flight."""
        session = self.sessions.get(connection.node)
        if session is not None and session.wire is connection:
            del self.sessions[connection.node]
        self._listing.clear()

    # --- records ---

    def fetch_all(self) -> None:
        """Send a Fetch for all partitions with a position: one request to each broker that has no Fetch in flight.

        If a partition has no known leader, request metadata.
        """
        positions, nodes, sessions = self._positions(), self._leaders.nodes, self.sessions
        wanted: dict[int, dict[Place, int]] = {
            node: {} for node, session in sessions.items() if session.sent and not session.busy
        }
        for place in positions:
            node = nodes.get(place)
            if node is None:
                self._leaders.refresh_later()
            elif node not in sessions or not sessions[node].busy:
                wanted.setdefault(node, {})[place] = positions[place]
        for node in sorted(wanted):
            session = sessions.get(node)
            if session is None:
                session = sessions[node] = NodeSession(self._leaders.wire(node))
            self._fetch(session, wanted[node])

    def _fetch(self, session: NodeSession, wanted: dict[Place, int]) -> None:
        if not wanted and not session.epoch:
            return
        new = wanted if not session.epoch else {p: at for p, at in wanted.items() if session.sent.get(p) != at}
        gone = [place for place in session.sent if place not in wanted] if session.epoch else []
        kind, topics = FetchRequest.Topic, dict[str, FetchRequest.Topic]()
        for (name, index), at in sorted(new.items()):
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = kind(topic=name, topic_id=self._leaders.ids[name])
            topic.partitions.append(
                kind.Partition(
                    partition=index,
                    current_leader_epoch=self._leaders.epochs[name, index],
                    fetch_offset=at,
                    partition_max_bytes=self.max_bytes,
                )
            )
        forgotten: dict[str, FetchRequest.ForgottenTopic] = {}
        for name, index in sorted(gone):
            each = FetchRequest.ForgottenTopic(topic=name, topic_id=self._leaders.ids[name])
            forgotten.setdefault(name, each).partitions.append(index)
        request = FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=self.min_bytes,
            max_bytes=1 << 20,
            isolation_level=self.isolation,
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
        )
        session.busy = True
        session.sent = dict(wanted)
        asked = dict(wanted)
        self._client.send(
            session.wire, ApiKey.FETCH, self._version, request, lambda answer: self._fetched(session, asked, answer)
        )

    def _fetched(self, session: NodeSession, asked: dict[Place, int], answer: FetchResponse) -> None:
        if self.sessions.get(session.wire.node) is not session:
            return
        if answer.error_code:
            session.forget()
            if answer.error_code not in SESSION_LOST:
                self._leaders.refresh_later()
            self._client.later(BACKOFF, self._continue, session)
            return
        session.epoch = session.epoch + 1 if answer.session_id else 0
        session.session_id = answer.session_id
        names = {topic_id: name for name, topic_id in self._leaders.ids.items()}
        failed = False
        for topic in answer.responses:
            name = names.get(topic.topic_id, "") if self._version >= BY_ID_SINCE else topic.topic
            for partition in topic.partitions:
                place = name, partition.partition_index
                if place in asked:
                    failed |= self._take(session, place, asked[place], partition)
        if not answer.session_id:
            session.forget()
        self._client.later(BACKOFF * self._client.dice.random() * (5 if failed else 1), self._continue, session)

    def _continue(self, session: NodeSession) -> None:
        session.busy = False
        self.fetch_all()

    def _take(self, session: NodeSession, place: Place, asked: int, response: ResponsePartition) -> bool:
        """Handle one partition of a Fetch response, and return whether the partition has an error.

        Without an error, advance the position of the client, and pass the records to ``on_read``. If the position has
        changed since the request, the records are ignored. With the error OFFSET_OUT_OF_RANGE, remove the position and
        call ``on_out_of_range``; with any other error, look up the leaders later.

        Args:
            session: the fetch session.
            place: the partition.
            asked: fetch offset in the request.
            response: the part of the response about the partition.
        """
        positions = self._positions()
        if response.error_code:
            if place in session.sent:
                session.sent[place] = AGAIN
            if positions.get(place) == asked and response.error_code == E.OFFSET_OUT_OF_RANGE:
                self._client.history.out_of_range.append((place, asked, self._client.name))
                del positions[place]
                self.on_out_of_range(place)
            else:
                self._leaders.refresh_later()
            return True
        if positions.get(place) != asked or not response.records:
            return False
        end, records = records_of(response, asked, self.isolation)
        positions[place] = end
        client = self._client
        read = Read(client.identifier, place, self.isolation, asked, end, records, client.queue.now)
        client.history.reads.append(read)
        self._on_read(read)
        return False

    # --- offsets of the log ---

    def list_offsets(self, places: Collection[Place], timestamp: int, then: Callable[[Place, int], None]) -> None:
        """Look up the first or last offsets of partitions with ListOffsets.

        Args:
            places: partitions. A partition is skipped if its lookup is in flight, or if its leader is unknown.
            timestamp: EARLIEST for the log start offset, LATEST for the log end offset.
            then: function that is called with each partition and its offset when the response arrives, unless the
                response has an error for the partition.
        """
        by_node: dict[int, list[Place]] = {}
        for place in sorted(set(places) - self._listing):
            if place in self._leaders.nodes:
                by_node.setdefault(self._leaders.nodes[place], []).append(place)
            else:
                self._leaders.refresh_later()
        for node, some in by_node.items():
            self._listing.update(some)
            self._list_offsets(node, some, timestamp, then)

    def _list_offsets(
        self, node: int, places: Sequence[Place], timestamp: int, then: Callable[[Place, int], None]
    ) -> None:
        kind, topics = ListOffsetsRequest.Topic, dict[str, ListOffsetsRequest.Topic]()
        for name, index in places:
            line = kind.Partition(partition_index=index, timestamp=timestamp)
            topics.setdefault(name, kind(name=name)).partitions.append(line)
        sent_at = self._client.queue.now

        def listed(answer: ListOffsetsResponse) -> None:
            self._listing.difference_update(places)
            for topic in answer.topics:
                for partition in topic.partitions:
                    if partition.error_code:
                        self._leaders.refresh_later()
                    else:
                        place, offset = (topic.name, partition.partition_index), partition.offset
                        client = self._client
                        listing = Listing(
                            client.name, place, self.isolation, timestamp, offset, sent_at, client.queue.now
                        )
                        client.history.listings.append(listing)
                        then(place, offset)

        request = ListOffsetsRequest(replica_id=-1, isolation_level=self.isolation, topics=list(topics.values()))
        self._client.send(self._leaders.wire(node), ApiKey.LIST_OFFSETS, LIST_VERSION, request, listed)


def records_of(response: ResponsePartition, start: int, isolation: int) -> tuple[int, list[tuple[int, bytes]]]:
    """Return the records of one partition in a Fetch response.

    With READ_COMMITTED, records of aborted transactions are left out.

    Args:
        response: the partition in the response.
        start: position of the client; earlier records in the response are left out.
        isolation: READ_UNCOMMITTED or READ_COMMITTED.

    Returns: the offset after the last batch; the offset and value of each record.
    """
    pending = sorted(response.aborted_transactions or (), key=lambda each: each.first_offset)
    aborted: set[int] = set()
    end, records = start, list[tuple[int, bytes]]()
    for batch in batches(response.records or b""):
        if batch.last_offset < start:
            continue
        if isolation == READ_COMMITTED:
            while pending and pending[0].first_offset <= batch.last_offset:
                aborted.add(pending.pop(0).producer_id)
        end = batch.last_offset + 1
        if batch.control:
            if is_abort(batch):
                aborted.discard(batch.producer_id)
        elif not (isolation == READ_COMMITTED and batch.transactional and batch.producer_id in aborted):
            records += [(each.offset, each.value or b"") for each in batch.records() if each.offset >= start]
    return end, records


def is_abort(batch: Batch) -> bool:
    """Return whether a control batch is an abort marker."""
    return any(each.type == ControlType.ABORT for each in control_records(batch))
