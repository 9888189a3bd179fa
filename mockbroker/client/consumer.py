"""What its user calls: ``open_consumer`` and the Consumer that it gives."""

from __future__ import annotations

import base64
import random
import re
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import trio

from mockbroker.client.committing import Commit
from mockbroker.client.driver import Connect, Driver, connect_tcp
from mockbroker.client.engine import Engine, Inquiry, addresses
from mockbroker.client.errors import ConcurrentUse, ConsumerError, IllegalUse, TimedOut
from mockbroker.client.interest import Mode
from mockbroker.client.log_offsets import OffsetAndTimestamp
from mockbroker.client.metadata import TopicPartition
from mockbroker.client.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, OffsetAndMetadata
from mockbroker.client.records import ConsumerRecord
from mockbroker.client.settings import Settings

GOODBYE = 5.0  # seconds that closing may take

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]


class RebalanceListener:
    """Derive from it what you need. Called inside of ``poll``, by the task that polls; other work of it is allowed."""

    async def on_revoked(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """These are about to go to others: the last moment to commit what was read of them."""

    async def on_assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """These have come, before anything of them is read: the moment to seek."""

    async def on_lost(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """These have gone to others already. As ``on_revoked`` if it is not overridden."""
        await self.on_revoked(consumer, partitions)


class Interceptor(Protocol):
    """Sees records before the user does."""

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Gives the records to hand out; positions move as if all were."""
        ...


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """Of a member, as producers send it with offsets of a transaction."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None


class Consumer:
    """Made by ``open_consumer``. One task uses it at a time; only ``wakeup`` may come from another."""

    def __init__(
        self,
        driver: Driver,
        listener: RebalanceListener | None,
        interceptors: Sequence[Interceptor],
    ) -> None:
        self._driver, self._engine = driver, driver.engine
        self._listener, self._interceptors = listener, list(interceptors)
        self._owner: trio.lowlevel.Task | None = None
        self._depth = 0
        self._telling = False  # the listener is at work
        self._closed = False
        self._batch: list[ConsumerRecord] = []  # what iteration hands out
        self._handed = 0  # how many of them
        self._callbacks: dict[
            Commit, Callable[[Mapping[TopicPartition, OffsetAndMetadata], ConsumerError | None], object]
        ] = {}

    # Reading

    async def poll(self, timeout: float = float("inf")) -> list[ConsumerRecord]:
        """Records as soon as there are any, at most ``max_poll_records``; none after ``timeout`` seconds.

        Positions then stand behind them. Joins the group, calls the listener, commits by itself where that is due.
        Raises: Wakeup, ConcurrentUse, ConsumerError; what a listener or an assignor raises.
        """
        with self._used(in_a_listener=False):
            self._settle()
            return await self._poll(timeout)

    async def _poll(self, timeout: float) -> list[ConsumerRecord]:
        engine = self._engine
        if engine.interest.mode is Mode.NOTHING:
            raise IllegalUse("neither subscribed to topics nor assigned partitions")
        deadline = trio.current_time() + timeout
        await trio.lowlevel.checkpoint()  # not later: who is cancelled then would lose what was taken
        while True:
            self._driver.now()
            engine.polled()
            engine.auto_commit()
            self._driver.raise_wakeup()
            await self._go_on()
            records = engine.take_records(engine.settings.max_poll_records)
            sent = engine.fetcher.send()  # before anything is handed out: the next answers come while the user works
            self._driver.flush()
            if records:
                records = self._intercepted(records)
                if sent:  # two turns, so that who sends has had one; shielded: positions stand behind these records
                    await trio.lowlevel.cancel_shielded_checkpoint()
                    await trio.lowlevel.cancel_shielded_checkpoint()
                return records
            if trio.current_time() >= deadline:
                return []
            engine.polled(waits=True)
            try:
                await self._driver.wait(min(deadline, engine.auto_commit_at))
            finally:
                self._driver.now()
                engine.polled()

    def _intercepted(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        shown = records
        try:
            for interceptor in self._interceptors:
                shown = interceptor.on_consume(shown)
        except BaseException:
            self._batch, self._handed = records, 0
            self._settle()  # nobody has them: they are read again
            raise
        return shown

    def __aiter__(self) -> Consumer:
        return self

    async def __anext__(self) -> ConsumerRecord:
        """The next record. What is handed out counts as read when the one after it is asked for."""
        at = self._handed
        if at >= len(self._batch):
            with self._used(in_a_listener=False):
                self._batch, self._handed = [], 0
                records: list[ConsumerRecord] = []
                while not records:
                    records = await self._poll(float("inf"))
                self._batch, at = records, 0
        self._handed = at + 1
        return self._batch[at]

    # What to read

    async def subscribe(
        self, topics: Iterable[str] | re.Pattern[str], listener: RebalanceListener | None = None
    ) -> None:
        """Topics, or a pattern that their whole names match; the next poll joins the group. None: as ``unsubscribe``.

        Raises: IllegalUse.
        """
        if isinstance(topics, str):
            raise TypeError("topics are a list of names, not one name")
        if not isinstance(topics, re.Pattern) and not (topics := list(topics)):
            await self.unsubscribe()
            return
        with self._used():
            self._settle()
            self._engine.subscribe(topics)
            if listener is not None:
                self._listener = listener
            await trio.lowlevel.checkpoint()

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions of your choice, without rebalances and failure detection. Raises: IllegalUse."""
        with self._used():
            self._settle()
            self._driver.now()
            if self._engine.auto_commits and len(self._engine.positions):
                self._engine.committer.commit(self._engine.positions.to_commit(), self._api_timeout(), retried=False)
            self._engine.assign(partitions)
            self._driver.flush()
            await trio.lowlevel.checkpoint()

    async def unsubscribe(self) -> None:
        """Give everything up and leave the group."""
        with self._used(in_a_listener=False):
            self._settle()
            await self._give_up(commit=True)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """What is assigned now."""
        return frozenset(self._engine.positions)

    @property
    def subscription(self) -> frozenset[str]:
        """Topics that are subscribed to."""
        return self._engine.interest.topics

    # Where to read

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the next record to be handed out, None while it is not known. Raises: NotAssigned."""
        ahead = self._not_handed()
        if partition in ahead:
            return ahead[partition]
        position = self._engine.positions.of(partition)
        return position.offset if position.known else None

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from there; no broker is asked. Raises: NotAssigned, ValueError, TypeError."""
        _checked(offset)
        with self._used():
            self._settle(partition)
            self._engine.positions.of(partition).move(offset)
            self._engine.positions.unsettled = True

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read on from where the log begins, which is looked up by the next poll; all partitions if none is named."""
        self._look_up(partitions, EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read on from where the log ends, which is looked up by the next poll; all partitions if none is named."""
        self._look_up(partitions, LATEST_TIMESTAMP)

    def seek_to_time(self, timestamp: int, *partitions: TopicPartition) -> None:
        """Seek to the first record with ``timestamp`` (ms since 1970) or later, or to the end if there is none."""
        if timestamp < 0:
            raise ValueError(f"timestamp {timestamp} is below zero")
        self._look_up(partitions, timestamp)

    def _look_up(self, partitions: Sequence[TopicPartition], timestamp: int) -> None:
        with self._used():
            for partition in partitions or tuple(self._engine.positions):
                self._settle(partition)
                self._engine.positions.of(partition).look_up(timestamp)
            self._engine.positions.unsettled = True

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these until ``resume``; they stay assigned. Raises: NotAssigned."""
        with self._used():
            for partition in partitions:
                self._settle(partition)
                self._engine.positions.of(partition).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Raises: NotAssigned."""
        with self._used():
            for partition in partitions:
                self._engine.positions.of(partition).paused = False

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """Partitions that are assigned and paused."""
        return frozenset(partition for partition, position in self._engine.positions.items() if position.paused)

    def lag(self, partition: TopicPartition) -> int | None:
        """Return the number of offsets up to the end that the leader last reported, or None while it is unknown."""
        position = self._engine.positions.of(partition)
        committed = self._engine.settings.isolation_level == "read_committed"
        end = position.last_stable_offset if committed else position.high_watermark
        at = self.position(partition)
        return None if end is None or at is None else end - at

    # Offsets of the group

    async def commit(self, offsets: Offsets | None = None, *, timeout: float | None = None) -> None:
        """Store offsets (of the next records to read) in the group, those of all positions if None; wait for it.

        Raises: CommitFailed, RebalanceInProgress, TimedOut after ``timeout`` seconds, Wakeup, BrokerError; ValueError
        and TypeError for what cannot be an offset.
        """
        with self._used():
            commit = self._begin_commit(offsets, timeout, retried=True)
            try:
                await self._until(lambda: commit.done, timeout)
            finally:
                if not commit.done:
                    self._engine.committer.give_up(commit)
            if commit.error is not None:
                raise commit.error

    def commit_nowait(
        self,
        offsets: Offsets | None = None,
        then: Callable[[Mapping[TopicPartition, OffsetAndMetadata], ConsumerError | None], object] | None = None,
    ) -> None:
        """Begin to store offsets, once. ``then`` is called by a later poll, commit or close, in order."""
        with self._used():
            commit = self._begin_commit(offsets, None, retried=False)
            if then is not None:
                self._callbacks[commit] = then

    def _begin_commit(self, offsets: Offsets | None, timeout: float | None, *, retried: bool) -> Commit:
        if self._engine.group is None:
            raise IllegalUse("to commit takes a group")
        self._driver.now()
        at = self._read_so_far() if offsets is None else _as_offsets(offsets)
        commit = self._engine.committer.commit(at, self._api_timeout() if timeout is None else timeout, retried=retried)
        self._driver.advance()
        return commit

    async def committed(
        self, *partitions: TopicPartition, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; all assigned partitions if none is named. Raises: TimedOut, BrokerError."""
        with self._used():
            self._driver.now()
            inquiry = self._engine.ask_committed(partitions or tuple(self._engine.positions))
            await self._ask(inquiry, timeout)
            return inquiry.found

    async def beginning_offsets(
        self, *partitions: TopicPartition, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Where the logs begin. Raises: TimedOut, BrokerError."""
        found = await self._offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP), timeout)
        return {partition: at.offset for partition, at in found.items() if at}

    async def end_offsets(self, *partitions: TopicPartition, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Where the logs end, as far as this isolation level may read. Raises: TimedOut, BrokerError."""
        found = await self._offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP), timeout)
        return {partition: at.offset for partition, at in found.items() if at}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offsets with these timestamps (ms since 1970) or later; None where there is none.

        Raises: ValueError for one below zero, TimedOut, BrokerError.
        """
        for partition, timestamp in timestamps.items():
            if timestamp < 0:
                raise ValueError(f"timestamp {timestamp} of {partition[0]}-{partition[1]} is below zero")
        return await self._offsets(timestamps, timeout)

    async def _offsets(
        self, wanted: Mapping[TopicPartition, int], timeout: float | None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        with self._used():
            self._driver.now()
            inquiry = self._engine.ask_log(wanted)
            await self._ask(inquiry, timeout)
            return inquiry.found

    async def partitions_for(self, topic: str, *, timeout: float | None = None) -> int:
        """How many partitions a topic has, 0 if there is no such topic. Raises: TimedOut, BrokerError."""
        with self._used():
            self._driver.now()
            inquiry = self._engine.ask_topic(topic)
            await self._ask(inquiry, timeout)
            return inquiry.found

    @property
    def group_metadata(self) -> GroupMetadata:
        """Who this member is now. Raises: IllegalUse without a group."""
        member = self._engine.member
        if member is None or self._engine.group is None:
            raise IllegalUse("there is no group")
        identity = member.identity
        return GroupMetadata(self._engine.group, identity.generation, identity.member_id, identity.instance_id)

    def rejoin(self, reason: str = "the user wants a rebalance") -> None:
        """Ask for a rebalance with the next poll."""
        if self._engine.member:
            self._engine.member.rejoin(reason)

    # Stopping

    def wakeup(self) -> None:
        """Let a poll or commit that waits raise Wakeup, or the next one. May be called by any task of the same run."""
        self._driver.wake(up=True)

    async def close(self, *, commit: bool = True) -> None:
        """Commit if auto-commit is on, call ``on_revoked``, leave the group and disconnect; ``async with`` does it."""
        if self._closed:
            return
        with self._used(in_a_listener=False):
            self._settle()
            self._driver.wake(up=False)
            try:
                await self._give_up(commit=commit)
            finally:
                self._closed = True
                self._driver.now()
                calls = self._engine.fetcher.close()
                self._driver.flush()
                with trio.move_on_after(GOODBYE, shield=True):
                    while self._engine.leaving or not all(call.done for call in calls):
                        await self._driver.wait(float("inf"), interruptible=False)
                self._engine.network.close()
                self._driver.flush()
                self._call_back()

    async def _give_up(self, *, commit: bool) -> None:
        engine = self._engine
        self._driver.now()
        owned = tuple(engine.positions)
        try:
            if commit and engine.auto_commits and owned:
                stored = engine.committer.commit(engine.positions.to_commit(), GOODBYE, retried=True)
                with suppress(TimedOut):  # what is not stored is read again, and whoever ends is not kept
                    await self._until(lambda: stored.done, GOODBYE)
            if engine.interest.subscribed and owned and self._listener:
                lost = engine.member is not None and engine.member.identity.generation < 0
                await self._tell("lost" if lost else "revoked", owned)
        finally:
            self._driver.now()
            engine.unsubscribe()
            self._driver.flush()

    # How it is driven

    async def _go_on(self) -> None:
        """Move the engine, with what the user has to do."""
        engine = self._engine
        self._call_back()
        while True:
            self._driver.now()
            engine.advance(polling=True)
            self._driver.flush()
            call = engine.listener_call
            if call is None:
                return
            error: Exception | None = None
            try:
                await self._tell(call.what, call.partitions)
            except Exception as raised:
                error = raised
            self._driver.now()
            if engine.listener_call is call:
                engine.listener_returned(error)
            elif error is not None:  # what was told is over by now: who is fenced or left meanwhile begins anew
                raise error

    async def _tell(self, what: Literal["revoked", "assigned", "lost"], partitions: Sequence[TopicPartition]) -> None:
        listener = self._listener
        if listener is None:
            return
        told = {"revoked": listener.on_revoked, "assigned": listener.on_assigned, "lost": listener.on_lost}
        self._telling = True
        try:
            await told[what](self, partitions)
        finally:
            self._telling = False

    async def _until(self, done: Callable[[], bool], timeout: float | None = None) -> None:
        """Raises: TimedOut after ``timeout`` seconds, Wakeup."""
        deadline = trio.current_time() + (self._api_timeout() if timeout is None else timeout)
        self._driver.advance()
        if done():
            await trio.lowlevel.checkpoint()
        while not done():
            if trio.current_time() >= deadline:
                raise TimedOut("the brokers did not answer in time")
            await self._driver.wait(deadline)
        self._call_back()

    async def _ask(self, inquiry: Inquiry, timeout: float | None) -> None:
        try:
            await self._until(lambda: inquiry.done, timeout)
        finally:
            self._engine.give_up(inquiry)
        if inquiry.error is not None:
            raise inquiry.error

    def _api_timeout(self) -> float:
        return self._engine.settings.default_api_timeout

    def _call_back(self) -> None:
        finished = self._engine.committer.finished
        while finished:
            commit = finished.popleft()
            if then := self._callbacks.pop(commit, None):
                then(commit.offsets, commit.error)

    @contextmanager
    def _used(self, *, in_a_listener: bool = True) -> Iterator[None]:
        """One task at a time; listeners of that task may come back in, though not to everything."""
        task = trio.lowlevel.current_task()
        if self._closed:
            raise IllegalUse("the consumer is closed")
        if self._owner not in (None, task):
            raise ConcurrentUse("two tasks use one consumer at the same time; only wakeup is for others")
        if self._telling and not in_a_listener:
            raise IllegalUse("a listener may seek and commit, and cannot poll, unsubscribe or close")
        self._owner = task
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self._owner = None

    # Records that iteration has not handed out yet

    def _not_handed(self) -> dict[TopicPartition, int]:
        """The first such offset by partition."""
        found: dict[TopicPartition, int] = {}
        for record in self._batch[self._handed :]:
            found.setdefault((record.topic, record.partition), record.offset)
        return found

    def _read_so_far(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Positions, as far as records were handed out."""
        at = self._engine.positions.to_commit()
        for partition, offset in self._not_handed().items():
            if partition in at:
                at[partition] = OffsetAndMetadata(offset)
        return at

    def _settle(self, partition: TopicPartition | None = None) -> None:
        """Take back what iteration has not handed out, of one partition or of all: it is fetched again."""
        if self._handed >= len(self._batch):
            self._batch, self._handed = [], 0
            return
        for one, offset in self._not_handed().items():
            if partition in (None, one) and (position := self._engine.positions.get(one)) and position.known:
                position.move(offset)
                self._engine.positions.unsettled = True
        rest = self._batch[self._handed :]
        self._batch = [] if partition is None else [r for r in rest if (r.topic, r.partition) != partition]
        self._handed = 0


def _as_offsets(offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
    """Raises: ValueError, TypeError: here, and not where they are written to a broker."""
    found = {p: at if isinstance(at, OffsetAndMetadata) else OffsetAndMetadata(at) for p, at in offsets.items()}
    for at in found.values():
        _checked(at.offset)
        if not isinstance(at.metadata, str):
            raise TypeError(f"metadata of an offset is a str, not {at.metadata!r}")
    return found


def _checked(offset: int) -> int:
    if not isinstance(offset, int):
        raise TypeError(f"an offset is an int, not {offset!r}")
    if offset < 0:
        raise ValueError(f"offset {offset} is below zero")
    if offset >= 2**63:
        raise ValueError(f"offset {offset} takes more than 64 bits")
    return offset


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
    """A consumer of ``topics`` as a member of ``group``, or of ``partitions``; ``settings`` are those of Settings.

    >>> async with open_consumer("127.0.0.1:9092", group="billing", topics=["orders"]) as consumer:
    ...     async for record in consumer:
    ...         print(record.topic, record.partition, record.offset, record.value)

    Closed at the end: the listener's ``on_revoked`` is called, offsets are committed if auto-commit is on, the group is
    left. After an exception nothing is committed: what was handed out last may not be done.

    Raises: ValueError, TypeError for settings that cannot be; AssignorError for an assignor that is not known.
    """
    if isinstance(topics, str):
        raise TypeError("topics are a list of names, not one name")
    engine = Engine(
        addresses(bootstrap),
        group,
        Settings(**settings),
        chance=random.random,
        wall_ms=lambda: time.time_ns() // 1_000_000,
        member_id=base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode(),
    )
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        driver = Driver(engine, nursery, connect)
        consumer = Consumer(driver, listener, interceptors)
        driver.start()
        try:
            if partitions := list(partitions):
                await consumer.assign(partitions)
            if isinstance(topics, re.Pattern) or (topics := list(topics)):
                await consumer.subscribe(topics)
            yield consumer
        except BaseException as error:
            failure = error  # raised below as it is: the nursery is no business of the block
        try:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 2 * GOODBYE):
                await consumer.close(commit=failure is None)
        except BaseException as error:
            failure = failure or error
        driver.stop()
    if failure is not None:
        raise failure
