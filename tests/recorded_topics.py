"""Recordings in topics of a mock cluster, made from frame logs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kwire.frames import pack
from kwire.recording.frame_records import ConnectionRecords
from kwire.records import Record
from kwire.records.record import read_records
from mockbroker import ThreadCluster

PARTITIONS = 3  # of the topic ``frames``


def lines(log: Path) -> list[Mapping[str, Any]]:
    """Return the lines of a frame log."""
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()]


def write(cluster: ThreadCluster, logged: Sequence[Mapping[str, Any]]) -> None:
    """Produce the records of the frames to the topic ``frames``, as RecordingTopic does."""
    for one in logged:
        to_broker, data = one["direction"] == "request", bytes.fromhex(one["hex"])
        writer = ConnectionRecords(one["connection"], one["client"], one["broker"])
        encoded, _ = writer.records(to_broker, [pack(data)], one["time_us"], 0, 0)
        ((record,),) = read_records(b"".join(encoded), 0, 1, 0, one["time_us"] // 1_000, None, Record)
        partition = int(one["connection"]) % PARTITIONS
        cluster.produce("frames", [record.value], key=record.key, partition=partition, headers=record.headers)
