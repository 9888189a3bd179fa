"""Where the CPU time of a request goes: kernel, event loop, framing, header, body, handler, log, response.

    python benchmarks/breakdown.py [--seconds 4] [--only Heartbeat Produce Metadata Fetch JoinGroup]

A broker in a process of its own serves CONNECTIONS clients on sockets, each with one request in flight. py-spy
(on PATH) samples which function of the broker runs. The user time of the process is divided in proportion to these
samples; the kernel column is its system time. Samples in lines with a system call are left out, because a process that
waits for a CPU mostly waits there. So the table depends little on other load of the machine.
"""

from __future__ import annotations

import argparse
import linecache
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from processes import cpu_times

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # before installed packages

CONNECTIONS = 10
RATE = 500  # samples a second
TOPIC = "bench"
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "mockbroker.join.settle.ms": 0}
KERNEL, LOOP, FRAMING, HEADER, BODY, HANDLER, LOG, RESPONSE = PARTS = (
    "kernel",
    "event loop",
    "framing",
    "header",
    "body",
    "handler",
    "journal and request log",
    "response",
)
FRAME = re.compile(r"(?P<function>.+) \((?P<path>.+):(?P<line>\d+)\)")  # as py-spy prints it
SYSTEM_CALLS = (".recv(", ".send(", "epoll.poll(", "epoll_wait", ".register(", ".modify(", "_epoll.")
FUNCTIONS = {  # file and function: the part, also for the functions that it calls
    ("kwire/frames.py", "feed"): FRAMING,
    ("kwire/frames.py", "next_frame"): FRAMING,
    ("kwire/frames.py", "complete"): FRAMING,
    ("net/connection.py", "answer"): RESPONSE,
    ("net/connection.py", "_read"): BODY,
    ("net/connection.py", "_read_header"): HEADER,
    ("net/connection.py", "next_call"): HEADER,
    ("broker/request_log.py", "record"): LOG,
    ("broker/request_log.py", "record_response"): LOG,
    ("broker/router.py", "step"): HANDLER,
}
FILES = {  # end of the path of a file: the part, also for the functions that it calls
    "broker/journal.py": LOG,
    "net/pump.py": LOOP,
    "net/sockets.py": LOOP,
    "net/server.py": LOOP,
    "net/readiness.py": LOOP,
    "net/timekeeper.py": LOOP,
}


# --- the broker ----------------------------------------------------------------------------------------------------


def serve() -> None:
    """Run the broker until it is terminated."""
    import trio

    from mockbroker import open_cluster
    from mockbroker.cli.garbage_collection import limit_garbage_collection

    async def run() -> None:
        async with open_cluster(topics={TOPIC: 6}, config=SETTINGS) as cluster:
            limit_garbage_collection()
            print(cluster.bootstrap_servers, flush=True)
            await trio.sleep_forever()

    trio.run(run)


def part_of(stack: str) -> str:
    """Return the part of a request that a stack belongs to: that of its innermost known function.

    Args:
        stack: the frames as py-spy prints them: ``function (path:line);function (path:line);...``.
    """
    frames = [FRAME.fullmatch(frame) for frame in reversed(stack.split(";"))]
    known = [frame for frame in frames if frame is not None]
    if known and any(call in linecache.getline(known[0]["path"], int(known[0]["line"])) for call in SYSTEM_CALLS):
        return KERNEL
    for frame in known:
        path = "/".join(Path(frame["path"]).parts[-2:])
        part = FUNCTIONS.get((path, frame["function"].rpartition(".")[2])) or FILES.get(path)
        if part is not None:
            return part
    return LOOP


# --- the clients ---------------------------------------------------------------------------------------------------


def requests_of(client: Any, number: int) -> dict[str, tuple[Any, int]]:
    """Return one request of each API with its version, for a client that has joined a group of its own.

    Args:
        client: the connection of the client.
        number: number of the client, part of its group id.
    """
    from kwire.messages.fetch import FetchRequest
    from kwire.messages.heartbeat import HeartbeatRequest
    from kwire.messages.join_group import JoinGroupRequest
    from kwire.messages.metadata import MetadataRequest
    from kwire.messages.produce import ProduceRequest
    from kwire.messages.sync_group import SyncGroupRequest
    from kwire.records import Record, build_batch

    batch = build_batch([Record(offset=0, timestamp=0, value=bytes(100))])
    produced = [ProduceRequest.Topic.Partition(index=number % 6, records=batch)]
    produce = ProduceRequest(acks=1, topic_data=[ProduceRequest.Topic(name=TOPIC, partition_data=produced)])
    fetched = FetchRequest.Topic.Partition(partition=number % 6, partition_max_bytes=150)
    fetch = FetchRequest(max_bytes=150, topics=[FetchRequest.Topic(topic=TOPIC, partitions=[fetched])])
    join = JoinGroupRequest(
        group_id=f"group-{number}",
        session_timeout_ms=600_000,
        rebalance_timeout_ms=600_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=bytes(60))],
    )
    joined = client.ask(join, 3)
    join.member_id = joined.member_id
    group = {"group_id": join.group_id, "generation_id": joined.generation_id, "member_id": joined.member_id}
    client.ask(SyncGroupRequest(**group), 3)
    metadata = MetadataRequest(topics=[MetadataRequest.Topic(name=TOPIC)])
    assert not client.ask(produce, 8).responses[0].partition_responses[0].error_code
    return {
        "Heartbeat": (HeartbeatRequest(**group), 4),
        "Produce": (produce, 8),
        "Metadata": (metadata, 12),
        "Fetch": (fetch, 11),
        "JoinGroup": (join, 7),
    }


def measure(broker: subprocess.Popen[str], sockets: list[Any], frames: list[bytes], seconds: float) -> dict[str, float]:
    """Send requests for some seconds; return the microseconds of CPU time of each part of a request.

    Args:
        broker: process of the broker.
        sockets: connections of the clients.
        frames: request of each client.
        seconds: time of the measurement.
    """
    ask(sockets, frames, 0.3)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "stacks"
        spy = (
            "py-spy",
            "record",
            "--rate",
            RATE,
            "--duration",
            round(seconds) + 1,
            "--format",
            "raw",
            "--full-filenames",
        )
        command = [*map(str, spy), "--pid", str(broker.pid), "--output", str(file)]
        sampler = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        ask(sockets, frames, 0.5)
        before = cpu_times(broker.pid)
        count = ask(sockets, frames, seconds)
        user, system = (after - began for after, began in zip(cpu_times(broker.pid), before, strict=True))
        while sampler.poll() is None:
            ask(sockets, frames, 0.2)
        samples: Counter[str] = Counter()
        for line in file.read_text("utf-8").splitlines():
            stack, _, number = line.rpartition(" ")
            samples[part_of(stack)] += int(number)
    del samples[KERNEL]
    times = {part: samples[part] / samples.total() * user for part in PARTS} | {KERNEL: system}
    return {part: spent / count * 1e6 for part, spent in times.items()}


def ask(sockets: list[Any], frames: list[bytes], seconds: float) -> int:
    """Send one request on each socket and wait for the responses, again and again; return the number of requests."""
    count, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        for sock, frame in zip(sockets, frames, strict=True):
            sock.sendall(frame)
        for sock in sockets:
            sock.recv(1 << 16)
        count += len(sockets)
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=4.0, help="time for each API")
    parser.add_argument("--only", nargs="+", metavar="API", help="names of APIs")
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    from plain_client import RawConnection

    from kwire import encode_request
    from kwire.frames import pack

    process = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        clients = [RawConnection(address) for _ in range(CONNECTIONS)]
        asked = [requests_of(client, number) for number, client in enumerate(clients)]
        print("| request | " + " | ".join(PARTS) + " | total |")
        print("|---" * (len(PARTS) + 2) + "|")
        for api in options.only or asked[0]:
            frames = [pack(encode_request(*each[api], correlation_id=1, client_id="bench")) for each in asked]
            parts = measure(process, [client.sock for client in clients], frames, options.seconds)
            figures = [*parts.values(), sum(parts.values())]
            print(f"| {api} | " + " | ".join(f"{each:.1f}" for each in figures) + " |", flush=True)
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
