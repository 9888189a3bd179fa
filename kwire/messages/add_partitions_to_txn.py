"""AddPartitionsToTxn (key 24): make partitions part of a transaction before the producer writes to them (KIP-98).

Since v1, brokers send the response before they throttle the client (KIP-219); v2 adds the error PRODUCER_FENCED; v3 is
flexible; v4 lets brokers add several transactions at once, and verify added partitions (KIP-890); v5 adds the error
TRANSACTION_ABORTABLE. Clients use versions below 4.
"""

from kwire.schema import Api, Array, Bool, Int16, Int32, Int64, String, request, response, struct

ADD_PARTITIONS_TO_TXN = Api(24, versions="0-5", flexible="3+")


@struct
class Topic:
    name: str = String(entity="topicName")
    partitions: list[int] = Array(Int32)


@struct
class TopicResult:
    @struct
    class Partition:
        partition_index: int = Int32()
        partition_error_code: int = Int16()

    name: str = String(entity="topicName")
    results_by_partition: list[Partition] = Array(Partition)


@request(ADD_PARTITIONS_TO_TXN)
class AddPartitionsToTxnRequest:
    @struct
    class Transaction:
        transactional_id: str = String(entity="transactionalId")
        producer_id: int = Int64(entity="producerId")
        producer_epoch: int = Int16()
        verify_only: bool = Bool()
        topics: list[Topic] = Array(Topic)

    transactions: list[Transaction] = Array(Transaction, "4+")
    v3_and_below_transactional_id: str = String("0-3", entity="transactionalId")
    v3_and_below_producer_id: int = Int64("0-3", entity="producerId")
    v3_and_below_producer_epoch: int = Int16("0-3")
    v3_and_below_topics: list[Topic] = Array(Topic, "0-3")


@response(ADD_PARTITIONS_TO_TXN)
class AddPartitionsToTxnResponse:
    @struct
    class Transaction:
        transactional_id: str = String(entity="transactionalId")
        topic_results: list[TopicResult] = Array(TopicResult)

    throttle_time_ms: int = Int32()
    error_code: int = Int16("4+", ignorable=True)
    results_by_transaction: list[Transaction] = Array(Transaction, "4+")
    results_by_topic_v3_and_below: list[TopicResult] = Array(TopicResult, "0-3")
