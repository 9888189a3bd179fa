"""Consumers of librdkafka, each of which polls in a separate thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from need import lacking


class Consuming:
    """A consumer that polls until it is closed."""

    def __init__(self, servers: str, group: str, topic: str, client_id: str, **config: Any) -> None:
        try:
            from confluent_kafka import Consumer
        except ImportError:
            lacking("confluent-kafka is not installed: it is the client (extra demo)")
        settings = {"bootstrap.servers": servers, "group.id": group, "client.id": client_id, **config}
        settings = {"enable.auto.commit": False, "heartbeat.interval.ms": 200, **settings}
        self.client = Consumer({name: value for name, value in settings.items() if value != ""})
        self.client.subscribe([topic])
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while not self._ended.is_set():
            self.client.poll(0.05)

    def close(self) -> None:
        """Stop polling and leave the group."""
        if not self._ended.is_set():
            self._ended.set()
            self._thread.join()
            self.client.close()


@contextmanager
def consuming(servers: str, group: str, topic: str, *clients: str, **config: Any) -> Iterator[list[Consuming]]:
    """Run consumers with these client ids during a ``with`` block."""
    members = [Consuming(servers, group, topic, client, **config) for client in clients]
    try:
        yield members
    finally:
        for member in members:
            member.close()
