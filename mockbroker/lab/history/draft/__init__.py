"""A draft of the group protocol for Kafka 0.9. The draft was never released.

In the draft, the coordinator assigns partitions.
"""

from mockbroker.lab.history.draft.cluster import DraftCluster, DraftSettings
from mockbroker.lab.history.draft.consumer import Options
from mockbroker.lab.history.draft.messages import Error
from mockbroker.lab.history.draft.rules import Consuming, Coordinating
from mockbroker.lab.history.draft.store import Store
from mockbroker.lab.history.draft.trace import Moment, Span, overlaps, owners, unowned

__all__ = [
    "Consuming",
    "Coordinating",
    "DraftCluster",
    "DraftSettings",
    "Error",
    "Moment",
    "Options",
    "Span",
    "Store",
    "overlaps",
    "owners",
    "unowned",
]
