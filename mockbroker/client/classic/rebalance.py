"""The rebalance of a classic member, from the revocation to the assignment, with retries.

Calls of the rebalance listener wait for a poll of the user; JoinGroup and SyncGroup do not.
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
from mockbroker.client.components import Components
from mockbroker.client.errors import UnjoinedGroup
from mockbroker.client.flow import WAIT, Steps, Waiting
from mockbroker.client.subscription import SubscriptionType


class Rebalance:
    """The rebalances of one member of a classic group.

    Args:
        components: The components of the consumer.
        status: Status of the member.
        heartbeat: Heartbeat timers of the member.
        assignors: Supported assignors in order of preference.

    Attributes:
        leading: The tasks of the leader.
        backoff_until: End of the latest backoff after a failed rebalance, in seconds on the engine's clock.
    """

    def __init__(
        self, components: Components, status: MemberStatus, heartbeat: Heartbeat, assignors: list[Assignor]
    ) -> None:
        offered, protocol = by_name(assignors), common_protocol(assignors)
        self._components, self._status = components, status
        self.leading = Leading(components, status, offered, protocol)
        self._revoking = Revoking(components, status, protocol)
        self._joining = Joining(components, status, heartbeat, offered, protocol)
        self._syncing = Syncing(components, status)
        self._completing = Completing(components, status, self.leading)
        self.backoff_until = 0.0

    def run(self) -> Steps:
        """Run rebalances until the member has no reason to rejoin any more.

        The generator yields the condition under which it is resumed (see flow.py).

        Raises: ConsumerError, AssignorError, exceptions of the listener or of an assignor.
        """
        status, failures = self._status, 0
        while status.rejoin_reason is not None:
            if not status.revoked and self._components.subscription.type is SubscriptionType.AUTO_PATTERN:
                yield from self._refresh_matching_topics()
            while self._revoking.needed:
                yield from self._revoking.revoke()
            reason, status.rejoin_reason = status.rejoin_reason or "a repeated rebalance", None
            status.subscription_version = self._components.subscription.version
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
                yield from self._back_off(failures)
                failures += 1

    def _join_and_sync(self, reason: str) -> Waiting[Retry | None]:
        response = yield from self._joining.join(reason)
        if isinstance(response, Retry):
            return response
        leads = response.leader == response.member_id
        assignments = (yield from self.leading.assign(response)) if leads else {}
        return (yield from self._syncing.sync(assignments))

    def _refresh_matching_topics(self) -> Steps:
        """Wait for new metadata, so that the subscription contains all topics that match the pattern.

        Without the wait, a member could discover a matching topic later and cause a second rebalance. The generator
        yields the condition under which it is resumed (see flow.py).
        """
        metadata, subscription = self._components.metadata, self._components.subscription
        known = metadata.version
        metadata.refresh()
        while subscription.type is SubscriptionType.AUTO_PATTERN and (
            metadata.version == known or not metadata.has_all_topics
        ):
            yield WAIT

    def _back_off(self, failures: int) -> Steps:
        clock = self._components.clock
        self.backoff_until = clock.now + self._components.backoff.after(failures)
        while clock.now < self.backoff_until:
            yield WAIT
