"""A client for tests: blocking sockets, one request at a time, nothing in the background."""

from __future__ import annotations

import socket
from typing import Any

from kwire import ClientSide
from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.sync_group import SyncGroupRequest

Assigned = ConsumerProtocolAssignment.TopicPartition


class PlainClient:
    """Connected to one broker. ``member_id`` and ``generation``: of the group it joined last."""

    def __init__(self, bootstrap_servers: str, client_id: str = "plain") -> None:
        host, _, port = bootstrap_servers.split(",")[0].rpartition(":")
        self.sock = socket.create_connection((host, int(port)), timeout=10)
        self.member_id = ""
        self.generation = -1
        self._side = ClientSide(client_id)

    def __enter__(self) -> PlainClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, body: object, version: int) -> None:
        self.sock.sendall(self._side.send(body, version))

    def answer(self) -> Any:
        """The next answer. Raises: ConnectionError if the broker hangs up."""
        while (response := self._side.next_response()) is None:
            data = self.sock.recv(65536)
            if not data:
                raise ConnectionError("the broker hung up")
            self._side.receive(data)
        return response.body

    def ask(self, body: object, version: int) -> Any:
        self.send(body, version)
        return self.answer()

    def send_join(self, group: str) -> None:
        self.send(
            JoinGroupRequest(
                group_id=group,
                member_id=self.member_id,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                protocol_type="consumer",
                protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
            ),
            3,
        )

    def join(self, group: str) -> JoinGroupResponse:
        self.send_join(group)
        answer: JoinGroupResponse = self.answer()
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def lead(self, group: str, topic: str, partitions: list[int]) -> None:
        """Hand in an assignment that gives everything to oneself; the group is Stable then."""
        share = ConsumerProtocolAssignment(assigned_partitions=[Assigned(topic=topic, partitions=partitions)])
        self.ask(
            SyncGroupRequest(
                group_id=group,
                generation_id=self.generation,
                member_id=self.member_id,
                assignments=[SyncGroupRequest.Assignment(member_id=self.member_id, assignment=encode_stored(share, 0))],
            ),
            2,
        )

    def commit(self, group: str, topic: str, partition: int, offset: int) -> None:
        wanted = OffsetCommitRequest.Topic.Partition(partition_index=partition, committed_offset=offset)
        self.ask(
            OffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=self.generation,
                member_id=self.member_id,
                topics=[OffsetCommitRequest.Topic(name=topic, partitions=[wanted])],
            ),
            7,
        )
