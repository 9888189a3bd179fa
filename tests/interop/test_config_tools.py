"""kafka-configs.sh, kafka-client-metrics.sh and kafka-features.sh print the same as with a real Kafka."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from interop.kafka_tools import java_with_kafka
from interop.stage import MARKS
from oracle import kafka
from oracle.tool_blocks import OUTPUTS, commands, outputs, printed

from mockbroker.api.cluster import open_cluster

pytestmark = [*MARKS, pytest.mark.long]
RECORDED_NODE = 1


async def test_tools_print_the_same_as_with_kafka() -> None:
    recorded = outputs((OUTPUTS / f"{kafka.NEWEST}.txt").read_text("utf-8"))
    async with open_cluster(config=kafka.SETTINGS, first_node=RECORDED_NODE) as cluster:
        (node,) = cluster.nodes
        run = partial(printed, java_with_kafka(), f"127.0.0.1:{node.port}", commands(kafka.NEWEST))
        ours = outputs(await trio.to_thread.run_sync(run))
    assert len(ours) == len(recorded) > 50
    for (command, expected), (_, found) in zip(recorded, ours, strict=True):
        assert found == expected, command
