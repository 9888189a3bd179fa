"""Produce messages with kcat (librdkafka) and consume them: rates, and the CPU time of the broker.

    python benchmarks/kcat_throughput.py HOST:PORT [--messages 200000] [--size 100] [--pid PID]

The topic is created by a message that is not counted. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time

from processes import cpu_times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=100, help="bytes")
    parser.add_argument("--pid", type=int, default=0, help="process of the broker")
    asked = parser.parse_args()
    topic = f"throughput-{time.time_ns()}"

    def kcat(*args: str, given: bytes | None = None) -> tuple[float, float, bytes]:
        """Return seconds, CPU seconds of the broker, and the output."""
        command = ["kcat", "-b", asked.address, "-t", topic, "-p", "0", *args]
        begin, cpu = time.perf_counter(), sum(cpu_times(asked.pid))
        done = subprocess.run(command, capture_output=True, timeout=120, input=given, check=True)
        return time.perf_counter() - begin, sum(cpu_times(asked.pid)) - cpu, done.stdout

    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.writelines(f"{number:07}".ljust(asked.size, "x") + "\n" for number in range(asked.messages))
        file.flush()
        kcat("-P", given=b"first\n")
        produced, produce_cpu, _ = kcat("-P", "-l", file.name, "-X", "linger.ms=5", "-X", "acks=1")
        consumed, consume_cpu, out = kcat("-C", "-o", "1", "-e", "-q", "-c", str(asked.messages))
    got = out.count(b"\n")
    figures = {
        "got": got,
        "produce_msgs_s": asked.messages / produced,
        "consume_msgs_s": got / consumed,
        "server_cpu_produce_s": produce_cpu,
        "server_cpu_consume_s": consume_cpu,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
