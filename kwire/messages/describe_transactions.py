"""DescribeTransactions (key 65): request the state of transactional ids (KIP-664)."""

from kwire.schema import Api, Array, Int16, Int32, Int64, String, request, response, struct

DESCRIBE_TRANSACTIONS = Api(65, versions="0", flexible="0+")


@request(DESCRIBE_TRANSACTIONS)
class DescribeTransactionsRequest:
    transactional_ids: list[str] = Array(String, entity="transactionalId")


@response(DESCRIBE_TRANSACTIONS)
class DescribeTransactionsResponse:
    @struct
    class Transaction:
        @struct
        class Topic:
            topic: str = String(entity="topicName")
            partitions: list[int] = Array(Int32)

        error_code: int = Int16()
        transactional_id: str = String(entity="transactionalId")
        transaction_state: str = String()
        transaction_timeout_ms: int = Int32()
        transaction_start_time_ms: int = Int64()
        producer_id: int = Int64(entity="producerId")
        producer_epoch: int = Int16()
        topics: list[Topic] = Array(Topic)

    throttle_time_ms: int = Int32()
    transaction_states: list[Transaction] = Array(Transaction)
