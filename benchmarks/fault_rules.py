"""The cost of fault rules for a heartbeat: CPU time of clusters with rules, as a ratio to a cluster without rules.

    python benchmarks/fault_rules.py [--pairs 20] [--heartbeats 2000]

All clusters are in one process and serve heartbeats of in-process connections in turn, so that a busy machine slows
each cluster by the same factor. About half of the CPU time is that of the client, which is the same for all clusters.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import AsyncExitStack

import trio

from kwire import APIS
from kwire.messages.heartbeat import HeartbeatRequest
from mockbroker import Cluster, InProcessConnection, open_cluster
from mockbroker.broker.handlers import HANDLERS

RULES = 100
REQUEST = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
VERSION = 4


def on_other_apis(cluster: Cluster) -> None:
    """Add rules on other APIs than Heartbeat."""
    others = sorted(APIS[key].name for key in HANDLERS if APIS[key].name != "Heartbeat")
    for number in range(RULES):
        cluster.faults.add_rule({"match": {"api": others[number % len(others)]}, "action": {"delay_ms": 1}})


def on_other_groups(cluster: Cluster) -> None:
    """Add rules on heartbeats of other groups."""
    for number in range(RULES):
        cluster.faults.add_rule({"match": {"api": "Heartbeat", "group": f"g{number}"}, "action": {"hold": True}})


WITH_RULES: dict[str, Callable[[Cluster], None]] = {
    f"{RULES} rules on other APIs": on_other_apis,
    f"{RULES} rules on heartbeats of other groups": on_other_groups,
}


async def measure(connection: InProcessConnection, heartbeats: int) -> float:
    """Return the CPU time of the process for a number of heartbeats, in seconds."""
    begin = time.process_time()
    for _ in range(heartbeats):
        await connection.ask(REQUEST, VERSION)
    return time.process_time() - begin


async def run(pairs: int, heartbeats: int) -> None:
    async with AsyncExitStack() as stack:
        plain = (await stack.enter_async_context(open_cluster())).connect()
        contenders = {}
        for name, add_rules in WITH_RULES.items():
            cluster = await stack.enter_async_context(open_cluster())
            add_rules(cluster)
            contenders[name] = cluster.connect()
        await measure(plain, heartbeats)
        print("| rules | µs of a heartbeat | ratio, median | quartiles |")
        print("|---|---|---|---|")
        for name, connection in contenders.items():
            await measure(connection, heartbeats)
            ratios, times = [], []
            for number in range(pairs):
                order = [plain, connection] if number % 2 else [connection, plain]
                seconds = {each: await measure(each, heartbeats) for each in order}
                ratios.append(seconds[connection] / seconds[plain])
                times.append(seconds[connection] / heartbeats * 1e6)
            low, _, high = statistics.quantiles(ratios, n=4)
            print(
                f"| {name} | {statistics.median(times):.1f} | {statistics.median(ratios):.3f} | {low:.3f}-{high:.3f} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--heartbeats", type=int, default=2_000)
    arguments = parser.parse_args()
    trio.run(run, arguments.pairs, arguments.heartbeats)


if __name__ == "__main__":
    main()
