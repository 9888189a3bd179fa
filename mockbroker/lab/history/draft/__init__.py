"""The group protocol that the design of 0.9 proposed: the coordinator assigns. It never shipped like this."""

from mockbroker.lab.history.draft.cluster import Cluster, Settings
from mockbroker.lab.history.draft.consumer import Options
from mockbroker.lab.history.draft.messages import Error
from mockbroker.lab.history.draft.rules import Consuming, Coordinating
from mockbroker.lab.history.draft.store import Store
from mockbroker.lab.history.draft.trace import Moment, Span, overlaps, owners, unowned

__all__ = [
    "Cluster",
    "Consuming",
    "Coordinating",
    "Error",
    "Moment",
    "Options",
    "Settings",
    "Span",
    "Store",
    "overlaps",
    "owners",
    "unowned",
]
