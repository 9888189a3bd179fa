"""Before a JoinGroup: commit, and give up the partitions that the member cannot keep.

Source: ConsumerCoordinator.onJoinPrepare of kafka-clients.
"""

from __future__ import annotations

from kwire.assignors import COOPERATIVE
from mockbroker.client.classic.status import NO_GENERATION, MemberStatus
from mockbroker.client.flow import POLL, WAIT, ListenerCall, Steps
from mockbroker.client.parts import Parts


class Revoking:
    """Revocation of one member, once a rebalance; a second time if what it kept is lost meanwhile."""

    def __init__(self, parts: Parts, status: MemberStatus, protocol: str) -> None:
        self._parts, self._status, self._protocol = parts, status, protocol

    @property
    def needed(self) -> bool:
        """True until this rebalance has revoked, and when partitions of an ended generation are still assigned."""
        status = self._status
        return not status.revoked or (status.generation == NO_GENERATION and len(self._parts.positions) > 0)

    def revoke(self) -> Steps:
        """Commit, then have the listener called: partitions are revoked, or lost without a generation.

        Raises: what the listener raises.
        """
        positions, status = self._parts.positions, self._status
        if self._protocol != COOPERATIVE:
            positions.keep(())  # no record is returned after the commit
        yield from self._commit()
        yield POLL
        status.revoked = True
        owned = tuple(positions)
        lost = status.generation == NO_GENERATION or not status.member_id
        gone = owned
        if self._protocol == COOPERATIVE and not lost:
            gone = tuple(p for p in owned if p[0] not in self._parts.interest.topics)
        if not gone and (lost or self._protocol == COOPERATIVE):
            return
        kept = set(owned) - set(gone)
        positions.keep(kept)
        error = yield ListenerCall("lost" if lost else "revoked", gone)
        positions.assign([p for p in owned if p in kept])
        if error:
            raise error

    def _commit(self) -> Steps:
        parts, status = self._parts, self._status
        if parts.settings.enable_auto_commit and status.generation != NO_GENERATION:
            offsets = parts.positions.to_commit()
            commit = parts.committer.commit(offsets, parts.settings.max_poll_interval, retried=True)
            while not commit.done and status.generation != NO_GENERATION:
                yield WAIT
