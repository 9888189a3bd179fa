"""The object through which each part of a consumer uses the other parts, such as network, metadata and coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from mockbroker.client.backoff import Backoff, Clock
from mockbroker.client.committing import Committer
from mockbroker.client.coordinator import Coordinator
from mockbroker.client.metadata import Metadata
from mockbroker.client.network import Network
from mockbroker.client.positions import Positions
from mockbroker.client.settings import ConsumerSettings
from mockbroker.client.subscription import SubscriptionState


@dataclass(frozen=True, slots=True)
class Components:
    """The components of one consumer, such as its network, metadata and positions, for use by each other.

    Attributes:
        group: Group id; None without a group. Without a group, the coordinator and the committer are not used.
    """

    group: str | None
    settings: ConsumerSettings
    clock: Clock
    backoff: Backoff
    network: Network
    metadata: Metadata
    subscription: SubscriptionState
    positions: Positions
    coordinator: Coordinator
    committer: Committer
