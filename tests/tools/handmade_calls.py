"""Calls that tests make one by one, as if they were read from a capture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kwire.analysis.columns import Row
from kwire.analysis.events import split_partition
from kwire.analysis.run import analyse
from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.capture import Call, Connection
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kwire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.schema import schema_of

BEGIN = 1_700_000_000_000_000  # microseconds since 1970: time 0 of a test
GROUP = "billing"


class CallLog:
    """A list of calls. Times are in milliseconds since BEGIN."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def call(self, client: str, at: float, request: Any, response: Any, version: int, took: float = 1) -> Call:
        """Add a request with its response; None for no response."""
        made = Call(
            connection=client,
            client=f"10.0.0.1:{1000 + len(client)}",
            broker="10.0.0.9:9092",
            number=len(self.calls),
            api_key=schema_of(type(request)).api.key,  # type: ignore[union-attr]
            api_version=version,
            correlation_id=len(self.calls),
            client_id=client,
            request_us=BEGIN + round(at * 1000),
            response_us=None if response is None else BEGIN + round((at + took) * 1000),
            request=request,
            response=response,
        )
        self.calls.append(made)
        return made

    def tables(self, assignor: str | None = None) -> dict[str, Sequence[Row]]:
        """Return the tables of the calls. ``assignor``: assignor that recomputes the assignments of the groups."""
        clients = sorted({call.connection for call in self.calls})
        connections = [
            Connection(id=client, client="10.0.0.1:1", broker="10.0.0.9:9092", first_us=BEGIN, last_us=BEGIN)
            for client in clients
        ]
        for connection in connections:
            connection.software_name, connection.software_version = "tea", "1.0"
        return analyse(self.calls, connections, "made by hand", assignor=assignor)

    def metadata(self, client: str, at: float, counts: Mapping[str, int], racks: Sequence[str] = ()) -> None:
        """Add a Metadata response. ``racks``: racks of the brokers; broker n has the only replica of partition n."""
        topic, node = MetadataResponse.Topic, MetadataResponse.Broker
        response = MetadataResponse(
            brokers=[node(node_id=number, host="10.0.0.9", port=9092, rack=rack) for number, rack in enumerate(racks)],
            topics=[
                topic(
                    name=name,
                    partitions=[topic.Partition(partition_index=n, replica_nodes=[n]) for n in range(count)],
                )
                for name, count in counts.items()
            ],
        )
        self.call(client, at, MetadataRequest(), response, 9)

    # --- a classic group ---

    def join(
        self, client: str, at: float, generation: int, *members: str, took: float = 1, error: int = 0, **more: Any
    ) -> None:
        """Add a JoinGroup. ``members``: members in the response to the leader, all with its topics."""
        options = {"member_id": client, "topics": ["tea"], "owned": [], "protocol": "range", "instance": None, **more}
        subscription = ConsumerProtocolSubscription(topics=options["topics"], owned_partitions=options["owned"])
        metadata = encode_stored(subscription, 1)
        protocol = JoinGroupRequest.Protocol(name=options["protocol"], metadata=metadata)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=1000,
            rebalance_timeout_ms=5000,
            member_id=options["member_id"],
            group_instance_id=options["instance"],
            protocol_type="consumer",
            protocols=[protocol],
        )
        response = JoinGroupResponse(
            error_code=error,
            generation_id=generation,
            protocol_name=options["protocol"],
            leader=members[0] if members else "a",
            member_id=options.get("given", client),
            members=[JoinGroupResponse.Member(member_id=member, metadata=metadata) for member in members],
        )
        self.call(client, at, request, response, 7, took)

    def sync(
        self,
        client: str,
        at: float,
        generation: int,
        share: list[int] | list[str],
        plan: Any = None,
        took: float = 1,
        error: int = 0,
    ) -> None:
        """Add a SyncGroup. ``plan``: member -> assignment, in the request of the leader."""
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=client,
            protocol_type="consumer",
            assignments=[
                SyncGroupRequest.Assignment(member_id=member, assignment=blob(planned))
                for member, planned in (plan or {}).items()
            ],
        )
        response = SyncGroupResponse(error_code=error, assignment=b"" if error else blob(share))
        self.call(client, at, request, response, 5, took)

    def beat(self, client: str, at: float, generation: int, error: int = 0) -> None:
        request = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=client)
        self.call(client, at, request, HeartbeatResponse(error_code=error), 4)

    def leave(self, client: str, at: float) -> None:
        request = LeaveGroupRequest(group_id=GROUP, members=[LeaveGroupRequest.Member(member_id=client)])
        response = LeaveGroupResponse(members=[LeaveGroupResponse.Member(member_id=client)])
        self.call(client, at, request, response, 4)

    def commit(self, client: str, at: float, generation: int, partition: int, offset: int, error: int = 0) -> None:
        requested = OffsetCommitRequest.Topic(
            name="tea",
            partitions=[OffsetCommitRequest.Topic.Partition(partition_index=partition, committed_offset=offset)],
        )
        request = OffsetCommitRequest(
            group_id=GROUP, generation_id_or_member_epoch=generation, member_id=client, topics=[requested]
        )
        topic = OffsetCommitResponse.Topic(
            name="tea",
            partitions=[OffsetCommitResponse.Topic.Partition(partition_index=partition, error_code=error)],
        )
        self.call(client, at, request, OffsetCommitResponse(topics=[topic]), 8)


def blob(partitions: list[int] | list[str]) -> bytes:
    """Return an encoded assignment of partitions, of topic tea by default."""
    results: dict[str, list[int]] = {}
    for partition in partitions:
        topic, number = ("tea", partition) if isinstance(partition, int) else split_partition(partition)
        results.setdefault(topic, []).append(number)
    shares = [ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=own) for topic, own in results.items()]
    return encode_stored(ConsumerProtocolAssignment(assigned_partitions=shares), 0)


def two_members() -> CallLog:
    """Return the calls of a group with topic tea at fixed times: A joins, B joins, B leaves."""
    log = CallLog()
    log.join("a", 0, 1, "a")
    log.sync("a", 10, 1, [0, 1], {"a": [0, 1]})
    log.join("b", 100, 2, took=60)
    log.beat("a", 120, 1, error=27)
    log.join("a", 150, 2, "a", "b", took=10)
    log.sync("b", 161, 2, [1], took=9)
    log.sync("a", 165, 2, [0], {"a": [0], "b": [1]}, took=3)
    log.beat("a", 400, 2)
    log.leave("b", 500)
    log.beat("a", 700, 2, error=27)
    log.join("a", 710, 3, "a")
    log.sync("a", 720, 3, [0, 1], {"a": [0, 1]}, took=4)
    return log


def line(row: Row, names: str) -> tuple[Any, ...]:
    """Return some columns of a row, with timestamps as milliseconds since BEGIN."""
    return tuple(
        (row[name] - BEGIN) / 1000 if name.endswith("_ts") and row[name] is not None else row[name]
        for name in names.split()
    )
