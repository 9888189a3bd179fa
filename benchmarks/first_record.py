"""CPU time and memory to the first acknowledged record of confluent-kafka: librdkafka's mock and mockbroker.

    python benchmarks/first_record.py

Each is measured in three new processes; the median is printed. Memory is the largest resident size of the process.
"""

from __future__ import annotations

import subprocess
import sys
from statistics import median

HEAD = "import resource, time; from confluent_kafka import Producer; begin = time.process_time()"
RECORD = "p.produce('orders', b'tea'); assert p.flush(10) == 0"
PRINT = "print(time.process_time() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
PROGRAMS = {
    "librdkafka's mock": f"p = Producer({{'test.mock.num.brokers': 1, 'bootstrap.servers': 'mock'}}); {RECORD}",
    "mockbroker": "from mockbroker import run_cluster\nwith run_cluster(topics={'orders': 1}) as cluster:\n"
    f"    p = Producer({{'bootstrap.servers': cluster.bootstrap_servers}}); {RECORD}",
}


def measure(program: str) -> tuple[float, float]:
    """Return CPU seconds and KiB of memory of a new process."""
    command = [sys.executable, "-c", f"{HEAD}\n{program}\n{PRINT}"]
    words = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(words[0]), float(words[1])


if __name__ == "__main__":
    for name, program in PROGRAMS.items():
        seconds, size = (median(values) for values in zip(*(measure(program) for _ in range(3)), strict=True))
        print(f"{name}: {seconds * 1000:.0f} ms of CPU, {size / 1024:.0f} MB")
