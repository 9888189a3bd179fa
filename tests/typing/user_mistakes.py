"""Mistakes of a user of kwire and mockbroker. tests/test_types.py checks that mypy and pyright report each marked line."""

from __future__ import annotations

import kwire
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from mockbroker import KafkaCluster, run_cluster


def mistakes(cluster: KafkaCluster, frame: bytes) -> None:
    print(kwire.decode_request(frame, JoinGroupRequest).body.groupid)  # mistake: no such field
    print(cluster.requests(HeartbeatRequest)[0].body.topics)  # mistake: a field of another message
    cluster.requests("JoinGroups")  # mistake: no such API
    cluster.wait_group("billing", state="stable")  # mistake: no such state
    cluster.faults.add(api="OffsetCommit", error="REBALANCE_IN_PROGRES")  # mistake: no such error
    if cluster.groups()["billing"].state == "Steady":  # mistake: no such state
        print("never")
    run_cluster(clock="stopped")  # mistake: no such clock mode
    run_cluster(partitions=3)  # mistake: no such argument
