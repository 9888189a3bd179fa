"""Capture the traffic of share and streams groups with a real Kafka, without tcpdump, into fixtures/captures.

    capture.py share|streams [--port 19392]

A proxy forwards the connections of Kafka's own clients, and writes the bytes of both sides to a pcap file. Needs Java
17 and Maven.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import trio

TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(TESTS))
from interop.kafka_tools import tool_command  # noqa: E402
from interop.programs import ENVIRONMENT, word_count  # noqa: E402
from oracle import kafka  # noqa: E402
from tools.pcap import Segment, Talk, packets, pcap  # noqa: E402

FOLDER = TESTS.parent / "fixtures" / "captures"
MSS = 16_000
SHARE_TOOL = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"


class Recorder:
    """A proxy in front of a broker. ``segments``: the sent bytes, as TCP segments."""

    def __init__(self, port: int, broker: int) -> None:
        self.port, self._broker = port, broker
        self.segments: list[Segment] = []

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        await trio.serve_tcp(self._forward, self.port, host="127.0.0.1", task_status=task_status)

    async def _forward(self, client: trio.SocketStream) -> None:
        broker = await trio.open_tcp_stream("127.0.0.1", self._broker)
        ends = ("127.0.0.1", client.socket.getpeername()[1]), ("127.0.0.1", self._broker)
        talk = Talk(*ends, time_us=_now(), mss=MSS, gap_us=1)
        self.segments += talk.open()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._pump, client, broker, talk, True)
            nursery.start_soon(self._pump, broker, client, talk, False)
        talk.time_us = _now()
        self.segments += talk.close()

    async def _pump(self, source: trio.SocketStream, target: trio.SocketStream, talk: Talk, to_broker: bool) -> None:
        try:
            while data := await source.receive_some(1 << 16):
                talk.time_us = max(talk.time_us, _now())
                self.segments += talk.say(to_broker, bytes(data))
                await target.send_all(data)
            await target.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.aclose_forcefully(target)


def _now() -> int:
    return time.time_ns() // 1_000


def consume(address: str, client: str, *options: str) -> None:
    """Run Kafka's console share consumer in group ``billing``."""
    settings = ["--command-property", f"client.id={client}"]
    command = [*tool_command(SHARE_TOOL), "--bootstrap-server", address, "--topic", "orders", "--group", "billing"]
    command += [*settings, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(client, done.returncode, len(done.stdout.splitlines()), done.stderr[-300:])


def share(address: str) -> None:
    """Run members that release and reject records, one after the other, and then two members at once."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": address})
    for done in admin.create_topics([NewTopic("orders", 2, 1)]).values():
        done.result(30)
    try:
        operation = AlterConfigOpType.SET
        entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=operation)
        resource = ConfigResource(ResourceType.GROUP, "billing", incremental_configs=[entry])
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(30)
    except AttributeError:
        print("this client cannot set configurations of groups")
    producer = Producer({"bootstrap.servers": address})
    for number in range(60):
        producer.produce("orders", b"order-%d" % number, partition=number % 2)
        if number % 10 == 9:
            producer.flush()  # ends a batch
    producer.flush()
    consume(address, "releases", "--release", "--max-messages", "10", "--timeout-ms", "8000")
    consume(address, "rejects", "--reject", "--max-messages", "10", "--timeout-ms", "8000")
    workers = [
        threading.Thread(target=consume, args=(address, name, "--timeout-ms", "6000")) for name in ("first", "second")
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def streams(address: str) -> None:
    """Run a word count with standby tasks: one instance, then also a second one, then only the second."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": address})
    for done in admin.create_topics([NewTopic("lines", 2, 1), NewTopic("counts", 1, 1)]).values():
        done.result(30)
    entry = ConfigEntry("streams.num.standby.replicas", "1", incremental_operation=AlterConfigOpType.SET)
    for done in admin.incremental_alter_configs(
        [ConfigResource(ResourceType.GROUP, "count", incremental_configs=[entry])]
    ).values():
        done.result(30)
    producer = Producer({"bootstrap.servers": address})
    for number in range(20):
        producer.produce("lines", b"one two three", partition=number % 2)
    producer.flush()

    def start(name: str, folder: str) -> subprocess.Popen[bytes]:
        arguments = [address, "count", "at_least_once", f"{folder}/{name}", "lines", "counts", f"client.id={name}"]
        return subprocess.Popen([*word_count(), *arguments], env=ENVIRONMENT, stdin=subprocess.PIPE)

    with tempfile.TemporaryDirectory() as folder:
        first = start("first", folder)
        time.sleep(12)
        second = start("second", folder)
        time.sleep(14)
        first.communicate(timeout=30)
        time.sleep(6)
        second.communicate(timeout=30)


SCENARIOS: dict[str, Callable[[str], None]] = {"share": share, "streams": streams}


async def record(scenario: str, port: int, broker: int) -> Sequence[Segment]:
    recorder = Recorder(port, broker)
    async with trio.open_nursery() as nursery:
        await nursery.start(recorder.serve)
        await trio.to_thread.run_sync(SCENARIOS[scenario], f"127.0.0.1:{port}")
        nursery.cancel_scope.cancel()
    return sorted(recorder.segments, key=lambda segment: segment.time_us)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", choices=sorted(SCENARIOS))
    parser.add_argument("--port", type=int, default=19_392)
    arguments = parser.parse_args()
    proxy = arguments.port + 5
    settings = {
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy}",
        "group.streams.initial.rebalance.delay.ms": "0",
        "group.share.heartbeat.interval.ms": "1000",
        "group.share.min.heartbeat.interval.ms": "1000",
        "group.streams.heartbeat.interval.ms": "1000",
        "group.streams.min.heartbeat.interval.ms": "1000",
    }
    with kafka.running(kafka.NEWEST, arguments.port, settings):
        segments = trio.run(record, arguments.scenario, proxy, arguments.port)
    file = FOLDER / f"java-4.2.0__kafka-4.2.0__{arguments.scenario}.pcap.gz"
    file.write_bytes(gzip.compress(pcap(packets(segments)), mtime=0))
    print(file, os.path.getsize(file))


if __name__ == "__main__":
    main()
