"""The idempotent producer of a recording in a topic, with one request at a time.

The requests have the lowest versions with what they need. Kafka supports them from release 0.11 on.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeVar

from kwire import decode_response, encode_request
from kwire.apikeys import ApiKey
from kwire.errorcodes import ErrorCode
from kwire.errors import RemoteProtocolError
from kwire.frames import PREFIX
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import ProduceRequest
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.upstream import Upstream
from mockbroker.recording.record_batches import RecordBatch
from mockbroker.recording.topic_connections import REQUEST_TIMEOUT, BrokerConnection

PRODUCE_VERSION, METADATA_VERSION, PRODUCER_ID_VERSION = 3, 4, 0
CLIENT_ID = "mockbroker-recording"
ALL_REPLICAS = -1  # acks
SIZE = struct.Struct(">i")  # of the records in a Produce request
RESTARTED = frozenset(  # errors after which a producer needs another producer id
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
Element = TypeVar("Element")


class RefusedError(Exception):
    """The error code with which a broker has refused a request.

    Attributes:
        code: the error code.
    """

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code

    @property
    def is_retriable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code.retriable or self.code in RESTARTED


class TopicProducer:
    """A producer for one topic. A batch that is sent again after an error is not stored twice.

    Each method raises OSError or WireError if a broker cannot be reached or does not answer properly, and RefusedError
    if it answers with an error. The call can then be repeated.

    Args:
        cluster: the cluster. The first of its addresses that can be reached is asked for the leaders.
        topic: name of the topic. If it does not exist, the cluster may create it.
    """

    def __init__(self, cluster: Upstream, topic: str) -> None:
        self._cluster = cluster
        self._servers = cluster.bootstrap
        self._topic = topic
        self._leaders: dict[int, Address] = {}  # by partition
        self._connections: dict[Address, BrokerConnection] = {}
        self._producer: tuple[int, int] | None = None  # producer id and epoch
        self._sequences: dict[int, int] = {}  # of the next record, by partition
        self._correlation_id = 0
        self._is_aborted = False

    def partitions(self) -> int:
        """Return the number of partitions of the topic."""
        partitions = _only(self._update_leaders().topics).partitions
        if not partitions:
            raise RemoteProtocolError(f"the topic {self._topic} has no partitions in the Metadata response")
        return len(partitions)

    def write(self, batch: RecordBatch) -> None:
        """Send a batch to the leader of its partition, and wait until all in-sync replicas have stored it.

        ``batch``: the batch.
        """
        if batch.partition not in self._leaders:
            self._update_leaders()
            if batch.partition not in self._leaders:
                raise RefusedError(ErrorCode.LEADER_NOT_AVAILABLE)
        if self._producer is None:
            response = self._call(
                self._servers,
                ApiKey.INIT_PRODUCER_ID,
                PRODUCER_ID_VERSION,
                InitProducerIdRequest(transactional_id=None),
            )
            _check(response.error_code)
            self._producer = response.producer_id, response.producer_epoch
            self._sequences = {}
        sequence = self._sequences.get(batch.partition, 0)
        records = batch.encoded(*self._producer, sequence)
        partition = ProduceRequest.Topic.Partition(index=batch.partition, records=b"")
        request = ProduceRequest(
            acks=ALL_REPLICAS,
            timeout_ms=int(REQUEST_TIMEOUT * 1_000),
            topic_data=[ProduceRequest.Topic(name=self._topic, partition_data=[partition])],
        )
        try:
            response = self._call([self._leaders[batch.partition]], ApiKey.PRODUCE, PRODUCE_VERSION, request, records)
            code = _only(_only(response.responses).partition_responses).error_code
            if code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:  # an earlier attempt was stored
                _check(code)
        except RefusedError as error:
            if error.code in RESTARTED:
                self.restart()
            self._leaders.clear()
            raise
        except OSError:
            self._leaders.clear()
            raise
        self._sequences[batch.partition] = (sequence + batch.count) & 0x7FFF_FFFF

    def restart(self) -> None:
        """Use another producer id from now on. It is unknown whether the previous batch was stored."""
        self._producer = None

    def abort(self) -> None:
        """End a call in another thread with an error, and let all later calls fail with one.

        A call that waits for a new connection ends after CONNECT_TIMEOUT.
        """
        self._is_aborted = True
        for each in tuple(self._connections.values()):
            with suppress(OSError):  # it is not connected any more
                each.shut_down()

    def close(self) -> None:
        """Close all connections."""
        while self._connections:
            self._connections.popitem()[1].close()

    def _update_leaders(self) -> Any:
        """Return the metadata of the topic, after the leaders of its partitions are stored."""
        topic = MetadataRequest.Topic(name=self._topic)
        response = self._call(self._servers, ApiKey.METADATA, METADATA_VERSION, MetadataRequest(topics=[topic]))
        brokers = {each.node_id: Address(each.host, each.port) for each in response.brokers}
        found = _only(response.topics)
        _check(found.error_code)
        self._leaders = {
            each.partition_index: brokers[each.leader_id] for each in found.partitions if each.leader_id in brokers
        }
        return response

    def _call(
        self, addresses: Sequence[Address], key: ApiKey, version: int, request: Any, records: Sequence[bytes] = ()
    ) -> Any:
        """Send a request to the first broker that can be reached, and return the body of its response.

        Args:
            addresses: addresses of brokers, in the order in which they are tried.
            key: API key.
            version: API version.
            request: the body of the request.
            records: buffers with the record batch at the end of the request, which has none yet.
        """
        self._correlation_id += 1
        frame = encode_request(request, version, correlation_id=self._correlation_id, client_id=CLIENT_ID)
        size = sum(map(len, records))
        if records:
            frame = frame[: -SIZE.size] + SIZE.pack(size)
        buffers = [PREFIX.pack(len(frame) + size) + frame, *records]
        return decode_response(self._exchanged(addresses, buffers), key, version).body

    def _exchanged(self, addresses: Sequence[Address], buffers: Sequence[bytes]) -> bytes:
        for number, address in enumerate(addresses):
            known = self._connections.pop(address, None)
            try:
                if known is not None:
                    try:
                        return self._answer(address, known, buffers)
                    except OSError:  # brokers close idle connections
                        known.close()
                self._check_running()
                return self._answer(address, BrokerConnection(address, self._cluster), buffers)
            except OSError:
                if number == len(addresses) - 1:
                    raise
        raise AssertionError("there is at least one address")

    def _answer(self, address: Address, connection: BrokerConnection, buffers: Sequence[bytes]) -> bytes:
        """Send a request, and return the response. Afterwards, the connection can be used again."""
        self._connections[address] = connection
        try:
            self._check_running()  # ``abort`` may have missed this connection
            return connection.exchange(buffers)
        except BaseException:
            del self._connections[address]
            connection.close()
            raise

    def _check_running(self) -> None:
        """Raise ConnectionAbortedError if ``abort`` was called."""
        if self._is_aborted:
            raise ConnectionAbortedError("the recording has ended")


def _check(code: int) -> None:
    """Raise RefusedError if a response has an error code.

    A code that kwire does not know is UNKNOWN_SERVER_ERROR, as in Kafka's own clients.
    """
    if code != ErrorCode.NONE:
        raise RefusedError(ErrorCode(code) if code in tuple(ErrorCode) else ErrorCode.UNKNOWN_SERVER_ERROR)


def _only(elements: Sequence[Element]) -> Element:
    """Return the only element of a list in a response. Raises: RemoteProtocolError if the list has another length."""
    if len(elements) != 1:
        raise RemoteProtocolError(f"the response has {len(elements)} topics or partitions, but 1 was requested")
    return elements[0]
