"""Clients that consume, transform and produce in transactions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from interop.stage import LIMIT, Member, Process, Stage, need_client, start_client

OUTPUT = "invoices"
TRANSACTIONAL_ID = "billing"
SESSION_MS = 1000  # short, so that a killed member is soon evicted
HEARTBEAT_MS = 200
PATIENT_MS = 60_000  # for transactions that must not time out
TRANSFORMERS = ("kafka-python", "confluent-kafka", "aiokafka", "java", "franz-go", "kafkajs")


class Transformer(Member):
    """A member that begins a transaction with each `take`.

    ``events``: number of its reports by event; ``error``: error of the transaction that failed.
    """

    def __init__(self, stage: Stage, name: str, process: Process) -> None:
        self.events: Counter[str] = Counter()
        self.error = ""
        super().__init__(stage, name, process)

    def heard(self, line: str) -> None:
        super().heard(line)
        message = json.loads(line)
        self.events[message["event"]] += 1
        self.error = message.get("error", self.error)

    def ready(self) -> None:
        """Wait until the member has initialized its transactional id, which fences the former producer."""
        self._stage.wait(f"{self.name} to be ready", lambda: self.events["ready"])

    def take(self, number: int) -> None:
        """Transform this many records: output and offsets are sent, and the transaction remains open."""
        self._done(f"take {number}", "taken")

    def end(self, how: str) -> None:
        """End the transaction. ``how``: commit, or abort, after which the member seeks to the committed offsets."""
        self._done(how, {"commit": "committed", "abort": "aborted"}[how])

    def _done(self, command: str, event: str) -> None:
        before = self.events[event]
        self.say(command)
        self._stage.wait(f"{self.name} to have {event}", lambda: self.events[event] > before)


def transformer(
    stage: Stage,
    family: str,
    name: str,
    *,
    timeout_ms: int = PATIENT_MS,
    session_ms: int = SESSION_MS,
    protocol: str = "classic",
    own_process: bool = False,
) -> Transformer:
    """Start a member that reads ``stage.topic`` and writes each record to the same partition of OUTPUT."""
    need_client(family)
    options = {
        "bootstrap": stage.cluster.bootstrap_servers,
        "client_id": name,
        "group": stage.group,
        "topic": stage.topic,
        "output": OUTPUT,
        "protocol": protocol,
        "session_ms": session_ms,
        "heartbeat_ms": HEARTBEAT_MS,
        "transactional_id": TRANSACTIONAL_ID,
        "transaction_timeout_ms": timeout_ms,
    }
    made = Transformer(stage, name, start_client(family, "transform", options, own_process=own_process))
    stage.members.append(made)
    return made


class TransactionalProducer:
    """A producer of confluent-kafka in the test's process; it writes to partition 0."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        need_client("confluent-kafka")
        from confluent_kafka import Producer

        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
        self._producer.init_transactions(LIMIT)

    def begin(self, topic: str, values: Sequence[str]) -> None:
        """Begin a transaction, and send records with these values."""
        self._producer.begin_transaction()
        for value in values:
            self._producer.produce(topic, value.encode(), partition=0)
        assert self._producer.flush(LIMIT) == 0

    def end(self, how: str) -> None:
        """End the transaction. ``how``: commit or abort."""
        if how == "commit":
            self._producer.commit_transaction(LIMIT)
        else:
            self._producer.abort_transaction(LIMIT)


def done(values: Sequence[str]) -> list[str]:
    """Return the output values for these input values."""
    return [f"{value}, done" for value in values]


def by_partition(stage: Stage, values: Sequence[str]) -> Mapping[int, Sequence[str]]:
    """Return the values by partition, as ``stage.produce`` spreads them."""
    return {index: values[index :: stage.partitions] for index in range(stage.partitions)}
