"""A client in the simulation that writes transaction markers, as transaction coordinators do."""

from __future__ import annotations

from typing import Any

from kwire import ErrorCode as E
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.write_txn_markers import WriteTxnMarkersRequest
from mockbroker.lab.simulation.clients.hanging_transactions import HangingTransactions
from mockbroker.lab.simulation.clients.operator import Operator
from mockbroker.lab.simulation.network import Wire

NO_SUCH_PARTITION = 99
HANGING = 0.7  # probability that a request is about a hanging transaction
OF_LEADERS = (E.NOT_LEADER_OR_FOLLOWER, E.LEADER_NOT_AVAILABLE)


class MarkerWriter(Operator):
    """A client that writes markers of a producer id of its own, with rising epochs and sometimes with an older one.

    In another partition, it ends transactions that hang.

    Attributes:
        producer_id: producer id of the markers; -1 before InitProducerId.
        stored: producer epoch and coordinator epoch of the newest marker with a successful response.
    """

    own_topic = "marked"
    own_partitions = 2

    def begin(self) -> None:
        super().begin()
        self.producer_id = -1
        self.stored = -1, -1
        self._sent = 0, 0
        self._hanging = HangingTransactions(self, (self.own_topic, 1), is_new=self.script.kip890)
        self._version = 2 if self.script.kip890 else 1

    def operate(self, wire: Wire) -> None:
        if self.dice.chance(HANGING):
            self._hanging.step()
            return
        if self.producer_id < 0:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
            self.request(wire, request, 3, self._initialized)
            return
        leader = self.leaders.leader((self.own_topic, 0))
        if leader is None:
            return
        if self.dice.chance(0.15):
            self._write_unknown(leader)
        elif self.stored[0] > 0 and self.dice.chance(0.2):
            epoch = self.stored[0] - 1, self._sent[1]
            self._write(leader, epoch, "an old producer epoch", E.INVALID_PRODUCER_EPOCH)
        elif self.stored[1] > 0 and self.dice.chance(0.3):
            epoch = self._sent[0], self.stored[1] - 1
            self._write(leader, epoch, "an old coordinator", E.TRANSACTION_COORDINATOR_FENCED)
        else:
            self._sent = self._sent[0] + self.dice.below(2), self._sent[1] + self.dice.below(2)
            self._write(leader, self._sent, "WriteTxnMarkers", E.NONE)

    def lost(self, wire: Wire) -> None:
        self._hanging.lost()

    def _initialized(self, answer: Any) -> None:
        if not answer.error_code:
            self.producer_id = answer.producer_id

    def _write(self, wire: Wire, epochs: tuple[int, int], what: str, error: E) -> None:
        def written(answer: Any) -> None:
            found = answer.markers[0].topics[0].partitions[0].error_code
            self.expect(what, found, [error, *OF_LEADERS])
            if found in OF_LEADERS:
                self.leaders.refresh_later()
            elif not found:
                self.stored = epochs

        self.request(wire, self._marker(epochs, 0), self._version, written)

    def _write_unknown(self, wire: Wire) -> None:
        def written(answer: Any) -> None:
            found = answer.markers[0].topics[0].partitions[0].error_code
            self.expect("a marker for an unknown partition", found, [E.UNKNOWN_TOPIC_OR_PARTITION])

        self.request(wire, self._marker(self._sent, NO_SUCH_PARTITION), self._version, written)

    def _marker(self, epochs: tuple[int, int], index: int) -> WriteTxnMarkersRequest:
        kind = WriteTxnMarkersRequest.Marker
        marker = kind(
            producer_id=self.producer_id,
            producer_epoch=epochs[0],
            coordinator_epoch=epochs[1],
            transaction_result=self.dice.chance(0.5),
            transaction_version=self._version,
            topics=[kind.Topic(name=self.own_topic, partition_indexes=[index])],
        )
        return WriteTxnMarkersRequest(markers=[marker])
