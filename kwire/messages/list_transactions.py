"""ListTransactions (key 66): list the transactions of a coordinator, by state and producer id (KIP-664).

v1 adds a filter by duration (KIP-994); v2 adds a filter by a pattern of the transactional id (KIP-1152).
"""

from kwire.schema import Api, Array, Int16, Int32, Int64, String, request, response, struct

LIST_TRANSACTIONS = Api(66, versions="0-2", flexible="0+")


@request(LIST_TRANSACTIONS)
class ListTransactionsRequest:
    state_filters: list[str] = Array(String)
    producer_id_filters: list[int] = Array(Int64, entity="producerId")
    duration_filter: int = Int64("1+", default=-1)
    transactional_id_pattern: str | None = String("2+", null=True, default=None)


@response(LIST_TRANSACTIONS)
class ListTransactionsResponse:
    @struct
    class Transaction:
        transactional_id: str = String(entity="transactionalId")
        producer_id: int = Int64(entity="producerId")
        transaction_state: str = String()

    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    unknown_state_filters: list[str] = Array(String)
    transaction_states: list[Transaction] = Array(Transaction)
