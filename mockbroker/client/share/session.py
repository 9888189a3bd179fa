"""The share session of a consumer with one broker: its epoch, and the partitions that the broker knows.

Source: ShareSessionHandler of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

INITIAL_EPOCH, FINAL_EPOCH, LAST_EPOCH = 0, -1, 2**31 - 1

PartitionKey = tuple[UUID, int]  # topic id and partition number


class ShareSession:
    """The client side of a share session with one broker.

    Attributes:
        epoch: share session epoch of the next request; 0 before the session exists.
        partitions: the partitions of the session that the broker knows, as topic id and partition number.
    """

    def __init__(self) -> None:
        self.epoch = INITIAL_EPOCH
        self.partitions: set[PartitionKey] = set()

    @property
    def established(self) -> bool:
        """Whether the session exists at the broker."""
        return self.epoch != INITIAL_EPOCH

    def changes(self, wanted: Iterable[PartitionKey]) -> tuple[list[PartitionKey], list[PartitionKey]]:
        """Return the partitions that the next request must add to the session, and the partitions that it must remove.

        ``wanted``: partitions of the session after the request.
        """
        wanted = set(wanted)
        return sorted(wanted - self.partitions, key=_order), sorted(self.partitions - wanted, key=_order)

    def succeeded(self, wanted: Iterable[PartitionKey] | None = None) -> None:
        """Record that a request succeeded: the epoch increases, and after a ShareFetch the session has the requested
        partitions.

        ``wanted``: the partitions of the ShareFetch; None after a ShareAcknowledge, which leaves the partitions
        unchanged.
        """
        self.epoch = 1 if self.epoch == LAST_EPOCH else self.epoch + 1
        if wanted is not None:
            self.partitions = set(wanted)

    def reset(self) -> None:
        """Forget the session, so that the next request creates a new one."""
        self.epoch = INITIAL_EPOCH
        self.partitions.clear()


def _order(key: PartitionKey) -> tuple[int, int]:
    return key[0].int, key[1]
