"""Cost of the pytest plugin: loading it, starting a broker, resetting it between tests, logging requests.

    python benchmarks/plugin.py [ROUNDS]

Prints a table for benchmarks/results/plugin.md.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
from collections.abc import Callable
from time import perf_counter

from kwire import ClientSide
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from mockbroker import ThreadCluster
from mockbroker.api.thread import BrokerThread
from mockbroker.base.effects import Call, Client, Ticket
from mockbroker.broker.request_log import RequestLog

CONNECTIONS = 10  # of the previous test, each with a pending JoinGroup
RECORDS = 1_000
TOPICS = {"orders": 6, "bills": 6, "mails": 1}
LOADED = "import pytest; from time import perf_counter as t; a = t(); import mockbroker.pytest_plugin; print(t() - a)"


def main(rounds: int) -> None:
    lines = {
        "plugin loaded, on top of pytest": [loaded() for _ in range(10)],
        "first broker, with its thread, up to its handle": [started() for _ in range(20)],
        "start over, nothing had happened": reset_times(rounds, lambda _: []),
        f"start over after {RECORDS} records, {CONNECTIONS} connections, {CONNECTIONS} pending joins": reset_times(
            rounds, used
        ),
    }
    print("| what | median ms | 99 of 100 below, ms | worst ms | rounds |\n|---|---|---|---|---|")
    for what, times in lines.items():
        figures = statistics.median(times), sorted(times)[len(times) * 99 // 100], max(times)
        print(f"| {what} | {' | '.join(f'{seconds * 1e3:.2f}' for seconds in figures)} | {len(times)} |")
    print(f"\nA request that is kept: {kept() * 1e9:.0f} ns.")


def loaded() -> float:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, check=True, text=True)
    return float(done.stdout)


def started() -> float:
    began = perf_counter()
    thread = BrokerThread()
    thread.handle()
    took = perf_counter() - began
    thread.close()
    return took


def reset_times(rounds: int, use: Callable[[ThreadCluster], list[socket.socket]]) -> list[float]:
    thread = BrokerThread()
    cluster = thread.start_over(TOPICS, {})
    times: list[float] = []
    for _ in range(rounds):
        clients = use(cluster)
        began = perf_counter()
        cluster = thread.start_over(TOPICS, {})
        times.append(perf_counter() - began)
        for client in clients:
            client.close()
    thread.close()
    return times


def used(cluster: ThreadCluster) -> list[socket.socket]:
    """Leave topics, records and groups in a cluster, as a busy test does; return the open connections."""
    cluster.produce("orders", [b"x" * 100] * RECORDS)
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range")],
    )
    clients = []
    for _ in range(CONNECTIONS):
        clients.append(socket.create_connection((cluster.nodes[0].host, cluster.nodes[0].port)))
        clients[-1].sendall(ClientSide("c").send(join, 3))
    cluster.wait_group("g", state="PreparingRebalance", members=CONNECTIONS)
    return clients


def kept() -> float:
    """Return the seconds to log one request."""
    log = RequestLog(0.0)
    call = Call(Ticket(1, 1, 12, 4), Client(0, "c", "/127.0.0.1"), HeartbeatRequest(), bytes(60))
    count = 200_000
    began = perf_counter()
    for _ in range(count):
        log.record(call, 0.0)
    return (perf_counter() - began) / count


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
