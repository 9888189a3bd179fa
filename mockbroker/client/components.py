"""The components of a consumer, such as network, metadata and coordinator, in one object."""

from __future__ import annotations

from kwire.lazy_dataclass import dataclass
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
    """The components of one consumer, such as its network, metadata and positions. Each component gets this object, so
    that it can use all components.

    Attributes:
        group: Group id; None without a group. Without a group, the coordinator and the committer are not used.
        settings: The settings of the consumer.
        clock: The current time.
        backoff: The delays after failed requests.
        network: The known brokers and the connections to them.
        metadata: The metadata of the cluster.
        subscription: The subscribed topics and the assigned partitions.
        positions: The positions of the assigned partitions.
        coordinator: The coordinator of the group.
        committer: The sender of offset commits.
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

    @property
    def group_id(self) -> str:
        """Group id for requests; "" without a group."""
        return self.group or ""
