"""A rebalance of a classic member from the first revocation to the assignment, retries included.

Joining and syncing go on without the user; what calls the user's listener waits for a poll.
Source: AbstractCoordinator.joinGroupIfNeeded of kafka-clients.
"""

from __future__ import annotations

from kwire.assignors import Assignor, by_name, common_protocol
from mockbroker.client.classic.complete import Completing
from mockbroker.client.classic.heartbeat import Heartbeat
from mockbroker.client.classic.join import Joining
from mockbroker.client.classic.lead import Leading
from mockbroker.client.classic.requests import Retry
from mockbroker.client.classic.revoke import Revoking
from mockbroker.client.classic.status import MemberStatus
from mockbroker.client.classic.sync import Syncing
from mockbroker.client.errors import UnjoinedGroup
from mockbroker.client.flow import WAIT, Steps, Waiting
from mockbroker.client.interest import Mode
from mockbroker.client.parts import Parts


class Rebalance:
    """Rebalances of one member, with the assignors that it offers in order of preference.

    resting_until: when the next JoinGroup is sent, after one that failed.
    """

    def __init__(self, parts: Parts, status: MemberStatus, beat: Heartbeat, assignors: list[Assignor]) -> None:
        offered, protocol = by_name(assignors), common_protocol(assignors)
        self._parts, self._status = parts, status
        self.leading = Leading(parts, status, offered, protocol)
        self._revoking = Revoking(parts, status, protocol)
        self._joining = Joining(parts, status, beat, offered, protocol)
        self._syncing = Syncing(parts, status)
        self._completing = Completing(parts, status, self.leading, protocol)
        self.resting_until = 0.0

    def run(self) -> Steps:
        """Rebalance until there is no reason left. Raises: ConsumerError, AssignorError, what a listener raises."""
        status, failures = self._status, 0
        while status.rejoin_reason is not None:
            if not status.revoked and self._parts.interest.mode is Mode.PATTERN:
                yield from self._refresh_matching_topics()
            while self._revoking.needed:
                yield from self._revoking.revoke()
            reason, status.rejoin_reason = status.rejoin_reason or "again", None
            status.subscription_version = self._parts.interest.version
            try:
                retry = yield from self._join_and_sync(reason)
            except UnjoinedGroup as error:
                reason, retry = str(error), Retry.AFTER_BACKOFF
            if retry is None:
                failures = 0
                yield from self._completing.complete()
                continue
            status.rejoin(reason)
            if retry is Retry.AFTER_BACKOFF:
                yield from self._rest(failures)
                failures += 1

    def _join_and_sync(self, reason: str) -> Waiting[Retry | None]:
        response = yield from self._joining.join(reason)
        if isinstance(response, Retry):
            return response
        leads = response.leader == response.member_id
        shares = (yield from self.leading.assign(response)) if leads else {}
        return (yield from self._syncing.sync(shares))

    def _refresh_matching_topics(self) -> Steps:
        """Wait for new metadata: else each member that finds a topic later is one more rebalance."""
        metadata, interest = self._parts.metadata, self._parts.interest
        known = metadata.version
        metadata.refresh()
        while interest.mode is Mode.PATTERN and (metadata.version == known or not metadata.knows_all):
            yield WAIT

    def _rest(self, failures: int) -> Steps:
        time = self._parts.time
        self.resting_until = time.now + self._parts.backoff.after(failures)
        while time.now < self.resting_until:
            yield WAIT
