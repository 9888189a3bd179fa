"""The interface of a member of a classic group or of a consumer group (KIP-848)."""

from __future__ import annotations

from typing import Protocol

from mockbroker.client.committing import Identity
from mockbroker.client.errors import ConsumerError
from mockbroker.client.flow import ListenerCall
from mockbroker.client.metadata import TopicPartition


class Membership(Protocol):
    """The interface of a member of a classic group or of a consumer group (KIP-848).

    The committer uses the member as a CommittingMember.
    """

    @property
    def failure(self) -> Exception | None:
        """The error that the next poll raises; None without an error."""
        ...

    @property
    def identity(self) -> Identity: ...

    @property
    def min_commit_version(self) -> int: ...

    @property
    def listener_call(self) -> ListenerCall | None:
        """The pending call of the user's rebalance listener; None while no call is pending.

        The rebalance continues when the call has returned.
        """
        ...

    @property
    def stable(self) -> bool:
        """Whether the member is in a group, has applied its latest assignment, and no rebalance is pending."""
        ...

    @property
    def commit_blocked_by(self) -> ConsumerError | None: ...

    def handle_commit_error(self, code: int) -> None: ...

    def listener_returned(self, error: Exception | None) -> None: ...

    def record_poll(self, *, waiting: bool = False) -> None:
        """Restart the ``max_poll_interval`` timer, because the user has called ``poll``.

        ``waiting``: True to stop the timer instead, because the user waits inside a poll.
        """
        ...

    def maintain(self, *, polling: bool) -> None:
        """Run due timers, continue the rebalance, and send a due heartbeat.

        ``polling``: True during a poll of the user. Then errors for the user are raised, and the parts of a rebalance
        that wait for a poll run.
        """
        ...

    def next_deadline(self) -> float: ...

    def rejoin(self, reason: str) -> None:
        """Request a rebalance with the next poll.

        ``reason``: text that is sent to the coordinator in the classic protocol.
        """
        ...

    def leave(self, reason: str) -> None:
        """Leave the group, and drop the assignment. ``reason``: text that is sent to the coordinator in the classic
        protocol.
        """
        ...

    @property
    def leaving(self) -> bool:
        """Whether the request to leave the group has no response yet."""
        ...

    def owned(self) -> tuple[TopicPartition, ...]: ...
