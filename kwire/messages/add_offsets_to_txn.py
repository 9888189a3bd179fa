"""AddOffsetsToTxn (key 25): make the offsets of a group part of a transaction (KIP-98).

Since v1, brokers send the response before they throttle the client (KIP-219); v2 adds the error PRODUCER_FENCED; v3 is
flexible; v4 adds the error TRANSACTION_ABORTABLE (KIP-890).
"""

from kwire.schema import Api, Int16, Int32, Int64, String, request, response

ADD_OFFSETS_TO_TXN = Api(25, versions="0-4", flexible="3+")


@request(ADD_OFFSETS_TO_TXN)
class AddOffsetsToTxnRequest:
    transactional_id: str = String(entity="transactionalId")
    producer_id: int = Int64(entity="producerId")
    producer_epoch: int = Int16()
    group_id: str = String(entity="groupId")


@response(ADD_OFFSETS_TO_TXN)
class AddOffsetsToTxnResponse:
    throttle_time_ms: int = Int32()
    error_code: int = Int16()
