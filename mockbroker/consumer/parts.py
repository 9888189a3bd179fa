"""What the parts of one consumer share."""

from __future__ import annotations

from dataclasses import dataclass

from mockbroker.consumer.backoff import Backoff, Moment
from mockbroker.consumer.committing import Committer
from mockbroker.consumer.coordinator import Coordinator
from mockbroker.consumer.interest import Interest
from mockbroker.consumer.metadata import Metadata
from mockbroker.consumer.network import Network
from mockbroker.consumer.positions import Positions
from mockbroker.consumer.settings import Settings


@dataclass(frozen=True, slots=True)
class Parts:
    """``group``: None without one; what belongs to it then rests."""

    group: str | None
    settings: Settings
    time: Moment
    backoff: Backoff
    network: Network
    metadata: Metadata
    interest: Interest
    positions: Positions
    coordinator: Coordinator
    committer: Committer
