"""AllocateProducerIds (key 67): a broker requests a block of producer ids from the controller (KIP-730)."""

from kwire.schema import Api, Int16, Int32, Int64, request, response

ALLOCATE_PRODUCER_IDS = Api(67, versions="0", flexible="0+")


@request(ALLOCATE_PRODUCER_IDS)
class AllocateProducerIdsRequest:
    broker_id: int = Int32(entity="brokerId")
    broker_epoch: int = Int64(default=-1)


@response(ALLOCATE_PRODUCER_IDS)
class AllocateProducerIdsResponse:
    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    producer_id_start: int = Int64(entity="producerId")
    producer_id_len: int = Int32()
