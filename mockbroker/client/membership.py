"""What both kinds of members have in common, as the rest of the consumer sees them."""

from __future__ import annotations

from typing import Protocol

from mockbroker.client.committing import Identity
from mockbroker.client.errors import ConsumerError
from mockbroker.client.flow import ListenerCall
from mockbroker.client.metadata import TopicPartition


class Membership(Protocol):
    """A member of a group."""

    @property
    def failure(self) -> Exception | None:
        """An error that the next poll raises."""
        ...

    @property
    def identity(self) -> Identity: ...

    @property
    def lowest_commit(self) -> int: ...

    @property
    def listener_call(self) -> ListenerCall | None:
        """What the user has to be told before anything else happens."""
        ...

    @property
    def settled(self) -> bool:
        """True in a group, with what it assigned, as far as is known."""
        ...

    @property
    def commit_barred(self) -> ConsumerError | None: ...

    def commit_refused(self, code: int) -> None: ...

    def listener_returned(self, error: Exception | None) -> None: ...

    def polled(self, *, waits: bool = False) -> None:
        """The user polls; ``waits``: for something to come, and is not missed meanwhile."""
        ...

    def maintain(self, *, polling: bool) -> None:
        """As far as it goes. Raises what only the user can mend."""
        ...

    def due(self) -> float: ...

    def rejoin(self, reason: str) -> None:
        """Begin a rebalance with the next poll."""
        ...

    def leave(self, reason: str) -> None:
        """Go out of the group; what is assigned is no longer this member's."""
        ...

    @property
    def leaving(self) -> bool:
        """True until the coordinator has answered that, or cannot."""
        ...

    def owned(self) -> tuple[TopicPartition, ...]: ...
