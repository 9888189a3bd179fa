"""Clients on blocking sockets, without background threads: a raw connection, and a member of a classic group."""

from __future__ import annotations

import socket
import ssl
from collections import deque
from typing import Any

from kwire import decode_response, encode_request
from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment
from kwire.frames import FrameBuffer, pack
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.sync_group import SyncGroupRequest

Assigned = ConsumerProtocolAssignment.TopicPartition
TIMEOUT = 30  # seconds
AT_ONCE = 10.0  # seconds for the end of a process that waits for nothing, on a busy machine


class RawConnection:
    """A connection to the first of several ``host:port``, in frames. ``context``: for TLS."""

    def __init__(self, servers: str, context: ssl.SSLContext | None = None, client_id: str | None = None) -> None:
        host, _, port = servers.split(",")[0].rpartition(":")
        self.host, self.port, self.client_id = host.strip("[]"), int(port), client_id
        self.sock = socket.create_connection((self.host, self.port), timeout=TIMEOUT)
        if context is not None:
            self.sock = context.wrap_socket(self.sock, server_hostname=self.host)
        self._frames = FrameBuffer()
        self._sent: deque[tuple[int, int]] = deque()  # API key and version of requests without a response

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send_bytes(self, data: bytes) -> None:
        self.sock.sendall(data)

    def send(self, request: object, version: int) -> None:
        frame = encode_request(request, version, correlation_id=1, client_id=self.client_id)
        self._sent.append((int.from_bytes(frame[:2], "big"), version))
        self.send_bytes(pack(frame))

    def read_frame(self) -> bytes | None:
        """Return the next frame; None if the connection ends between two frames."""
        while (frame := self._frames.next_frame()) is None:
            try:
                data = self.sock.recv(65_536)
            except (ConnectionResetError, ssl.SSLError):
                data = b""
            if not data:
                assert not len(self._frames), "half a frame"
                return None
            self._frames.feed(data)
        return frame

    def answer(self) -> Any:
        """Return the next response. Raises: ConnectionError if the broker closes the connection."""
        frame = self.read_frame()
        if frame is None:
            raise ConnectionError("the broker hung up")
        return decode_response(frame, *self._sent.popleft()).body

    def ask(self, request: object, version: int) -> Any:
        self.send(request, version)
        return self.answer()


class PlainClient(RawConnection):
    """A classic member. ``member_id`` and ``generation`` are those of the latest JoinGroup."""

    def __init__(self, bootstrap_servers: str, client_id: str = "plain") -> None:
        super().__init__(bootstrap_servers, client_id=client_id)
        self.member_id = ""
        self.generation = -1

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
        """Sync with an assignment of all partitions to this member; then the group is Stable."""
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
