"""InitProducerId (key 22): request a producer id and epoch, for idempotence and transactions.

v2 is flexible; v3 adds the current producer id and epoch (KIP-360); v5 adds the error TRANSACTION_ABORTABLE
(KIP-890); v6 adds two-phase commit (KIP-939), and is not stable yet in Kafka 4.2.
"""

from kwire.schema import Api, Bool, Int16, Int32, Int64, String, request, response

INIT_PRODUCER_ID = Api(22, versions="0-6", flexible="2+")


@request(INIT_PRODUCER_ID)
class InitProducerIdRequest:
    transactional_id: str | None = String(null=True, entity="transactionalId")
    transaction_timeout_ms: int = Int32()
    producer_id: int = Int64("3+", default=-1, entity="producerId")
    producer_epoch: int = Int16("3+", default=-1)
    enable2_pc: bool = Bool("6+")
    keep_prepared_txn: bool = Bool("6+")


@response(INIT_PRODUCER_ID)
class InitProducerIdResponse:
    throttle_time_ms: int = Int32(ignorable=True)
    error_code: int = Int16()
    producer_id: int = Int64(default=-1, entity="producerId")
    producer_epoch: int = Int16()
    ongoing_txn_producer_id: int = Int64("6+", default=-1, entity="producerId")
    ongoing_txn_producer_epoch: int = Int16("6+", default=-1)
