"""The ShareFetch and ShareAcknowledge requests of a share consumer, one at a time for each broker.

Source: ShareConsumeRequestManager of kafka-clients.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from kwire.errorcodes import ErrorCode
from kwire.lazy_dataclass import dataclass
from kwire.messages.share_acknowledge import SHARE_ACKNOWLEDGE, ShareAcknowledgeResponse
from kwire.messages.share_fetch import SHARE_FETCH, ShareFetchResponse
from mockbroker.client.backoff import Backoff, Clock
from mockbroker.client.call import OutgoingCall
from mockbroker.client.errors import AuthorizationFailed, ConsumerError, IllegalUse, broker_error
from mockbroker.client.metadata import Metadata, TopicPartition
from mockbroker.client.network import Network, Node
from mockbroker.client.share.acknowledgements import AcknowledgeType, Delivery, Types
from mockbroker.client.share.deliveries import delivery_of
from mockbroker.client.share.member import ShareMembership
from mockbroker.client.share.requests import ShareRequests
from mockbroker.client.share.session import PartitionKey, ShareSession
from mockbroker.client.share.settings import ShareSettings

STABLE_VERSIONS = (1, None)  # v0 was early access
RENEWING_VERSIONS = (2, None)
SESSION_LOST = (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH)

Data = ShareFetchResponse.Topic.Partition


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The result of the acknowledgements of a partition.

    Attributes:
        partition: Topic and partition number.
        offsets: The acknowledged offsets.
        error: The error; None if the broker has stored the acknowledgements.
    """

    partition: TopicPartition
    offsets: tuple[int, ...]
    error: ConsumerError | None


class ShareFetcher:
    """The requests of a share consumer to the leaders of its partitions.

    Args:
        group: Group id.
        member: The membership.
        settings: The settings of the consumer.
        network: The connections.
        metadata: The metadata.
        clock: The engine's clock.
        backoff: Backoff after failed requests.

    Attributes:
        failure: The error that the next poll raises, or None.
        results: Results of acknowledgements that were not reported to the user yet.
        committing: True to send acknowledgements immediately in a ShareAcknowledge; False to send them with the next
            ShareFetch.
    """

    def __init__(
        self,
        group: str,
        member: ShareMembership,
        settings: ShareSettings,
        network: Network,
        metadata: Metadata,
        clock: Clock,
        backoff: Backoff,
    ) -> None:
        self._group, self._member, self._settings = group, member, settings
        self._network, self._metadata, self._clock, self._backoff = network, metadata, clock, backoff
        self._requests = ShareRequests(group, member.member_id, settings, metadata)
        self.failure: ConsumerError | None = None
        self.results: deque[Acknowledged] = deque()
        self.committing = False
        self._sessions: dict[int, ShareSession] = {}
        self._in_flight: dict[int, OutgoingCall] = {}
        self._deliveries: deque[Delivery] = deque()  # received, and not returned to the user
        self._pending: dict[int, dict[TopicPartition, Types]] = {}  # acknowledgements to send, by broker
        self._retry_at: dict[int, float] = {}
        self._failures: dict[int, int] = {}

    @property
    def waiting(self) -> bool:
        """Whether a request has no response yet."""
        return bool(self._in_flight)

    @property
    def busy(self) -> bool:
        """Whether some acknowledgements are not sent yet, or a request has no response yet."""
        return bool(self._pending) or self.waiting

    def next_deadline(self) -> float:
        """Return the end of the next backoff of a broker, in seconds on the engine's clock; inf without a backoff."""
        return min((at for at in self._retry_at.values() if at > self._clock.now), default=float("inf"))

    # --- deliveries and acknowledgements ---

    def take_deliveries(self) -> list[Delivery]:
        """Remove and return received deliveries with about ``max_poll_records`` records in total."""
        taken: list[Delivery] = []
        count = 0
        while self._deliveries and count < self._settings.max_poll_records:
            taken.append(self._deliveries.popleft())
            count += len(taken[-1].records)
        return taken

    def send_later(self, deliveries: Iterable[Delivery]) -> None:
        """Send the acknowledgements of deliveries with the next request to their brokers."""
        for delivery in deliveries:
            if types := delivery.take_types():
                by_partition = self._pending.setdefault(delivery.node_id, {})
                by_partition.setdefault(delivery.partition, {}).update(types)

    def release_all(self) -> None:
        """Release the received records that were not returned to the user."""
        for delivery in self._deliveries:
            delivery.acknowledge(set(delivery.open), AcknowledgeType.RELEASE)
        self.send_later(self._deliveries)
        self._deliveries.clear()

    # --- requests ---

    def send_due(self, *, fetching: bool) -> None:
        """Send the requests that can be sent now. Acknowledgements for a broker that cannot be reached fail.

        ``fetching``: True to also fetch records; False to send only acknowledgements.
        """
        wanted = self._wanted() if fetching and not self._deliveries else {}
        for node_id in {*wanted, *(self._pending if self.committing or fetching else ())}:
            if node_id in self._in_flight or self._retry_at.get(node_id, 0.0) > self._clock.now:
                continue
            node = self._network.broker(node_id)
            if node is None or not self._network.can_send(node):
                self._fail_acks(self._pending.pop(node_id, {}), ConsumerError(f"broker {node_id} cannot be reached"))
                self._metadata.retry_later()
                continue
            renews = any(AcknowledgeType.RENEW in types.values() for types in self._pending.get(node_id, {}).values())
            if node_id in wanted and not renews and not (self.committing and node_id in self._pending):
                self._send_fetch(node, wanted[node_id])
            elif node_id in self._pending:
                self._send_acks(node, renews=renews)

    def close(self) -> None:
        """Release the records that were not returned to the user, send all acknowledgements, and end the sessions.

        A broker that is not connected, or has a request in flight, is left out.
        """
        self.release_all()
        for node_id, session in self._sessions.items():
            node = self._network.broker(node_id)
            if node is not None and node.ready and session.established and node_id not in self._in_flight:
                self._send_acks(node, renews=False, final=True)

    def _wanted(self) -> dict[int, set[PartitionKey]]:
        """Return the assigned partitions that can be read, by node id of their leader. If a leader is unknown, request
        metadata after the backoff.
        """
        by_node: dict[int, set[PartitionKey]] = {}
        for topic_id, number in self._member.assigned:
            name = self._metadata.topic_names.get(topic_id)
            leader = None if name is None else self._metadata.leader((name, number))
            if leader is None:
                self._metadata.retry_later()
            else:
                by_node.setdefault(leader.node_id, set()).add((topic_id, number))
        return by_node

    def _send_fetch(self, node: Node, wanted: set[PartitionKey]) -> None:
        session = self._sessions.setdefault(node.id, ShareSession())
        acks = self._acks_to_send(node.id, session)
        call = self._network.send_request(
            node,
            SHARE_FETCH.key,
            lambda _: self._requests.fetch(session, wanted, acks),
            lambda call: self._handle_fetch(node, session, wanted, acks, call),
            timeout=self._settings.request_timeout + self._settings.fetch_max_wait,
            versions=STABLE_VERSIONS,
        )
        if not call.done:
            self._in_flight[node.id] = call

    def _send_acks(self, node: Node, *, renews: bool, final: bool = False) -> None:
        session = self._sessions.setdefault(node.id, ShareSession())
        acks = self._acks_to_send(node.id, session)
        if not acks and not final:
            return
        call = self._network.send_request(
            node,
            SHARE_ACKNOWLEDGE.key,
            lambda _: self._requests.acknowledge(session, acks, renews=renews, final=final),
            lambda call: self._handle_acks(node, session, acks, call),
            versions=RENEWING_VERSIONS if renews else STABLE_VERSIONS,
        )
        if not call.done:
            self._in_flight[node.id] = call

    def _acks_to_send(self, node_id: int, session: ShareSession) -> dict[TopicPartition, Types]:
        """Remove and return the acknowledgements to send to a broker: partition -> offset -> type.

        If the share session has ended, the acknowledgements fail, and the result is empty.

        Args:
            node_id: id of the broker.
            session: the share session.
        """
        acks = self._pending.pop(node_id, {})
        if not session.established:
            self._fail_acks(acks, broker_error(ErrorCode.SHARE_SESSION_NOT_FOUND, "ShareAcknowledge"))
            return {}
        return acks

    # --- responses ---

    def _handle_fetch(
        self,
        node: Node,
        session: ShareSession,
        wanted: set[PartitionKey],
        acks: Mapping[TopicPartition, Types],
        call: OutgoingCall,
    ) -> None:
        self._in_flight.pop(node.id, None)
        if not self._succeeded(node, session, acks, call):
            return
        session.succeeded(wanted)
        response: ShareFetchResponse = call.response
        reported = dict(acks)
        for topic in response.responses:
            name = self._metadata.topic_names.get(topic.topic_id, "")
            for data in topic.partitions:
                partition = name, data.partition_index
                if types := reported.pop(partition, None):
                    self._report(partition, types, data.acknowledge_error_code)
                self._handle_partition(node, partition, data)
        for partition, types in reported.items():  # a response may omit partitions without records and errors
            self._report(partition, types, ErrorCode.NONE)

    def _handle_acks(
        self, node: Node, session: ShareSession, acks: Mapping[TopicPartition, Types], call: OutgoingCall
    ) -> None:
        self._in_flight.pop(node.id, None)
        if not self._succeeded(node, session, acks, call):
            return
        session.succeeded()
        response: ShareAcknowledgeResponse = call.response
        names = {self._metadata.topic_id(name): name for name, _ in acks}
        codes = {
            (names.get(topic.topic_id, ""), data.partition_index): data.error_code
            for topic in response.responses
            for data in topic.partitions
        }
        for partition, types in acks.items():
            self._report(partition, types, codes.get(partition, ErrorCode.NONE))

    def _succeeded(
        self, node: Node, session: ShareSession, acks: Mapping[TopicPartition, Types], call: OutgoingCall
    ) -> bool:
        """Record the result of a request, and return whether the request succeeded.

        After an error, the acknowledgements in the request fail, metadata is requested, and a backoff of the broker
        begins.

        Args:
            node: The broker.
            session: The share session with the broker.
            acks: The acknowledgements in the request, by partition.
            call: The request, with its response or failure.
        """
        if call.failure is not None:
            session.reset()
            error: ConsumerError = call.unsupported or ConsumerError(f"broker {node.id}: {call.reason}")
            self.failure = call.unsupported or self.failure
        elif code := call.response.error_code:
            if code in SESSION_LOST:
                session.reset()
            error = broker_error(code, f"share session of {self._group} with broker {node.id}")
            if isinstance(error, AuthorizationFailed):
                self.failure = error
        else:
            self._failures.pop(node.id, None)
            return True
        self._fail_acks(acks, error)
        self._metadata.refresh()
        failures = self._failures.get(node.id, 0)
        self._failures[node.id] = failures + 1
        self._retry_at[node.id] = self._clock.now + self._backoff.after(failures)
        return False

    def _report(self, partition: TopicPartition, types: Types, code: int) -> None:
        error = broker_error(code, f"ShareAcknowledge of {partition[0]}-{partition[1]}") if code else None
        self.results.append(Acknowledged(partition, tuple(sorted(types)), error))
        if error is not None:
            self._metadata.refresh()

    def _fail_acks(self, acks: Mapping[TopicPartition, Types], error: ConsumerError) -> None:
        for partition, types in acks.items():
            self.results.append(Acknowledged(partition, tuple(sorted(types)), error))

    def _handle_partition(self, node: Node, partition: TopicPartition, data: Data) -> None:
        if data.error_code:
            error = broker_error(data.error_code, f"ShareFetch of {partition[0]}-{partition[1]}")
            if isinstance(error, AuthorizationFailed):
                self.failure = error
            self._metadata.refresh()
        elif data.acquired_records:
            delivery, failure = delivery_of(node.id, partition, data, check_crcs=self._settings.check_crcs)
            self._deliveries.append(delivery)
            self.failure = failure or self.failure


def check_acknowledged(deliveries: Iterable[Delivery]) -> None:
    """Check that all records of deliveries are acknowledged. Raises: IllegalUse if a record is not acknowledged."""
    count = sum(len(delivery.open) for delivery in deliveries)
    if count:
        raise IllegalUse(
            f"{count} records of the last poll are not acknowledged: acknowledge each before the next poll"
        )
