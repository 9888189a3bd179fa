"""What the parts of one consumer share."""

from __future__ import annotations

from dataclasses import dataclass

from mockbroker.client.backoff import Backoff, Moment
from mockbroker.client.committing import Committer
from mockbroker.client.coordinator import Coordinator
from mockbroker.client.interest import Interest
from mockbroker.client.metadata import Metadata
from mockbroker.client.network import Network
from mockbroker.client.positions import Positions
from mockbroker.client.settings import Settings


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
