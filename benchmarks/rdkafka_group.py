"""Times of a group of librdkafka consumers: until it is stable, until one more has joined, until that one has left.

    python benchmarks/rdkafka_group.py HOST:PORT [--members 10] [--heartbeat-ms 500]

Needs confluent-kafka, and the topic bench60 with 60 partitions. The group is stable when each member's callback was
called, the assignments are disjoint and cover the topic, and nothing has changed for 150 ms; the time is that of the
last callback.
Prints one JSON line: ``form_ms``, ``join_ms``, ``leave_ms``; null where it took more than 90 s.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from threading import Lock, Thread
from typing import Any

from confluent_kafka import Consumer

TOPIC, PARTITIONS = "bench60", 60
LIMIT = 90.0  # seconds for a phase
QUIET = 0.15  # seconds without a change
Partitions = frozenset[tuple[str, int]]


class Members:
    """Consumers of one group with a thread each, and the partitions that each owns.

    Args:
        address: address of the broker.
        heartbeat_ms: heartbeat interval.
    """

    def __init__(self, address: str, heartbeat_ms: int) -> None:
        self.settings = {
            "bootstrap.servers": address,
            "group.id": f"clients-{time.time_ns()}",
            "heartbeat.interval.ms": heartbeat_ms,
            "session.timeout.ms": 10_000,
            "enable.auto.commit": False,
            "log_level": 0,
            "partition.assignment.strategy": "range",
        }
        self.lock = Lock()
        self.owned: dict[int, Partitions] = {}
        self.leaving: set[int] = set()
        self.changed = time.monotonic()

    def start(self, number: int) -> Thread:
        thread = Thread(target=self._consume, args=(number,), daemon=True)
        thread.start()
        return thread

    def stop(self, number: int, thread: Thread) -> None:
        self.leaving.add(number)
        thread.join(30)
        self._change(number, None)

    def wait_stable(self, members: int) -> float | None:
        """Return the time of the last callback, None if the group is not stable in time."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            with self.lock:
                sizes = [len(each) for each in self.owned.values()]
                covered = len(frozenset().union(*self.owned.values())) == PARTITIONS == sum(sizes)
                if len(sizes) == members and covered and time.monotonic() - self.changed > QUIET:
                    return self.changed
            time.sleep(0.005)
        return None

    def _change(self, number: int, owned: Partitions | None) -> None:
        with self.lock:
            self.changed = time.monotonic()
            if owned is None:
                self.owned.pop(number, None)
            else:
                self.owned[number] = owned

    def _consume(self, number: int) -> None:
        def assigned(_: Consumer, partitions: list[Any]) -> None:
            self._change(number, frozenset((each.topic, each.partition) for each in partitions))

        consumer = Consumer(self.settings)
        consumer.subscribe([TOPIC], on_assign=assigned, on_revoke=lambda *_: self._change(number, None))
        while number not in self.leaving:
            consumer.poll(0.02)
        consumer.close()


def measure(members: Members, size: int) -> dict[str, float | None]:
    """Return the time of each phase that was reached, in ms."""
    times: dict[str, float | None] = {}

    def phase(name: str, expected: int, begin: float) -> bool:
        end = members.wait_stable(expected)
        times[f"{name}_ms"] = None if end is None else (end - begin) * 1e3
        return end is not None

    begin = time.monotonic()
    for number in range(size):
        members.start(number)
    if phase("form", size, begin):
        time.sleep(1)
        begin = members.changed = time.monotonic()
        extra = members.start(size)
        if phase("join", size + 1, begin):
            time.sleep(1)
            begin = time.monotonic()
            members.stop(size, extra)
            phase("leave", size, begin)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--heartbeat-ms", type=int, default=500)
    asked = parser.parse_args()
    print(json.dumps(measure(Members(asked.address, asked.heartbeat_ms), asked.members)), flush=True)
    os._exit(0)  # does not wait for the consumers


if __name__ == "__main__":
    main()
