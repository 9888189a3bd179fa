"""The checker of invariant I19: after InitProducerId only the newest epoch of a transactional id is accepted."""

from __future__ import annotations

from typing import Any

from kwire.apikeys import ApiKey
from mockbroker.base.effects import Call
from mockbroker.broker.broker import Broker
from mockbroker.lab.simulation.model import accepted
from mockbroker.lab.simulation.watching import Watcher

Producer = tuple[int, int]  # producer id and epoch


class FencedProducers(Watcher):
    """The checker of invariant I19: only the newest epoch of a transactional id is accepted after InitProducerId.

    The checker tracks the newest producer id and epoch of each transactional id. A crash may undo an InitProducerId
    whose response was not sent. Source: Kafka's TransactionCoordinator.
    """

    name = "I19"
    apis = (ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT)

    def __init__(self) -> None:
        self._newest: dict[str, Producer] = {}
        self._durable: dict[str, Producer] = {}

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        match call.ticket.api_key:
            case ApiKey.INIT_PRODUCER_ID if not response.error_code:
                self._newest[call.request.transactional_id] = response.producer_id, response.producer_epoch
            case ApiKey.ADD_OFFSETS_TO_TXN | ApiKey.END_TXN if not response.error_code:
                self._accepted(call)
            case ApiKey.TXN_OFFSET_COMMIT if accepted(call.request, response):
                self._accepted(call)

    def acknowledged(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        if call.ticket.api_key == ApiKey.INIT_PRODUCER_ID and not response.error_code:
            self._durable[call.request.transactional_id] = response.producer_id, response.producer_epoch

    def crashed(self, broker: Broker, now: float) -> None:
        self._newest = dict(self._durable)

    def _accepted(self, call: Call[Any]) -> None:
        request = call.request
        producer = request.producer_id, request.producer_epoch
        newest = self._newest.get(request.transactional_id, producer)
        if producer < newest:
            raise self.broken(
                f"a request of transactional id {request.transactional_id} with producer id {producer[0]} and epoch "
                f"{producer[1]} was accepted, although the newest are producer id {newest[0]} and epoch {newest[1]}"
            )
