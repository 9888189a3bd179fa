"""How long one message blocks the event loop of `mockbroker proxy --http`: the longest step of a task of the proxy.

    python benchmarks/proxy_blocks.py [--rounds 3]

Each row is a request and a response that pass the proxy on loopback, with a responder that knows the frames beforehand.
Only the steps of the proxy's tasks are measured, in CPU time of the thread; the least of the rounds' longest steps is
printed. KWIRE_ENGINE selects the engine.
"""

from __future__ import annotations

import argparse
import time
from typing import Any
from uuid import UUID

import trio

from kwire import encode_request, encode_response
from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.engines.chosen import DEFAULT
from kwire.frames import pack
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kwire.messages.fetch import FetchRequest, FetchResponse
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kwire.messages.produce import ProduceRequest, ProduceResponse
from kwire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kwire.schema import schema_of
from mockbroker.api.proxied_cluster import intercepted, observers
from mockbroker.base.settings import Settings
from mockbroker.cli.garbage_collection import limit_garbage_collection
from mockbroker.cli.server_options import EVENTS_IN_MEMORY
from mockbroker.net.clock import BrokerTime
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.relay import Proxy
from mockbroker.proxy.upstream import Upstream

NS_PER_MS = 1e6
TOPIC = UUID(int=7)
MEBIBYTE = 1 << 20


class Steps(trio.abc.Instrument):
    """The instrument of trio that measures the steps of the proxy's tasks.

    Attributes:
        longest: CPU time of the longest step, in nanoseconds.
        number: number of steps.
    """

    def __init__(self) -> None:
        self.longest = self.number = self._begin = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:  # noqa: ARG002
        self._begin = time.thread_time_ns()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if "/proxy/" in task.coro.cr_code.co_filename:
            self.longest = max(self.longest, time.thread_time_ns() - self._begin)
            self.number += 1


def cases() -> dict[str, tuple[Any, Any, int]]:
    """Return request, response and version of each row, by name."""
    many, indexes = 50_000, range(50_000)
    commit = OffsetCommitRequest.Topic(
        name="t", topic_id=TOPIC, partitions=[_committed(OffsetCommitRequest, index) for index in indexes]
    )
    committed = OffsetCommitResponse.Topic(
        name="t",
        topic_id=TOPIC,
        partitions=[OffsetCommitResponse.Topic.Partition(partition_index=each) for each in indexes],
    )
    in_transaction = TxnOffsetCommitRequest.Topic(
        name="t", partitions=[_committed(TxnOffsetCommitRequest, index) for index in indexes]
    )
    accepted = TxnOffsetCommitResponse.Topic(
        name="t", partitions=[TxnOffsetCommitResponse.Topic.Partition(partition_index=index) for index in indexes]
    )
    offsets = OffsetFetchResponse.Group.Topic(
        name="t",
        topic_id=TOPIC,
        partitions=[
            OffsetFetchResponse.Group.Topic.Partition(partition_index=index, committed_offset=index, metadata="")
            for index in indexes
        ],
    )
    described = MetadataResponse.Topic(
        name="t",
        topic_id=TOPIC,
        partitions=[
            MetadataResponse.Topic.Partition(partition_index=index, leader_id=0, replica_nodes=[0], isr_nodes=[0])
            for index in indexes
        ],
    )
    brokers = [MetadataResponse.Broker(node_id=0, host="real", port=9)]
    wanted = [FetchRequest.Topic.Partition(partition=index) for index in range(10_000)]
    found = [
        FetchResponse.Topic.Partition(partition_index=index, high_watermark=index, records=bytes(100))
        for index in range(10_000)
    ]
    million = list(range(1_000_000))
    assigned = encode_stored(
        ConsumerProtocolAssignment(
            assigned_partitions=[ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=million)]
        ),
        3,
    )
    owned = encode_stored(
        ConsumerProtocolSubscription(
            topics=["t"],
            owned_partitions=[ConsumerProtocolSubscription.TopicPartition(topic="t", partitions=million)],
        ),
        3,
    )
    joining = JoinGroupRequest(
        group_id="g",
        member_id="m",
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=owned)],
    )
    joined = JoinGroupResponse(
        generation_id=1,
        protocol_name="range",
        leader="m",
        member_id="m",
        members=[JoinGroupResponse.Member(member_id="m", metadata=owned)],
    )
    large = ProduceRequest.Topic.Partition(index=0, records=bytes(50 * MEBIBYTE))
    return {
        "OffsetFetch, 50,000 partitions": (
            OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="g")]),
            OffsetFetchResponse(groups=[OffsetFetchResponse.Group(group_id="g", topics=[offsets])]),
            8,
        ),
        "OffsetCommit, 50,000 partitions": (
            OffsetCommitRequest(group_id="g", topics=[commit]),
            OffsetCommitResponse(topics=[committed]),
            8,
        ),
        "TxnOffsetCommit, 50,000 partitions": (
            TxnOffsetCommitRequest(group_id="g", producer_id=1, topics=[in_transaction]),
            TxnOffsetCommitResponse(topics=[accepted]),
            3,
        ),
        "Metadata, 50,000 partitions": (
            MetadataRequest(topics=None),
            MetadataResponse(brokers=brokers, topics=[described]),
            12,
        ),
        "Metadata, 50,000 topics": (
            MetadataRequest(topics=None),
            MetadataResponse(
                brokers=brokers,
                topics=[
                    MetadataResponse.Topic(name=f"t{index}", partitions=[MetadataResponse.Topic.Partition()])
                    for index in range(many)
                ],
            ),
            12,
        ),
        "Fetch v11, 10,000 partitions": (
            FetchRequest(topics=[FetchRequest.Topic(topic="t", partitions=wanted)]),
            FetchResponse(responses=[FetchResponse.Topic(topic="t", partitions=found)]),
            11,
        ),
        "Fetch v16, 10,000 partitions": (
            FetchRequest(topics=[FetchRequest.Topic(topic_id=TOPIC, partitions=wanted)]),
            FetchResponse(responses=[FetchResponse.Topic(topic_id=TOPIC, partitions=found)]),
            16,
        ),
        "JoinGroup, 1,000,000 owned partitions": (joining, joined, 9),
        "SyncGroup, 1,000,000 assigned partitions": (
            SyncGroupRequest(
                group_id="g",
                generation_id=1,
                member_id="m",
                assignments=[SyncGroupRequest.Assignment(member_id="m", assignment=assigned)],
            ),
            SyncGroupResponse(assignment=assigned),
            5,
        ),
        "ConsumerGroupHeartbeat, 1,000,000 assigned partitions": (
            ConsumerGroupHeartbeatRequest(
                group_id="h",
                member_id="m",
                topic_partitions=[ConsumerGroupHeartbeatRequest.TopicPartition(topic_id=TOPIC, partitions=million)],
            ),
            ConsumerGroupHeartbeatResponse(
                member_id="m",
                member_epoch=1,
                assignment=ConsumerGroupHeartbeatResponse.Assignment(
                    topic_partitions=[
                        ConsumerGroupHeartbeatResponse.Assignment.TopicPartition(topic_id=TOPIC, partitions=million)
                    ]
                ),
            ),
            1,
        ),
        "Produce, 50 MiB in one partition": (
            ProduceRequest(acks=1, topic_data=[ProduceRequest.Topic(name="t", partition_data=[large])]),
            ProduceResponse(),
            9,
        ),
        "Fetch v11, 50 MiB in one partition": (
            FetchRequest(),
            FetchResponse(
                responses=[
                    FetchResponse.Topic(
                        topic="t", partitions=[FetchResponse.Topic.Partition(records=bytes(50 * MEBIBYTE))]
                    )
                ]
            ),
            11,
        ),
    }


def _committed(message: Any, index: int) -> Any:
    return message.Topic.Partition(partition_index=index, committed_offset=index)


async def measure(request: bytes, response: bytes) -> Steps:
    """Pass a request and its response through a new proxy, and return its steps."""
    steps = Steps()
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")

        async def respond(stream: trio.SocketStream) -> None:
            left = len(request)
            while left:
                left -= len(await stream.receive_some(left))
            await stream.send_all(response)
            await trio.sleep_forever()

        nursery.start_soon(trio.serve_listeners, respond, [listener])
        interception = intercepted(Settings.parse({}), BrokerTime(), time.time())
        interception.router.journal.max_events = EVENTS_IN_MEMORY
        proxy = Proxy(
            Upstream([Address(*listener.socket.getsockname())]),
            observers=observers(interception),
            interception=interception,
        )
        await nursery.start(proxy.run)
        async with await trio.open_tcp_stream(*proxy.bootstrap) as client:
            trio.lowlevel.add_instrument(steps)
            nursery.start_soon(client.send_all, request)
            left = len(response)
            while left:
                data = await client.receive_some(left)
                assert data
                left -= len(data)
            trio.lowlevel.remove_instrument(steps)
        nursery.cancel_scope.cancel()
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    limit_garbage_collection()
    print(f"{DEFAULT} engine\n\n| message | MB | longest step, ms | steps |\n|---|---|---|---|")
    for name, (request, response, version) in cases().items():
        api = schema_of(type(request)).api
        assert api is not None
        frames = (
            pack(encode_request(request, version, correlation_id=1, client_id="app")),
            pack(encode_response(response, version, correlation_id=1)),
        )
        runs = [trio.run(measure, *frames) for _ in range(options.rounds)]
        best = min(runs, key=lambda each: each.longest)
        size = sum(map(len, frames)) / 1e6
        print(f"| {name} | {size:.1f} | {best.longest / NS_PER_MS:.1f} | {best.number} |", flush=True)


if __name__ == "__main__":
    main()
