"""The names of clock modes, group types and states, as literal types that editors complete.

The names of APIs and errors are in ``mockbroker.api.fault_names``.
"""

from typing import Literal, TypeAlias

ClockMode: TypeAlias = Literal["real", "manual"]  # a manual clock is stopped until a test advances it
GroupState: TypeAlias = Literal[
    "Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Assigning", "Reconciling", "NotReady", "Dead"
]  # Kafka's names; Dead also means that the group does not exist
GroupTypeName: TypeAlias = Literal["classic", "consumer", "share", "streams"]
TransactionState: TypeAlias = Literal[
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"
]  # Kafka's names, as in DescribeTransactions
