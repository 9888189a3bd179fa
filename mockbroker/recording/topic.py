"""The task and the thread that write a recording to a topic of a Kafka cluster, with a record for each frame."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from queue import SimpleQueue
from threading import Event, Thread

import trio

from kwire.errorcodes import ErrorCode
from kwire.errors import WireError
from mockbroker.proxy.addresses import error_reason
from mockbroker.proxy.repeated_warnings import RepeatedWarnings
from mockbroker.proxy.upstream import Upstream, reason_of
from mockbroker.recording.record_batches import RecordBatch, TopicBatches
from mockbroker.recording.topic_connections import CONNECT_TIMEOUT
from mockbroker.recording.topic_producer import RefusedError, TopicProducer
from mockbroker.recording.topic_recorder import Collected, TopicRecorder

log = logging.getLogger("mockbroker")

INTERVAL = 0.1  # seconds until frames are passed to the producer, if they are few
FLUSH = 10.0  # seconds at the end until records that were not written are dropped
TIMEOUT = 300.0  # seconds of attempts to write a batch, as in other producers (delivery.timeout.ms)
PAUSES = 0.1, 1.0  # seconds between two attempts: first, and at most
TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class RecordingTopic:
    """A recording in a topic. Records that the cluster does not accept are lost, and their number is logged.

    Args:
        cluster: the cluster with the topic.
        topic: name of the topic.
        run: text that distinguishes this recording from all other recordings in the topic. The key of each record
            contains it.

    Attributes:
        recorder: the observer to pass to the proxy.
    """

    def __init__(self, cluster: Upstream, topic: str, run: str) -> None:
        self._arrived = trio.Event()
        self._collected: SimpleQueue[Collected | None] = SimpleQueue()
        self.recorder = TopicRecorder(lambda: self._arrived.set(), self._collected.put)
        self._topic = topic
        self._run = run
        self._producer = TopicProducer(cluster, topic)
        self._batches: TopicBatches | None = None  # None until the number of partitions is known
        self._warnings = RepeatedWarnings()
        self._has_given_up = Event()  # set when nothing is attempted again
        self._lost = 0  # records

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write events as they arrive while the block runs. At the end of the block, write the remaining events.

        If the recording is incomplete, the numbers of lost records and incomplete connections are logged.
        """
        thread = Thread(target=self._write_collected, name="recording", daemon=True)
        thread.start()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._flush_at_intervals)
                yield
                nursery.cancel_scope.cancel()
        finally:
            self.recorder.flush()
            self._collected.put(None)
            thread.join(FLUSH)
            self._has_given_up.set()
            self._producer.abort()
            thread.join(CONNECT_TIMEOUT + 1)
            if self._lost or self.recorder.dropped:
                log.warning(
                    "the recording is incomplete: %d records were not written, %d connections are incomplete",
                    self._lost,
                    self.recorder.dropped,
                )

    async def _flush_at_intervals(self) -> None:
        while True:
            await self._arrived.wait()
            await trio.sleep(INTERVAL)
            self._arrived = trio.Event()
            self.recorder.flush()

    def _write_collected(self) -> None:
        """Write what the queue has until it has None; this is the work of the thread."""
        while (collected := self._collected.get()) is not None:
            if self._batches is None:
                self._batches = self._new_batches()
            for batch in self._batches.batches(collected.events):
                self._write(batch)
            self.recorder.release(collected)
        self._producer.close()

    def _new_batches(self) -> TopicBatches:
        """Wait for the number of partitions. If it is unknown at the end, all records are for the first partition, and
        are lost.
        """
        for attempt in self._attempts(float("inf")):
            try:
                return TopicBatches(self._run, self._producer.partitions())
            except (OSError, WireError, RefusedError) as error:
                if attempt:
                    self._warn(error)
        return TopicBatches(self._run, 1)

    def _write(self, batch: RecordBatch) -> None:
        """Write a batch, or count its records as lost."""
        for attempt in self._attempts(time.monotonic() + TIMEOUT):
            try:
                self._producer.write(batch)
                return
            except RefusedError as error:
                if error.code in TOO_LARGE and batch.count > 1:
                    for half in batch.halves():
                        self._write(half)
                    return
                if attempt or not error.is_retriable:
                    self._warn(error)
                if not error.is_retriable:
                    self._lost += batch.count
                    return
            except (OSError, WireError) as error:
                if attempt:
                    self._warn(error)
        self._producer.restart()
        self._lost += batch.count

    def _attempts(self, deadline: float) -> Iterator[int]:
        """Yield the number of each attempt, with pauses in between, until the deadline or the end of the recording.

        No warning is needed for the first attempt: a new topic or a new leader is often found by the second one.
        """
        pause, most = PAUSES
        for number in count():
            if time.monotonic() >= deadline or self._has_given_up.is_set():
                return
            yield number
            self._has_given_up.wait(pause)
            pause = min(2 * pause, most)

    def _warn(self, error: Exception) -> None:
        reason: object = error_reason(error) if isinstance(error, OSError) else error
        if isinstance(error, ssl.SSLError):
            reason = reason_of(error)
        self._warnings.warn(f"the recording in topic {self._topic} was not written: {reason}", time.monotonic())
