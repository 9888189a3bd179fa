"""The public interface of the consumer: ``open_consumer`` and Consumer."""

from __future__ import annotations

import random
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Literal, Protocol

import trio

from kwire.lazy_dataclass import dataclass
from mockbroker.client.committing import Commit
from mockbroker.client.driver import CLOSE_TIMEOUT, Connect, Driver, connect_tcp, driven, new_member_id
from mockbroker.client.engine import Engine, Lookup, addresses
from mockbroker.client.errors import ConcurrentUse, ConsumerError, IllegalUse, TimedOut
from mockbroker.client.log_offsets import OffsetAndTimestamp
from mockbroker.client.metadata import TopicPartition
from mockbroker.client.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, OffsetAndMetadata
from mockbroker.client.records import ConsumerRecord
from mockbroker.client.settings import ConsumerSettings, check, settings_of
from mockbroker.client.subscription import SubscriptionType, checked_partitions, checked_topic, checked_topics

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]


class RebalanceListener:
    """Base class of rebalance listeners. The methods run inside ``poll``, in the task that polls."""

    async def on_revoked(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Handle the revocation of partitions before they are revoked.

        This is the last opportunity to commit the offsets of these partitions.

        Args:
            consumer: The consumer.
            partitions: The partitions to be revoked.
        """

    async def on_assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Handle the assignment of partitions before their first records are returned. The method may call ``seek``.

        Args:
            consumer: The consumer.
            partitions: The newly assigned partitions.
        """

    async def on_lost(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Handle the loss of partitions. A different member of the group may already own them.

        The base class calls ``on_revoked``.

        Args:
            consumer: The consumer.
            partitions: The lost partitions.
        """
        await self.on_revoked(consumer, partitions)


class Interceptor(Protocol):
    """An interceptor that processes records before a poll returns them."""

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Return the records that the poll returns to the user.

        The positions advance past all of ``records``, also past records that the result does not contain.
        """
        ...


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """The group membership that a transactional producer sends with consumed offsets (TxnOffsetCommit).

    Attributes:
        group_id: Group id.
        generation_id: Generation or member epoch; -1 outside of a group.
        member_id: Member id; "" outside of a group.
        group_instance_id: ``group.instance.id`` of a static member; None for a dynamic member.
    """

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None


class Consumer:
    """A Kafka consumer, returned by ``open_consumer``.

    Only one task may use a consumer at a time. Only ``wakeup`` may be called by any task of the same trio run.
    """

    def __init__(
        self,
        driver: Driver[Engine],
        listener: RebalanceListener | None,
        interceptors: Sequence[Interceptor],
    ) -> None:
        self._driver, self._engine = driver, driver.engine
        self._listener, self._interceptors = listener, list(interceptors)
        self._owner: trio.lowlevel.Task | None = None
        self._depth = 0
        self._in_listener = False  # the rebalance listener runs
        self._closed = False
        self._unreturned: deque[ConsumerRecord] = deque()  # polled by an iteration that has not returned them yet
        self._callbacks: dict[
            Commit, Callable[[Mapping[TopicPartition, OffsetAndMetadata], ConsumerError | None], object]
        ] = {}

    # Reading

    async def poll(self, timeout: float = float("inf")) -> list[ConsumerRecord]:
        """Wait for records and return up to ``max_poll_records`` records; an empty list after the timeout.

        Positions advance past the returned records. A poll also joins the group, calls the listener and auto-commits.

        Args:
            timeout: maximum wait in seconds.

        Raises: Wakeup, ConcurrentUse, ConsumerError; IllegalUse before ``subscribe`` or ``assign``; exceptions of the
        listener or of an assignor.
        """
        with self._acquired(in_listener=False):
            self._discard_unreturned()
            return await self._poll(timeout)

    async def _poll(self, timeout: float) -> list[ConsumerRecord]:
        engine = self._engine
        if engine.subscription.type is SubscriptionType.NONE:
            raise IllegalUse("nothing to poll: call subscribe() or assign() first")
        deadline = trio.current_time() + timeout
        await trio.lowlevel.checkpoint()  # not later: a cancellation would then lose collected records
        while True:
            self._driver.update_clock()
            engine.record_poll()
            engine.auto_commit()
            self._driver.raise_wakeup()
            await self._advance()
            records = engine.collect_records(engine.settings.max_poll_records)
            sent = engine.fetcher.send_fetches()  # the next records arrive while the user processes these
            self._driver.flush()
            if records:
                records = self._intercepted(records)
                if sent:  # two turns let the sending task run; shielded, since positions are past these records
                    await trio.lowlevel.cancel_shielded_checkpoint()
                    await trio.lowlevel.cancel_shielded_checkpoint()
                return records
            if trio.current_time() >= deadline:
                return []
            engine.record_poll(waiting=True)
            try:
                await self._driver.wait(min(deadline, engine.auto_commit_at))
            finally:
                self._driver.update_clock()
                engine.record_poll()

    def _intercepted(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        intercepted = records
        try:
            for interceptor in self._interceptors:
                intercepted = interceptor.on_consume(intercepted)
        except BaseException:
            self._unreturned = deque(records)
            self._discard_unreturned()  # the user did not get them: they are read again
            raise
        return intercepted

    def __aiter__(self) -> Consumer:
        return self

    async def __anext__(self) -> ConsumerRecord:
        """Return the next record, and advance the position of its partition past the record."""
        if not self._unreturned:
            with self._acquired(in_listener=False):
                while not self._unreturned:
                    records = await self._poll(float("inf"))  # a seek in the listener replaces the deque
                    self._unreturned.extend(records)
        return self._unreturned.popleft()

    # What to read

    async def subscribe(
        self, topics: Iterable[str] | re.Pattern[str], listener: RebalanceListener | None = None
    ) -> None:
        """Replace the subscription; the next poll joins the group.

        Args:
            topics: Topic names, or a pattern that whole topic names have to match. An empty list unsubscribes.
            listener: New rebalance listener; None to retain the current listener.

        Raises: IllegalUse without a group, or after ``assign``; TypeError, ValueError if ``topics`` is neither a list
        of names nor a pattern.
        """
        topics = _checked_subscription(topics)
        if not topics:
            await self.unsubscribe()
            return
        with self._acquired():
            self._discard_unreturned()
            self._engine.subscribe(topics)
            if listener is not None:
                self._listener = listener
            await trio.lowlevel.checkpoint()

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assigned partitions. The consumer does not join the group, so there are no rebalances and no
        failure detection.

        If auto-commit is on, the positions of the previous partitions are committed, without waiting for the response.

        Raises: IllegalUse after ``subscribe``; TypeError, ValueError for an invalid partition.
        """
        partitions = checked_partitions(partitions)
        with self._acquired():
            self._discard_unreturned()
            self._driver.update_clock()
            if self._engine.auto_commits:
                self._engine.committer.commit(self._engine.positions.to_commit(), self._api_timeout(), retried=False)
            self._engine.assign(partitions)
            self._driver.flush()
            await trio.lowlevel.checkpoint()

    async def unsubscribe(self) -> None:
        """Revoke all partitions and leave the group. If auto-commit is on, the positions are committed first."""
        with self._acquired(in_listener=False):
            self._discard_unreturned()
            await self._revoke_and_leave(commit=True)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are assigned to this consumer."""
        return frozenset(self._engine.positions)

    @property
    def subscription(self) -> frozenset[str]:
        """The names of the subscribed topics, including topics that match the pattern."""
        return self._engine.subscription.topics

    # Where to read

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset of the next record to read; None while the offset is unknown.

        Raises: NotAssigned if a partition is not assigned to this consumer.
        """
        ahead = self._unreturned_offsets()
        if partition in ahead:
            return ahead[partition]
        return self._engine.positions.of(partition).offset

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the position of a partition to an offset. No request is sent.

        Args:
            partition: An assigned partition.
            offset: Offset of the next record to read.

        Raises: NotAssigned if the partition is not assigned to this consumer; ValueError if the offset is not 0 to
        2**63 - 1, TypeError if it is not an int.
        """
        _check_offset(offset)
        with self._acquired():
            self._discard_unreturned(partition)
            self._engine.positions.seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Set the position to the beginning of the log; the next poll looks the offset up.

        Args:
            partitions: Assigned partitions; none for all of them.

        Raises: NotAssigned if a partition is not assigned to this consumer.
        """
        self._reset_positions(partitions, EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Set the position to the end of the log; the next poll looks the offset up.

        Args:
            partitions: Assigned partitions; none for all of them.

        Raises: NotAssigned if a partition is not assigned to this consumer.
        """
        self._reset_positions(partitions, LATEST_TIMESTAMP)

    def seek_to_time(self, timestamp: int, *partitions: TopicPartition) -> None:
        """Set the position to the first record with ``timestamp`` or later, or to the end of the log if there is none.

        Args:
            timestamp: Milliseconds since 1970.
            partitions: Assigned partitions; none for all of them.

        Raises: ValueError, TypeError for an invalid timestamp; NotAssigned if a partition is not assigned to this
        consumer.
        """
        _check_timestamp(timestamp)
        self._reset_positions(partitions, timestamp)

    def _reset_positions(self, partitions: Sequence[TopicPartition], timestamp: int) -> None:
        with self._acquired():
            for partition in partitions or tuple(self._engine.positions):
                self._discard_unreturned(partition)
                position = self._engine.positions.of(partition)
                position.reset_to(timestamp)
                position.settled = True
            self._engine.positions.unresolved = True

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until ``resume``; they stay assigned.

        Raises: NotAssigned if a partition is not assigned to this consumer.
        """
        with self._acquired():
            for partition in partitions:
                self._discard_unreturned(partition)
                self._engine.positions.of(partition).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again.

        Raises: NotAssigned if a partition is not assigned to this consumer.
        """
        with self._acquired():
            for partition in partitions:
                self._engine.positions.of(partition).paused = False

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The assigned partitions that are paused, so that ``poll`` returns no records of them."""
        return frozenset(partition for partition, position in self._engine.positions.items() if position.paused)

    def lag(self, partition: TopicPartition) -> int | None:
        """Return the number of offsets from the position to the end of the log, or None while position or end is
        unknown.

        The end of the log is the high watermark in the latest Fetch response; with ``read_committed``, the last stable
        offset.

        Raises: NotAssigned if the partition is not assigned to this consumer.
        """
        position = self._engine.positions.of(partition)
        committed = self._engine.settings.isolation_level == "read_committed"
        end = position.last_stable_offset if committed else position.high_watermark
        at = self.position(partition)
        return None if end is None or at is None else end - at

    # Offsets of the group

    async def commit(self, offsets: Offsets | None = None, *, timeout: float | None = None) -> None:
        """Commit offsets and wait until the coordinator has stored them.

        Args:
            offsets: Partition -> offset of the next record to read. None for the positions of all assigned partitions:
                then all records returned so far are committed.
            timeout: Maximum wait in seconds; None for ``default_api_timeout``.

        Raises: CommitFailed, RebalanceInProgress, TimedOut, Wakeup, BrokerError; IllegalUse without a group; ValueError
        or TypeError for an invalid offset.
        """
        with self._acquired():
            commit = self._begin_commit(offsets, timeout, retried=True)
            try:
                await self._wait_until(lambda: commit.done, timeout)
            finally:
                if not commit.done:
                    self._engine.committer.abandon(commit)
            if commit.error is not None:
                raise commit.error

    def commit_nowait(
        self,
        offsets: Offsets | None = None,
        then: Callable[[Mapping[TopicPartition, OffsetAndMetadata], ConsumerError | None], object] | None = None,
    ) -> None:
        """Commit offsets without waiting for the response and without retries.

        Args:
            offsets: Partition -> offset of the next record to read; None for the positions of all assigned partitions.
            then: Callback that is called with the offsets, and with the error or, after a success, None. A later poll,
                commit or close calls the callbacks in the order of the commits. None for no callback.

        Raises: IllegalUse without a group; ValueError or TypeError for an invalid offset.
        """
        with self._acquired():
            commit = self._begin_commit(offsets, None, retried=False)
            if then is not None:
                self._callbacks[commit] = then

    def _begin_commit(self, offsets: Offsets | None, timeout: float | None, *, retried: bool) -> Commit:
        if self._engine.group is None:
            raise IllegalUse("commit() needs a group: open the consumer with group=...")
        self._driver.update_clock()
        at = self._offsets_to_commit() if offsets is None else _checked_offsets(offsets)
        commit = self._engine.committer.commit(at, self._api_timeout() if timeout is None else timeout, retried=retried)
        self._driver.advance()
        return commit

    async def committed(
        self, *partitions: TopicPartition, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offsets of the group, by partition. The value is None for a partition without a
        committed offset.

        Args:
            partitions: the partitions; none for all assigned partitions.
            timeout: maximum wait in seconds; None for ``default_api_timeout``.

        Raises: TimedOut, Wakeup, BrokerError; IllegalUse without a group.
        """
        with self._acquired():
            self._driver.update_clock()
            lookup = self._engine.look_up_committed(checked_partitions(partitions) or tuple(self._engine.positions))
            await self._wait_lookup(lookup, timeout)
            return lookup.result

    async def beginning_offsets(
        self, *partitions: TopicPartition, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition.

        Args:
            partitions: the partitions.
            timeout: maximum wait in seconds; None for ``default_api_timeout``.

        Raises: TimedOut after the timeout; Wakeup if a wakeup was requested; BrokerError if a broker returns an error
        that a retry cannot solve.
        """
        offsets = await self._log_offsets(dict.fromkeys(checked_partitions(partitions), EARLIEST_TIMESTAMP), timeout)
        return {partition: at.offset for partition, at in offsets.items() if at}

    async def end_offsets(self, *partitions: TopicPartition, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Return the end offset of each partition; with ``read_committed``, the last stable offset.

        Args:
            partitions: the partitions.
            timeout: maximum wait in seconds; None for ``default_api_timeout``.

        Raises: TimedOut after the timeout; Wakeup if a wakeup was requested; BrokerError if a broker returns an error
        that a retry cannot solve.
        """
        offsets = await self._log_offsets(dict.fromkeys(checked_partitions(partitions), LATEST_TIMESTAMP), timeout)
        return {partition: at.offset for partition, at in offsets.items() if at}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the offset of the first record at or after a timestamp, by partition; None for a partition without
        such a record.

        Args:
            timestamps: milliseconds since 1970, by partition.
            timeout: maximum wait in seconds; None for ``default_api_timeout``.

        Raises: ValueError, TypeError for an invalid timestamp or partition; TimedOut, Wakeup, BrokerError.
        """
        checked_partitions(timestamps)
        for partition, timestamp in timestamps.items():
            _check_timestamp(timestamp, f" of {partition[0]}-{partition[1]}")
        return await self._log_offsets(timestamps, timeout)

    async def _log_offsets(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        with self._acquired():
            self._driver.update_clock()
            lookup = self._engine.look_up_log(timestamps)
            await self._wait_lookup(lookup, timeout)
            return lookup.result

    async def partitions_for(self, topic: str, *, timeout: float | None = None) -> int:
        """Return the number of partitions of a topic; 0 if the topic does not exist.

        Args:
            topic: topic name.
            timeout: maximum wait in seconds; None for ``default_api_timeout``.

        Raises: TimedOut after the timeout; Wakeup if a wakeup was requested; BrokerError if a broker returns an error
        that a retry cannot solve.
        """
        checked_topic(topic)
        with self._acquired():
            self._driver.update_clock()
            lookup = self._engine.look_up_topic(topic)
            await self._wait_lookup(lookup, timeout)
            return lookup.result

    @property
    def group_metadata(self) -> GroupMetadata:
        """The current membership in the group, for a transactional producer. Raises: IllegalUse without a group."""
        member, group = self._engine.member, self._engine.group
        if group is None:
            raise IllegalUse("group_metadata needs a group: open the consumer with group=...")
        assert member
        identity = member.identity
        return GroupMetadata(group, identity.generation, identity.member_id, identity.instance_id)

    def rejoin(self, reason: str = "the application requested a rebalance") -> None:
        """Request a rebalance with the next poll. Without a group, do nothing.

        ``reason``: text that is sent to the coordinator in the classic protocol.
        """
        if self._engine.member:
            self._engine.member.rejoin(reason)

    # Stopping

    def wakeup(self) -> None:
        """Make the current call that waits, such as a poll or a commit, raise Wakeup; if no call is waiting, the next
        one raises Wakeup.

        Any task of the same trio run may call this method.
        """
        self._driver.request_wakeup()

    async def close(self, *, commit: bool = True) -> None:
        """Call the listener, leave the group, close all connections, and call pending callbacks of ``commit_nowait``.
        Do nothing if the consumer is closed.

        ``open_consumer`` calls this method at the end of its block.

        Args:
            commit: Whether to commit the positions first if auto-commit is on.
        """
        if self._closed:
            return
        with self._acquired(in_listener=False):
            self._discard_unreturned()
            self._driver.disable_wakeups()
            try:
                await self._revoke_and_leave(commit=commit)
            finally:
                self._closed = True
                calls = self._engine.fetcher.close()
                self._driver.flush()
                with trio.move_on_after(CLOSE_TIMEOUT, shield=True):
                    while self._engine.leaving or not all(call.done for call in calls):
                        await self._driver.wait(float("inf"), interruptible=False)
                self._engine.network.close()
                self._driver.flush()
                self._run_callbacks()

    async def _revoke_and_leave(self, *, commit: bool) -> None:
        engine = self._engine
        self._driver.update_clock()
        owned = tuple(engine.positions)
        try:
            try:
                if commit and engine.auto_commits:
                    stored = engine.committer.commit(engine.positions.to_commit(), CLOSE_TIMEOUT, retried=True)
                    with suppress(TimedOut):  # uncommitted records are read again; closing does not wait longer
                        await self._wait_until(lambda: stored.done, CLOSE_TIMEOUT, interruptible=False)
            finally:  # also after a cancellation
                if engine.subscription.subscribed and owned:
                    lost = engine.member is not None and engine.member.identity.generation < 0
                    await self._call_listener("lost" if lost else "revoked", owned)
        finally:
            self._driver.update_clock()
            engine.unsubscribe()
            self._driver.flush()

    # Driving the engine

    async def _advance(self) -> None:
        """Advance the engine inside a poll, and call the listener while the engine requests a call."""
        engine = self._engine
        self._run_callbacks()
        while True:
            self._driver.update_clock()
            engine.advance(polling=True)
            self._driver.flush()
            call = engine.listener_call
            if call is None:
                return
            error: Exception | None = None
            try:
                await self._call_listener(call.kind, call.partitions)
            except Exception as raised:
                error = raised
            self._driver.update_clock()
            if engine.listener_call is call:
                engine.listener_returned(error)
            elif error is not None:  # the member was fenced or left meanwhile: no flow handles the error
                raise error

    async def _call_listener(
        self, kind: Literal["revoked", "assigned", "lost"], partitions: Sequence[TopicPartition]
    ) -> None:
        listener = self._listener
        if listener is None:
            return
        methods = {"revoked": listener.on_revoked, "assigned": listener.on_assigned, "lost": listener.on_lost}
        self._in_listener = True
        try:
            await methods[kind](self, partitions)
        finally:
            self._in_listener = False

    async def _wait_until(
        self, done: Callable[[], bool], timeout: float | None = None, *, interruptible: bool = True
    ) -> None:
        """Wait until ``done`` returns True.

        Args:
            done: The condition.
            timeout: Maximum wait in seconds; None for ``default_api_timeout``.
            interruptible: Whether a wakeup ends the wait; False to leave it to the next call.

        Raises: TimedOut after the timeout; Wakeup if a wakeup was requested.
        """
        seconds = self._api_timeout() if timeout is None else timeout
        deadline = trio.current_time() + seconds
        self._driver.advance()
        if done():
            await trio.lowlevel.checkpoint()
        while not done():
            if trio.current_time() >= deadline:
                raise TimedOut(f"no response within {seconds:g} s: check the connection, or give a longer timeout")
            await self._driver.wait(deadline, interruptible=interruptible)
        self._run_callbacks()

    async def _wait_lookup(self, lookup: Lookup, timeout: float | None) -> None:
        try:
            await self._wait_until(lambda: lookup.done, timeout)
        finally:
            self._engine.drop_lookup(lookup)
        if lookup.error is not None:
            raise lookup.error

    def _api_timeout(self) -> float:
        return self._engine.settings.default_api_timeout

    def _run_callbacks(self) -> None:
        finished = self._engine.committer.finished
        while finished:
            commit = finished.popleft()
            if then := self._callbacks.pop(commit, None):
                then(commit.offsets, commit.error)

    @contextmanager
    def _acquired(self, *, in_listener: bool = True) -> Iterator[None]:
        """Reserve the consumer for the current task while the block runs.

        Args:
            in_listener: Whether a rebalance listener may make this call. (A listener runs in the task that polls.)

        Raises: IllegalUse if the consumer is closed, or if a listener makes the call although ``in_listener`` is False;
        ConcurrentUse if a different task uses the consumer.
        """
        task = trio.lowlevel.current_task()
        if self._closed:
            raise IllegalUse("the consumer is closed: open another one")
        if self._owner not in (None, task):
            raise ConcurrentUse("another task is using this consumer: other tasks may only call wakeup()")
        if self._in_listener and not in_listener:
            raise IllegalUse("a rebalance listener cannot poll, unsubscribe or close: do that after the poll")
        self._owner = task
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self._owner = None

    # Records that the iteration has not returned yet

    def _unreturned_offsets(self) -> dict[TopicPartition, int]:
        """Return partition -> offset of the first record that a poll has returned, but the iteration has not returned
        yet.
        """
        offsets: dict[TopicPartition, int] = {}
        for record in self._unreturned:
            offsets.setdefault((record.topic, record.partition), record.offset)
        return offsets

    def _offsets_to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit, by partition.

        For a partition with records that the iteration has not returned yet, this is the offset of the first such
        record. For all other partitions, this is the position.
        """
        at = self._engine.positions.to_commit()
        for partition, offset in self._unreturned_offsets().items():
            if partition in at:
                at[partition] = OffsetAndMetadata(offset)
        return at

    def _discard_unreturned(self, partition: TopicPartition | None = None) -> None:
        """Drop the records that the iteration has not returned yet, and move the positions back to fetch these records
        again.

        ``partition``: the partition; None for all partitions.
        """
        for one, offset in self._unreturned_offsets().items():
            if partition in (None, one) and (position := self._engine.positions.get(one)) and position.known:
                self._engine.positions.seek(one, offset)
        self._unreturned = deque(
            record for record in self._unreturned if partition not in (None, (record.topic, record.partition))
        )


def _checked_offsets(offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
    """Check offsets that the user wants to commit, and return them as OffsetAndMetadata, by partition.

    Raises: ValueError, TypeError for an invalid offset, or a partition that is not a pair of topic and number.
    """
    checked_partitions(offsets)
    checked = {p: at if isinstance(at, OffsetAndMetadata) else OffsetAndMetadata(at) for p, at in offsets.items()}
    for at in checked.values():
        _check_offset(at.offset)
        if not isinstance(at.metadata, str):
            raise TypeError(f"metadata of an offset must be a str, got {at.metadata!r}")
    return checked


def _checked_subscription(topics: Iterable[str] | re.Pattern[str]) -> list[str] | re.Pattern[str]:
    """Return topic names as a list, or a pattern.

    Raises: TypeError for a name or a pattern that is not a str; ValueError for a name that cannot be encoded.
    """
    if not isinstance(topics, re.Pattern):
        return checked_topics(topics, "a list of names or a pattern")
    if not isinstance(topics.pattern, str):
        raise TypeError(f"a pattern of topics must be a str, got {topics.pattern!r}")
    return topics


def _check_timestamp(timestamp: int, of: str = "") -> None:
    """Check a timestamp. ``of``: the partition, for the message.

    Raises: ValueError, TypeError for a timestamp that is not an int from 0 to 2**63 - 1.
    """
    if not isinstance(timestamp, int):
        raise TypeError(f"timestamp {timestamp!r}{of} is not an int: give milliseconds since 1970")
    if timestamp < 0:
        raise ValueError(f"timestamp {timestamp}{of} is negative: give milliseconds since 1970")
    if timestamp >= 2**63:
        raise ValueError(f"timestamp {timestamp}{of} is above the limit of 2**63 - 1: give milliseconds since 1970")


def _check_offset(offset: int) -> int:
    if not isinstance(offset, int):
        raise TypeError(f"an offset must be an int, got {offset!r}")
    if offset < 0:
        raise ValueError(f"offset {offset} is negative: use 0 or more")
    if offset >= 2**63:
        raise ValueError(f"offset {offset} is above the limit of 2**63 - 1")
    return offset


OPTIONS = ("group", "topics", "partitions", "listener", "interceptors", "connect")  # of open_consumer, beside settings


@asynccontextmanager
async def open_consumer(
    bootstrap: str | Sequence[str],
    *,
    group: str | None = None,
    topics: Iterable[str] | re.Pattern[str] = (),
    partitions: Iterable[TopicPartition] = (),
    listener: RebalanceListener | None = None,
    interceptors: Sequence[Interceptor] = (),
    connect: Connect = connect_tcp,
    **settings: Any,
) -> AsyncIterator[Consumer]:
    """Open a consumer that subscribes to ``topics`` as a member of ``group``, or that reads ``partitions``.

    >>> async with open_consumer("127.0.0.1:9092", group="billing", topics=["orders"]) as consumer:
    ...     async for record in consumer:
    ...         print(record.topic, record.partition, record.offset, record.value)

    Args:
        bootstrap: ``host:port`` addresses of brokers, separated by commas or as a list.
        group: Group id; None without a group.
        topics: Topic names, or a pattern that whole topic names have to match.
        partitions: Topics and partition numbers to read without rebalances.
        listener: Rebalance listener; None for no listener.
        interceptors: Interceptors, in the order in which records pass them.
        connect: Async function that returns a stream to a host and port.
        settings: Settings by name, such as ``max_poll_records=100``; see ``ConsumerSettings``.

    At the end of the block the consumer commits if auto-commit is on, calls the listener's ``on_revoked`` and leaves
    the group. If the block raises an exception, nothing is committed, because the last records may not be processed.

    Raises: ValueError, TypeError for invalid arguments and settings; AssignorError for an unknown assignor;
    RuntimeError outside of a trio run.
    """
    check("group", "str | None", group)
    if listener is not None and (isinstance(listener, type) or not hasattr(listener, "on_assigned")):
        raise TypeError(f"the rebalance listener is {listener!r}: use an object of a subclass of RebalanceListener")
    topics, partitions = _checked_subscription(topics), checked_partitions(partitions)
    if topics and partitions:
        raise ValueError(
            "both topics and partitions are given: use topics to join the group, partitions to read without rebalances"
        )
    engine = Engine(
        addresses(bootstrap),
        group,
        settings_of(ConsumerSettings, settings, OPTIONS),
        jitter=random.random,
        wall_clock_ms=lambda: time.time_ns() // 1_000_000,
        member_id=new_member_id(),
    )
    async with driven(
        engine,
        connect,
        lambda driver: Consumer(driver, listener, interceptors),
        lambda consumer, succeeded: consumer.close(commit=succeeded),
    ) as consumer:
        if partitions:
            await consumer.assign(partitions)
        if topics:
            await consumer.subscribe(topics)
        yield consumer
