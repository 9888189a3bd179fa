"""MirrorMaker 2 copies a topic and the offsets of a group, in distributed mode, with Connect's exactly-once support."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from interop import programs
from interop.stage import MARKS

from mockbroker import run_cluster

pytestmark = MARKS
LIMIT = 120.0  # seconds until all records and offsets are copied
REPLICATED = "checkpoints.topic", "heartbeats.topic", "offset-syncs.topic"
STORED = "offset.storage", "status.storage", "config.storage"
SETTINGS = {
    "clusters": "one, two",
    "one->two.enabled": "true",
    "one->two.topics": "orders",
    "one->two.groups": "billing",
    "replication.factor": "1",
    **{f"{name}.replication.factor": "1" for name in (*REPLICATED, *STORED)},
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "two.exactly.once.source.support": "enabled",
    "dedicated.mode.enable.internal.rest": "true",
    "listeners": "http://127.0.0.1:0",
}
QUICK = {"group.initial.rebalance.delay.ms": 0}


@pytest.mark.long
def test_records_and_offsets_are_copied(tmp_path: Path) -> None:
    command = programs.mirror_maker()
    with run_cluster(topics={"orders": 2}, config=QUICK) as one, run_cluster(config=QUICK) as two:
        for partition in range(2):
            one.produce("orders", [f"{partition} {number}".encode() for number in range(50)], partition=partition)
        one.set_committed("billing", {("orders", 0): 20, ("orders", 1): 50})
        servers = {"one.bootstrap.servers": one.bootstrap_servers, "two.bootstrap.servers": two.bootstrap_servers}
        admin = AdminClient({"bootstrap.servers": two.bootstrap_servers})
        properties = tmp_path / "mirror.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in (SETTINGS | servers).items()))
        with (
            (tmp_path / "log").open("wb") as log,
            subprocess.Popen([*command, str(properties)], env=programs.ENVIRONMENT, stdout=log, stderr=log) as process,
        ):
            try:
                wait_for(lambda: "one.orders" in admin.list_topics(timeout=LIMIT).topics, tmp_path / "log")
                wait_for(lambda: len(two.records("one.orders", committed=True)) == 100, tmp_path / "log")
                wait_for(lambda: ("one.orders", 1) in two.committed("billing"), tmp_path / "log")
            finally:
                process.kill()
        copied = {(record.partition, record.value) for record in two.records("one.orders")}
        assert copied == {(record.partition, record.value) for record in one.records("orders")}
        assert two.committed("billing")["one.orders", 1] == 50
        assert two.transactions()


def wait_for(holds: Callable[[], bool], log: Path) -> None:
    until = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < until, log.read_text()[-2_000:]
        time.sleep(0.1)
