"""CPU time of the proxy beside a relay that does not parse: python benchmarks/proxy.py

Both pass the same requests on to the same responder, in turns, so that other load of the machine affects both.
"""

from __future__ import annotations

import os
import resource
import selectors
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import trio
from processes import exact_cpu_time

from kwire import decode_request, encode_request, encode_response
from kwire.frames import pack
from kwire.messages.api_versions import ApiVersionsResponse
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.init_producer_id import InitProducerIdResponse
from kwire.messages.metadata import MetadataResponse
from kwire.messages.produce import ProduceRequest, ProduceResponse
from mockbroker.recording.chunks import CHUNK, new_memory
from mockbroker.recording.files import AppendedFile

ROUNDS = 15
FILES = ("jsonl", "pcapng")
TOPIC = "topic"  # a recording in a topic
RECORDINGS = (*FILES, TOPIC)
WRITTEN = 0.3  # seconds after which a recording has the last frame
WRITES = 16  # writes of a round, each of a full chunk of a recording
CROWDS = (1_000, 10_000)  # connections; a relay has two sockets for each of them
OTHER_FILES = 60  # open files of a process that are not such sockets, at most
CROWD_REQUESTS = 50_000
HEARTBEAT = pack(encode_request(HeartbeatRequest(group_id="g", member_id="m" * 40), 4, correlation_id=1, client_id="c"))
BEAT = pack(encode_response(HeartbeatResponse(), 4, correlation_id=1))
BATCH = pack(
    encode_request(
        ProduceRequest(
            acks=1,
            topic_data=[
                ProduceRequest.Topic(
                    name="t", partition_data=[ProduceRequest.Topic.Partition(index=0, records=os.urandom(1_000_000))]
                )
            ],
        ),
        9,
        correlation_id=1,
        client_id="c",
    )
)
STORED = pack(encode_response(ProduceResponse(), 9, correlation_id=1))
CASES: dict[str, tuple[bytes, bytes, int, int]] = {  # request, response, requests in flight, requests of a round
    "heartbeats, one in flight": (HEARTBEAT, BEAT, 1, 3_000),
    "heartbeats, 100 in flight": (HEARTBEAT, BEAT, 100, 100_000),  # a round is less than the queue of a recording holds
    "batches of 1 MB": (BATCH, STORED, 1, 25),
}


# Versions that the cluster of the topic supports, by API key: Produce, Metadata, ApiVersions, InitProducerId.
STORED_VERSIONS = {0: (3, 7), 3: (0, 4), 18: (0, 3), 22: (0, 1)}


def store(listener: socket.socket) -> None:
    """Answer as a cluster of one broker with the topic of a recording. The records are not kept."""
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_store, args=(connection,), daemon=True).start()


def _store(connection: socket.socket) -> None:
    held = memoryview(bytearray(1 << 24))
    received = 0
    while size := connection.recv_into(held[received:]):
        received += size
        while received >= 4 and received >= (end := 4 + struct.unpack_from(">i", held)[0]):
            key, version, correlation_id = struct.unpack_from(">hhi", held, 4)
            wants_response, body = _stored(key, held[4:end], connection.getsockname()[1])
            held[: received - end] = held[end:received]
            received -= end
            if wants_response:
                connection.sendall(pack(encode_response(body, version, correlation_id=correlation_id)))


def _stored(key: int, frame: memoryview, port: int) -> tuple[bool, Any]:
    """Return whether a request is answered, and the response."""
    if key == 0:
        request = decode_request(bytes(frame)).body
        topic = request.topic_data[0]
        answered = [ProduceResponse.Topic.Partition(index=each.index) for each in topic.partition_data]
        return request.acks != 0, ProduceResponse(
            responses=[ProduceResponse.Topic(name=topic.name, partition_responses=answered)]
        )
    if key == 3:
        partition = MetadataResponse.Topic.Partition(leader_id=1, replica_nodes=[1], isr_nodes=[1])
        return True, MetadataResponse(
            brokers=[MetadataResponse.Broker(node_id=1, host="127.0.0.1", port=port)],
            topics=[MetadataResponse.Topic(name="frames", partitions=[partition])],
        )
    if key == 22:
        return True, InitProducerIdResponse(producer_id=1)
    versions = [
        ApiVersionsResponse.ApiVersion(api_key=each, min_version=low, max_version=high)
        for each, (low, high) in STORED_VERSIONS.items()
    ]
    return True, ApiVersionsResponse(api_keys=versions)


def respond(listener: socket.socket) -> None:
    """Answer each frame of each connection with the response to its API."""
    held: dict[socket.socket, bytearray] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                if sock is listener:
                    connection, _ = listener.accept()
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    selector.register(connection, selectors.EVENT_READ)
                    held[connection] = bytearray()
                elif data := sock.recv(1 << 20):
                    held[sock] += data
                    sock.sendall(_answers(held[sock]))
                else:
                    selector.unregister(sock)
                    del held[sock]
                    sock.close()


def _answers(held: bytearray) -> bytes:
    """Return the responses to complete requests, which are removed from the received bytes."""
    out, at = [], 0
    while len(held) - at >= 8:
        (size,) = struct.unpack_from(">i", held, at)
        if len(held) - at < 4 + size:
            break
        out.append(STORED if held[at + 5] == 0 else BEAT)
        at += 4 + size
    del held[:at]
    return b"".join(out)


async def relay(port: int) -> None:
    """Pass bytes on without parsing; print the port."""

    async def serve(client: trio.SocketStream) -> None:
        async with client, await trio.open_tcp_stream("127.0.0.1", port) as broker, trio.open_nursery() as nursery:

            async def copy(source: trio.SocketStream, target: trio.SocketStream) -> None:
                while data := await source.receive_some(65_536):
                    await target.send_all(data)
                nursery.cancel_scope.cancel()

            nursery.start_soon(copy, client, broker)
            await copy(broker, client)

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    sys.stdout.write(f"ready bootstrap.servers=127.0.0.1:{listeners[0].socket.getsockname()[1]}\n")
    sys.stdout.flush()
    await trio.serve_listeners(serve, listeners)


def cpu(process: subprocess.Popen[str]) -> float:
    """Return the CPU seconds that a process has used, in all its threads."""
    return exact_cpu_time(process.pid) / 1e9


def play(port: int, case: tuple[bytes, bytes, int, int]) -> None:
    """Send the requests of a round, and read the responses."""
    request, response, in_flight, count = case
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count // in_flight):
            client.sendall(request * in_flight)
            missing = len(response) * in_flight
            while missing:
                missing -= len(client.recv(min(missing, 65_536)))


def crowd(port: int, process: subprocess.Popen[str], count: int) -> tuple[float, float]:
    """Send heartbeats on many connections at once.

    Args:
        port: Port of the relay.
        process: Process of the relay.
        count: Number of connections.

    Returns:
        Memory of a connection in KiB, and CPU time of a request in microseconds.
    """
    memory = psutil.Process(process.pid).memory_info().rss
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(count)]

        def beat() -> None:
            for client in clients:
                client.sendall(HEARTBEAT)
            for client in clients:
                missing = len(BEAT)
                while missing:
                    missing -= len(client.recv(missing))

        beat()
        memory = psutil.Process(process.pid).memory_info().rss - memory
        before, rounds = cpu(process), max(CROWD_REQUESTS // count, 1)
        for _ in range(rounds):
            beat()
        return memory / count / 1024, (cpu(process) - before) / rounds / count * 1e6


def compare_crowds(ports: dict[str, int], processes: dict[str, subprocess.Popen[str]]) -> None:
    """Print a table of memory and CPU with many connections."""
    write: Callable[[str], object] = sys.stdout.write
    write("\n| connections | relay, KiB each | proxy, KiB each | relay, µs | proxy, µs | ratio |\n")
    write("|---|---|---|---|---|---|\n")
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    for count in (min(each, (files - OTHER_FILES) // 2) for each in CROWDS):
        relay_each, proxy_each = (crowd(ports[name], processes[name], count) for name in ports)
        ratio = proxy_each[1] / relay_each[1]
        write(
            f"| {count:,} | {relay_each[0]:.1f} | {proxy_each[0]:.1f} "
            f"| {relay_each[1]:.1f} | {proxy_each[1]:.1f} | {ratio:.2f} |\n"
        )


def compare_writes(folder: Path) -> None:
    """Print the CPU time of the kernel for the writes of a recording alone. ``folder``: folder for the written file."""
    memory, rounds = new_memory(), []
    memory.write(bytes(CHUNK))
    path = folder / "written"
    for _ in range(ROUNDS):
        with memoryview(memory) as data:
            file, before = AppendedFile(path), time.thread_time()
            for _ in range(WRITES):
                file.write(data, 0, CHUNK)
            rounds.append(time.thread_time() - before)
        file.close()
        path.unlink()
    each = statistics.median(rounds) / WRITES / (CHUNK >> 20)
    sys.stdout.write(f"\nTo write a recording to a file takes {each * 1e6:.1f} µs for 1 MiB, without anything else.\n")


def main() -> None:
    """Print tables of CPU for each request, and of memory for each connection."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    listener = socket.create_server(("127.0.0.1", 0), backlog=1_000)
    threading.Thread(target=respond, args=(listener,), daemon=True).start()
    upstream = listener.getsockname()[1]
    storage = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=store, args=(storage,), daemon=True).start()
    topic = f"kafka://127.0.0.1:{storage.getsockname()[1]}/frames"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        proxy = [sys.executable, "-m", "mockbroker", "proxy", "--port", "0", "--to", f"127.0.0.1:{upstream}"]
        commands: dict[str, list[Any]] = {
            "relay": [sys.executable, __file__, str(upstream)],
            "proxy": proxy,
            **{form: [*proxy, "--record", f"{folder}/out.{form}"] for form in FILES},
            TOPIC: [*proxy, "--record", topic],
        }
        processes = {name: stack.enter_context(running(command)) for name, command in commands.items()}
        ports = {name: _port(process) for name, process in processes.items()}
        compare_requests(ports, processes, folder)
        compare_writes(folder)
        both = ("relay", "proxy")
        compare_crowds({name: ports[name] for name in both}, {name: processes[name] for name in both})


@contextmanager
def running(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Run a relay or a proxy, and stop it at the end of the block."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _port(process: subprocess.Popen[str]) -> int:
    """Return the port in the first line that a relay or a proxy prints."""
    assert process.stdout is not None
    return int(process.stdout.readline().rpartition(":")[2])


def compare_requests(ports: dict[str, int], processes: dict[str, subprocess.Popen[str]], folder: Path) -> None:
    """Print a table of CPU for each request. ``folder``: folder of the recordings, which are deleted in between."""
    write: Callable[[str], object] = sys.stdout.write
    write(f"| requests | relay, µs | proxy, µs | proxy : relay |{''.join(f' {f} : proxy |' for f in RECORDINGS)}\n")
    write(f"|---|---|---|---|{'---|' * len(RECORDINGS)}\n")
    for label, case in CASES.items():
        spent: dict[str, list[float]] = {name: [] for name in processes}
        for number in range(ROUNDS + 1):
            for name, process in processes.items():
                before = cpu(process)
                play(ports[name], case)
                if name in RECORDINGS:
                    time.sleep(WRITTEN)
                if number:  # the first round is a warm-up
                    spent[name].append(cpu(process) - before)
                for path in folder.iterdir():
                    path.unlink()
        each = {name: statistics.median(seconds) / case[3] * 1e6 for name, seconds in spent.items()}
        recorded = "".join(f" {each[form] / each['proxy']:.2f} |" for form in RECORDINGS)
        write(
            f"| {label} | {each['relay']:.1f} | {each['proxy']:.1f} | {each['proxy'] / each['relay']:.2f} |{recorded}\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        trio.run(relay, int(sys.argv[1]))
    else:
        main()
