"""The interface of group members of both protocols."""

from __future__ import annotations

from typing import Protocol

from mockbroker.client.committing import Identity
from mockbroker.client.errors import ConsumerError
from mockbroker.client.flow import ListenerCall
from mockbroker.client.metadata import TopicPartition


class Membership(Protocol):
    """A member of a group. Commits use it as a CommittingMember."""

    @property
    def failure(self) -> Exception | None:
        """An error that the next poll raises."""
        ...

    @property
    def identity(self) -> Identity: ...

    @property
    def min_commit_version(self) -> int: ...

    @property
    def listener_call(self) -> ListenerCall | None:
        """The pending call of the user's listener; the rebalance waits until it has returned."""
        ...

    @property
    def stable(self) -> bool:
        """True for a member of a group that has applied its latest assignment and knows of no rebalance."""
        ...

    @property
    def commit_blocked_by(self) -> ConsumerError | None: ...

    def handle_commit_error(self, code: int) -> None: ...

    def listener_returned(self, error: Exception | None) -> None: ...

    def record_poll(self, *, waiting: bool = False) -> None:
        """Restart ``max_poll_interval``; ``waiting``: the user waits inside the poll, so it does not run."""
        ...

    def maintain(self, *, polling: bool) -> None:
        """Do everything that is due. With ``polling``, raise the errors that the user has to handle."""
        ...

    def next_deadline(self) -> float: ...

    def rejoin(self, reason: str) -> None:
        """Begin a rebalance with the next poll."""
        ...

    def leave(self, reason: str) -> None:
        """Leave the group and drop the assignment."""
        ...

    @property
    def leaving(self) -> bool:
        """True until the request to leave has a response or has failed."""
        ...

    def owned(self) -> tuple[TopicPartition, ...]: ...
