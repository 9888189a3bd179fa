"""The task that writes a recording to a topic of a Kafka cluster, with a record for each frame.

The key of a record is the name of the connection, so that the frames of a connection are in one partition, in order.
The value is the frame, without its length prefix, and the timestamp is the time of the frame. ``headers_of`` describes
the headers. The module uses confluent-kafka (extra ``kwire[demo]``).
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from mockbroker.recording.recorder import Closed, Event, EventRecorder, Frame, Opened

log = logging.getLogger("mockbroker")

ADDRESS = re.compile(r"kafka://(?P<servers>[^/\s]+:[0-9]+)/(?P<topic>[A-Za-z0-9._-]{1,249})")
INTERVAL = 0.1  # seconds between two hand-overs to the producer
FLUSH = 10.0  # seconds at the end until records that were not written are dropped
FULL = 1.0  # seconds until a full queue of the producer is tried again
Headers = list[tuple[str, str | bytes | None]]


class RecordingTopic:
    """A recording in a topic. If the cluster does not accept records, they are lost, and their number is logged.

    Args:
        servers: ``bootstrap.servers`` of the cluster with the topic.
        topic: name of the topic.
        run: text that distinguishes this recording from all other recordings in the topic. The key of each record
            contains it.

    Attributes:
        recorder: the observer to pass to the proxy.

    Raises: ModuleNotFoundError if confluent-kafka is not installed.
    """

    def __init__(self, servers: str, topic: str, run: str) -> None:
        from confluent_kafka import Producer

        self.recorder = EventRecorder(self._wake)
        self._arrived = trio.Event()
        self._topic = topic
        self._run = run
        self._peers: dict[int, tuple[str, str]] = {}
        self._failed = 0
        options = {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "client.id": "mockbroker-recording",
            "delivery.report.only.error": True,  # a call for each record costs CPU time
        }
        self._producer = Producer(options)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write events as they arrive while the block runs. At the end of the block, write the remaining events.

        If the recording is incomplete, the numbers of lost records and incomplete connections are logged.
        """
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._run_until_cancelled)
                yield
                nursery.cancel_scope.cancel()
        finally:
            self._produce(self.recorder.taken())
            self._failed += self._producer.flush(FLUSH)
            if self._failed or self.recorder.dropped:
                log.warning(
                    "the recording is incomplete: %d records were not written, %d connections are incomplete",
                    self._failed,
                    self.recorder.dropped,
                )

    async def _run_until_cancelled(self) -> None:
        while True:
            await self._arrived.wait()
            await trio.sleep(INTERVAL)
            self._arrived = trio.Event()
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._produce, self.recorder.taken())

    def _produce(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case Opened():
                    self._peers[event.connection] = event.client, event.broker
                case Closed():
                    self._peers.pop(event.connection, None)
                case Frame():
                    self._produce_frame(event)
        self._producer.poll(0)

    def _produce_frame(self, event: Frame) -> None:
        name = f"{self._run}-{event.connection}"
        record: dict[str, Any] = {
            "value": event.frame,
            "key": name,
            "timestamp": event.time_us // 1_000,
            "headers": headers_of(event, name, *self._peers[event.connection]),
            "on_delivery": self._delivered,
        }
        for attempt in range(2):
            try:
                self._producer.produce(self._topic, **record)
            except BufferError:  # its queue is full
                self._failed += attempt
                self._producer.poll(FULL)
            else:
                return

    def _delivered(self, error: object, _: object) -> None:
        self._failed += error is not None

    def _wake(self) -> None:
        self._arrived.set()


def headers_of(frame: Frame, connection: str, client: str, broker: str) -> Headers:
    """Return the headers of the record of a frame: the fields of a frame log line, the API key and the version, as
    pairs of name and text.

    Args:
        frame: the frame.
        connection: name of the connection.
        client: ``host:port`` of the client.
        broker: ``host:port`` of the broker.
    """
    return [
        ("time_us", str(frame.time_us)),
        ("connection", connection),
        ("client", client),
        ("broker", broker),
        ("direction", "request" if frame.to_broker else "response"),
        ("api_key", str(frame.api_key)),
        ("api_version", str(frame.version)),
    ]
