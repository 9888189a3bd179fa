"""Records of ``__transaction_state``: the state of each transactional id (KIP-98)."""

from kwire.schema import Array, Int8, Int16, Int32, Int64, String, data, struct


@data(versions="0", flexible="none")
class TransactionLogKey:
    transactional_id: str = String()


@data(versions="0-1", flexible="1+")
class TransactionLogValue:
    """The state of a transactional id.

    v1 is flexible, and adds the previous and the next producer id, the next producer epoch, and the transaction version
    of the client (KIP-890).
    """

    @struct
    class Partitions:
        topic: str = String()
        partition_ids: list[int] = Array(Int32)

    producer_id: int = Int64()
    previous_producer_id: int = Int64("1+", tag=0, default=-1)
    next_producer_id: int = Int64("1+", tag=1, default=-1)
    producer_epoch: int = Int16()
    next_producer_epoch: int = Int16("1+", tag=3, default=-1)
    transaction_timeout_ms: int = Int32()
    transaction_status: int = Int8()
    transaction_partitions: list[Partitions] | None = Array(Partitions, null=True)
    transaction_last_update_timestamp_ms: int = Int64()
    transaction_start_timestamp_ms: int = Int64()
    client_transaction_version: int = Int16("1+", tag=2)
