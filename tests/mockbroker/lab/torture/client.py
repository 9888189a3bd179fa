"""A client under test that produces a record again and again. The argument determines how it reacts to a bad
response."""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from typing import Any

from kwire import encode_request
from kwire.envelope import decode_response
from kwire.frames import pack
from kwire.messages.produce import ProduceRequest
from kwire.records import Record, build_batch

PRODUCE, VERSION = 0, 9
MEMORY = 1 << 20  # bytes that it allocates at a time


class BadResponse(Exception):
    pass


def received(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise BadResponse("the connection is closed")
        data += more
    return data


def produce(servers: list[str], topic: str) -> None:
    """Try each broker, because only the leader accepts records."""
    kind = ProduceRequest.Topic
    part = kind.Partition(index=0, records=build_batch([Record(value=b"tea")]))
    request = ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[kind(name=topic, partition_data=[part])])
    for server in servers:
        host, _, port = server.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=1) as sock:
            sock.sendall(pack(encode_request(request, VERSION, correlation_id=7, client_id="client")))
            (size,) = struct.unpack(">i", received(sock, 4))
            if not 0 < size < 10_000:
                raise BadResponse(f"a response of {size} bytes")
            response = decode_response(received(sock, size), PRODUCE, VERSION)
        body: Any = response.body
        if response.header.correlation_id != 7:
            raise BadResponse("another correlation id")
        if not body.responses[0].partition_responses[0].error_code:
            return
    raise BadResponse("no broker is the leader")


def main(reaction: str) -> None:
    servers = os.environ["MOCKBROKER_BOOTSTRAP_SERVERS"].split(",")
    taken: list[bytes] = []
    while True:
        try:
            produce(servers, os.environ["MOCKBROKER_TOPIC"])
        except (BadResponse, OSError, struct.error, IndexError) as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            match reaction:
                case "end":
                    raise SystemExit(3) from error
                case "abort":
                    os.abort()
                case "wait":
                    time.sleep(600)
                case "take memory":
                    taken.append(b"x" * 64 * MEMORY)
                case "end well":
                    raise SystemExit(0) from error
        time.sleep(0.02)


if __name__ == "__main__":
    main(sys.argv[1])
