"""EndTxn (key 26): commit or abort a transaction (KIP-98).

Since v1, brokers send the response before they throttle the client (KIP-219); v2 adds the error PRODUCER_FENCED; v3 is
flexible; v4 adds the error TRANSACTION_ABORTABLE; v5 returns a new producer epoch for the next transaction (KIP-890).
"""

from kwire.schema import Api, Bool, Int16, Int32, Int64, String, request, response

END_TXN = Api(26, versions="0-5", flexible="3+")


@request(END_TXN)
class EndTxnRequest:
    transactional_id: str = String(entity="transactionalId")
    producer_id: int = Int64(entity="producerId")
    producer_epoch: int = Int16()
    committed: bool = Bool()


@response(END_TXN)
class EndTxnResponse:
    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    producer_id: int = Int64("5+", default=-1, ignorable=True, entity="producerId")
    producer_epoch: int = Int16("5+", default=-1, ignorable=True)
