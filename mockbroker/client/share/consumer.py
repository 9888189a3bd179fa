"""The public interface of the share consumer: ``open_share_consumer`` and ShareConsumer."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import trio

from mockbroker.client.driver import CLOSE_TIMEOUT, Connect, Driver, connect_tcp, driven, new_member_id
from mockbroker.client.engine import addresses
from mockbroker.client.errors import ConcurrentUse, ConsumerError, IllegalUse, TimedOut
from mockbroker.client.metadata import TopicPartition
from mockbroker.client.settings import check, settings_of
from mockbroker.client.share.acknowledgements import AcknowledgeType, Delivery, ShareRecord
from mockbroker.client.share.engine import ShareEngine
from mockbroker.client.share.fetching import Acknowledged, check_acknowledged
from mockbroker.client.share.settings import EXPLICIT, ShareSettings
from mockbroker.client.subscription import checked_topics

OnAcknowledged = Callable[[TopicPartition, Sequence[int], ConsumerError | None], object]

KINDS = frozenset(AcknowledgeType) - {AcknowledgeType.GAP}  # that a user may give


class ShareConsumer:
    """A consumer in a share group, returned by ``open_share_consumer``.

    A record is acquired by one member at a time, and is delivered again if this member does not acknowledge it. Only
    one task may use a share consumer at a time. Only ``wakeup`` may be called by any task of the same trio run.
    """

    def __init__(self, driver: Driver[ShareEngine], on_acknowledged: OnAcknowledged | None) -> None:
        self._driver, self._engine = driver, driver.engine
        self._on_acknowledged = on_acknowledged
        self._explicit = self._engine.settings.share_acknowledgement_mode == EXPLICIT
        self._returned: list[Delivery] = []  # of the latest poll
        self._batch: list[ShareRecord] = []  # the records of the latest poll of an iteration, the next one last
        self._owner: trio.lowlevel.Task | None = None
        self._closed = False

    async def poll(self, timeout: float = float("inf")) -> list[ShareRecord]:
        """Wait for records and return about ``max_poll_records`` records; an empty list after the timeout.

        In implicit mode, a poll accepts the records of the previous poll.

        Args:
            timeout: maximum wait in seconds.

        Raises: IllegalUse before ``subscribe``, and in explicit mode if a record of the previous poll is not
            acknowledged; Wakeup, ConcurrentUse, ConsumerError.
        """
        with self._acquired():
            return await self._poll(timeout)

    async def _poll(self, timeout: float) -> list[ShareRecord]:
        engine = self._engine
        if not engine.member.topics:
            raise IllegalUse("nothing to poll: call subscribe() first")
        self._finish_batch()
        deadline = trio.current_time() + timeout
        await trio.lowlevel.checkpoint()  # not later: a cancellation would then lose acquired records
        engine.fetching = True
        try:
            while True:
                self._driver.update_clock()
                self._driver.raise_wakeup()
                if deliveries := engine.fetcher.take_deliveries():
                    self._returned = deliveries
                    if records := [record for delivery in deliveries for record in delivery.records]:
                        return records
                    self._finish_batch()  # there were only gaps
                    continue
                try:
                    engine.advance(polling=True)
                finally:
                    self._driver.flush()
                self._call_back()
                if trio.current_time() >= deadline:
                    return []
                await self._driver.wait(deadline)
        finally:
            engine.fetching = False

    def __aiter__(self) -> ShareConsumer:
        return self

    async def __anext__(self) -> ShareRecord:
        """Return the next record. In implicit mode, all records of a poll are accepted when the next poll begins."""
        while not self._batch:
            with self._acquired():
                self._batch = (await self._poll(float("inf")))[::-1]
        return self._batch.pop()

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Replace the subscription; the next poll joins the group.
        Raises: TypeError, ValueError if ``topics`` is not a list of names.
        """
        topics = checked_topics(topics, "a list of names")
        with self._acquired():
            self._driver.update_clock()
            self._engine.subscribe(topics)
            self._driver.flush()
            await trio.lowlevel.checkpoint()

    @property
    def subscription(self) -> frozenset[str]:
        """The names of the subscribed topics."""
        return self._engine.member.topics

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The assigned partitions of known topics. In a share group, several members can have the same partition."""
        names = self._engine.metadata.topic_names
        return frozenset((names[topic], number) for topic, number in self._engine.member.assigned if topic in names)

    def acknowledge(self, record: ShareRecord, kind: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Acknowledge a record of the latest poll. The acknowledgement is sent with the next poll or commit.

        Args:
            record: The record.
            kind: ACCEPT for a processed record; RELEASE to have the record delivered again; REJECT to prevent further
                deliveries; RENEW to extend the acquisition lock and acknowledge the record later.

        Raises: IllegalUse in implicit mode; IllegalUse if the record is not of the latest poll, or is already
        acknowledged; ValueError if ``kind`` is not one of the four types.
        """
        if not self._explicit:
            raise IllegalUse("acknowledge() needs explicit acknowledgement: set share_acknowledgement_mode to explicit")
        if kind not in KINDS:
            raise ValueError(f"kind is {kind!r}: use AcknowledgeType.ACCEPT, RELEASE, REJECT or RENEW")
        for delivery in self._returned:
            if delivery.partition == (record.topic, record.partition) and record.offset in delivery.open:
                delivery.acknowledge([record.offset], kind)
                return
        raise IllegalUse(
            f"offset {record.offset} of {record.topic}-{record.partition} is not a record of the latest poll that is "
            "still to be acknowledged: acknowledge each record once, before the next poll"
        )

    async def commit(self, *, timeout: float | None = None) -> dict[TopicPartition, ConsumerError | None]:
        """Send the acknowledgements, and wait until the brokers have stored them.

        In implicit mode the records of the latest poll are accepted.

        Args:
            timeout: Maximum wait in seconds; None for ``default_api_timeout``.

        Returns:
            The error of each partition with acknowledgements; None if the broker has stored them.

        Raises: TimedOut after the timeout; Wakeup if a wakeup was requested; ConcurrentUse if another task uses the
        consumer.
        """
        with self._acquired():
            if not self._explicit:
                self._accept()
            self._engine.fetcher.send_later(self._returned)
            results = await self._send_acknowledgements(timeout)
            return {result.partition: result.error for result in results}

    def wakeup(self) -> None:
        """Make the current poll or commit raise Wakeup; if no call is waiting, the next poll or commit raises Wakeup.

        Any task of the same trio run may call this method.
        """
        self._driver.request_wakeup()

    async def close(self, *, accept: bool = True) -> None:
        """Send the acknowledgements, release the records without an acknowledgement, leave the group, and close all
        connections. Do nothing if the consumer is closed.

        ``open_share_consumer`` calls this method at the end.

        Args:
            accept: Whether the records of the latest poll are accepted in implicit mode; False to release them.

        Raises: ConcurrentUse if another task uses the consumer.
        """
        if self._closed:
            return
        with self._acquired():
            self._driver.disable_wakeups()
            if accept and not self._explicit:
                self._accept()
            unread = {(record.topic, record.partition, record.offset) for record in self._batch}
            for delivery in self._returned:
                offsets = {offset for offset in delivery.types if (*delivery.partition, offset) in unread}
                delivery.acknowledge({*delivery.open, *offsets}, AcknowledgeType.RELEASE)
            fetcher, member = self._engine.fetcher, self._engine.member
            fetcher.send_later(self._returned)
            self._returned, self._batch = [], []
            try:
                with trio.move_on_after(CLOSE_TIMEOUT):
                    await self._wait_until(lambda: not fetcher.waiting)
                    fetcher.close()
                    await self._wait_until(lambda: not fetcher.busy)
                with trio.move_on_after(CLOSE_TIMEOUT):
                    self._driver.update_clock()
                    member.leave()
                    await self._wait_until(lambda: not member.leaving)
            finally:
                self._closed = True
                self._call_back()
                self._engine.network.close()
                self._driver.flush()

    # --- acknowledgements ---

    def _accept(self) -> None:
        for delivery in self._returned:
            delivery.acknowledge(set(delivery.open), AcknowledgeType.ACCEPT)

    def _finish_batch(self) -> None:
        """Queue the acknowledgements of the latest poll for the next request.

        Raises: IllegalUse in explicit mode, if a record is not acknowledged.
        """
        if self._explicit:
            check_acknowledged(self._returned)
        else:
            self._accept()
        self._engine.fetcher.send_later(self._returned)
        self._returned, self._batch = [], []

    async def _send_acknowledgements(self, timeout: float | None) -> list[Acknowledged]:
        """Send all acknowledgements, and wait until the brokers have answered. Return the results, and pass them to the
        callback of the user.

        ``timeout``: maximum wait in seconds; None for ``default_api_timeout``.

        Raises: TimedOut after the timeout; Wakeup if a wakeup was requested.
        """
        fetcher = self._engine.fetcher
        seconds = self._engine.settings.default_api_timeout if timeout is None else timeout
        fetcher.committing = True
        try:
            with trio.move_on_after(seconds) as scope:
                await self._wait_until(lambda: not fetcher.busy)
        finally:
            fetcher.committing = False
        results = list(fetcher.results)
        self._call_back()
        if scope.cancelled_caught:
            raise TimedOut(f"no response within {seconds:g} s: check the connection, or give a longer timeout")
        return results

    async def _wait_until(self, is_met: Callable[[], bool]) -> None:
        self._driver.advance()
        await trio.lowlevel.checkpoint()
        while not is_met():
            await self._driver.wait(float("inf"))

    def _call_back(self) -> None:
        results = self._engine.fetcher.results
        while results:
            result = results.popleft()
            if self._on_acknowledged is not None:
                self._on_acknowledged(result.partition, result.offsets, result.error)

    @contextmanager
    def _acquired(self) -> Iterator[None]:
        """Reserve the consumer for the current task while the block runs.

        Raises: IllegalUse if the consumer is closed; ConcurrentUse if a different task uses the consumer.
        """
        task = trio.lowlevel.current_task()
        if self._closed:
            raise IllegalUse("the consumer is closed: open another one")
        if self._owner is not None:
            raise ConcurrentUse("another task is using this consumer: other tasks may only call wakeup()")
        self._owner = task
        try:
            yield
        finally:
            self._owner = None


OPTIONS = ("group", "topics", "on_acknowledged", "connect")  # of open_share_consumer, beside settings


@asynccontextmanager
async def open_share_consumer(
    bootstrap: str | Sequence[str],
    *,
    group: str,
    topics: Iterable[str] = (),
    on_acknowledged: OnAcknowledged | None = None,
    connect: Connect = connect_tcp,
    **settings: Any,
) -> AsyncIterator[ShareConsumer]:
    """Open a consumer that reads ``topics`` as a member of a share group (KIP-932).

    >>> async with open_share_consumer("127.0.0.1:9092", group="billing", topics=["orders"]) as consumer:
    ...     async for record in consumer:
    ...         print(record.topic, record.partition, record.offset, record.delivery_count, record.value)

    Args:
        bootstrap: ``host:port`` addresses of brokers, separated by commas or as a list.
        group: Group id.
        topics: Topic names.
        on_acknowledged: Function that is called with the result of acknowledgements: the partition, the acknowledged
            offsets, and the error (None after a success). None for no function.
        connect: Async function that returns a stream to a host and port.
        settings: Settings by name, such as ``max_poll_records=100``; see ``ShareSettings``.

    At the end of the block the consumer sends the acknowledgements, and leaves the group. In implicit mode it accepts
    the records of the latest poll; if the block raises an exception, it releases them.

    Raises: ValueError, TypeError for invalid arguments and settings; RuntimeError outside of a trio run.
    """
    check("group", "str", group)
    topics = checked_topics(topics, "a list of names")
    engine = ShareEngine(
        addresses(bootstrap),
        group,
        settings_of(ShareSettings, settings, OPTIONS),
        jitter=random.random,
        member_id=new_member_id(),
    )
    async with driven(
        engine,
        connect,
        lambda driver: ShareConsumer(driver, on_acknowledged),
        lambda consumer, succeeded: consumer.close(accept=succeeded),
    ) as consumer:
        if topics:
            await consumer.subscribe(topics)
        yield consumer
