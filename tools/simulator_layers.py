"""The CPU time of the simulator by layer.

    python tools/simulator_layers.py SEEDS [SCHEME]...

runs seeds of each scheme, and prints the table of docs/simulation.md: the share of each layer in the CPU time, from
samples of the stack. A sample counts for the innermost layer on the stack: time in the standard library counts for the
layer that calls it.
"""

from __future__ import annotations

import gc
import logging
import signal
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from mockbroker.cli.simulate import COLLECT_AFTER
from mockbroker.lab.simulation.run import run
from mockbroker.lab.simulation.schemes import SCHEMES

ROOT = f"{Path(__file__).parent.parent}/"
EVENTS = 1_000  # of each seed
WARM_UP = 999_999  # seed that runs before the samples, so that the code of readers and writers is generated
INTERVAL = 0.001  # CPU seconds between samples; a system may have a longer minimum
SIMULATION = "mockbroker/lab/simulation/"
# Beginning of a path -> layer. The first one that fits counts.
LAYERS: Mapping[str, str] = {
    f"{SIMULATION}invariants/": "checkers of the broker's state",
    f"{SIMULATION}model.py": "checkers of the broker's state",
    f"{SIMULATION}watching.py": "checkers of the broker's state",
    f"{SIMULATION}checkers/": "checkers of the clients' history",
    f"{SIMULATION}clients/": "clients",
    f"{SIMULATION}tcp/": "bytes: TCP, TLS, SASL",
    "mockbroker/proxy/login.py": "bytes: TCP, TLS, SASL",
    f"{SIMULATION}queue.py": "event queue, random numbers",
    f"{SIMULATION}dice.py": "event queue, random numbers",
    f"{SIMULATION}trace.py": "trace and its hash",
    f"{SIMULATION}words.py": "trace and its hash",
    SIMULATION: "network of messages, process, faults",
    "mockbroker/net/": "broker: pump, framing, router, journal",
    "mockbroker/broker/router.py": "broker: pump, framing, router, journal",
    "mockbroker/broker/journal.py": "broker: pump, framing, router, journal",
    "mockbroker/storage/": "broker: storage, recovery of logs",
    "mockbroker/groups/": "broker: groups",
    "mockbroker/": "broker: other requests, topics, transactions, timers",
    "kwire/": "codec and record batches",
}
OTHER = "other"


def layer_of(paths: Sequence[str]) -> str:
    """Return the layer of a sample. ``paths``: files of the stack, innermost first, relative to the repository."""
    for path in paths:
        for begin, layer in LAYERS.items():
            if path.startswith(begin):
                return layer
    return OTHER


def sample(scheme: str, seeds: int) -> Counter[str]:
    """Return the number of samples by layer. ``scheme``: the scheme; ``seeds``: number of seeds that run."""
    samples: Counter[str] = Counter()

    def record_sample(_: int, frame: FrameType | None) -> None:
        paths = []
        while frame is not None:
            paths.append(frame.f_code.co_filename.removeprefix(ROOT))
            frame = frame.f_back
        samples[layer_of(paths)] += 1

    run(SCHEMES[scheme](WARM_UP, EVENTS))
    before = signal.signal(signal.SIGPROF, record_sample)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
    try:
        for seed in range(seeds):
            run(SCHEMES[scheme](seed, EVENTS))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return samples


def table_of(samples: Mapping[str, Mapping[str, int]]) -> str:
    """Return a Markdown table: a row for each layer, and a column for each scheme.

    ``samples``: scheme -> layer -> number of samples.
    """
    lines = [f"| layer, % of the CPU time | {' | '.join(f'`{scheme}`' for scheme in samples)} |"]
    lines.append(f"|---|{'--:|' * len(samples)}")
    for layer in dict.fromkeys([*LAYERS.values(), OTHER]):
        shares = [100 * counts.get(layer, 0) / (sum(counts.values()) or 1) for counts in samples.values()]
        lines.append(f"| {layer} | {' | '.join(f'{share:.1f}' for share in shares)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    schemes = sys.argv[2:] or ["swarm", "streams", "shares", "data", "mix", "bytes"]
    sys.stdout.write(table_of({scheme: sample(scheme, int(sys.argv[1])) for scheme in schemes}))
