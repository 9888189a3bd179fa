"""The revocation before a JoinGroup: the member commits its positions, and revokes the partitions that it cannot keep.

Source: ConsumerCoordinator.onJoinPrepare of kafka-clients.
"""

from __future__ import annotations

from kwire.assignors import COOPERATIVE
from mockbroker.client.classic.status import NO_GENERATION, MemberStatus
from mockbroker.client.components import Components
from mockbroker.client.flow import POLL, WAIT, ListenerCall, Steps


class Revoking:
    """The revocation before the JoinGroup of one member.

    The revocation runs once in each rebalance. It runs again if the member loses its generation during the rebalance.

    Args:
        components: The components of the consumer.
        status: Status of the member.
        protocol: Rebalance protocol, eager or cooperative.
    """

    def __init__(self, components: Components, status: MemberStatus, protocol: str) -> None:
        self._components, self._status, self._protocol = components, status, protocol

    @property
    def needed(self) -> bool:
        """Whether the revocation must run.

        The result is True if the revocation has not run in this rebalance yet, or if the member still has partitions of
        an ended generation.
        """
        status = self._status
        return not status.revoked or (status.generation == NO_GENERATION and len(self._components.positions) > 0)

    def revoke(self) -> Steps:
        """Commit the positions, revoke partitions, and call the listener: ``on_revoked``, or ``on_lost`` without a
        generation.

        All partitions are revoked; in the cooperative protocol with a generation, only those of unsubscribed topics.
        Without partitions to revoke, the listener is called only in the eager protocol with a generation.

        The generator yields the condition under which it is resumed, such as a poll (see flow.py).

        Raises: exceptions of the listener.
        """
        positions, status = self._components.positions, self._status
        if self._protocol != COOPERATIVE:
            positions.keep_only(())  # no record is returned after the commit
        yield from self._commit()
        yield POLL
        status.revoked = True
        owned = tuple(positions)
        lost = status.generation == NO_GENERATION
        revoked = owned
        if self._protocol == COOPERATIVE and not lost:
            revoked = tuple(p for p in owned if p[0] not in self._components.subscription.topics)
        if not revoked and (lost or self._protocol == COOPERATIVE):
            return
        kept = set(owned) - set(revoked)
        positions.keep_only(kept)
        error = yield ListenerCall("lost" if lost else "revoked", revoked)
        positions.assign([p for p in owned if p in kept])
        if error:
            raise error

    def _commit(self) -> Steps:
        components, status = self._components, self._status
        if components.settings.enable_auto_commit and status.generation != NO_GENERATION:
            offsets = components.positions.to_commit()
            commit = components.committer.commit(offsets, components.settings.max_poll_interval, retried=True)
            while not commit.done and status.generation != NO_GENERATION:
                yield WAIT
