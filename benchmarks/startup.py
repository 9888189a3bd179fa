"""Start-up time: the imports, the first use of a message, and the commands.

    make bench

Each measurement is a new process, in turn; a figure is the median of ROUNDS processes.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

ROUNDS = 15

BARE = "pass"
CPU = "import time; t = time.process_time(); {}; print((time.process_time() - t) * 1e3)"
FIRST = (
    "import kwire, time; from kwire import decode, encode; from kwire.messages.{module} import {name} as M; "
    "t = time.process_time(); {use}; print((time.process_time() - t) * 1e3)"
)
ROWS = {  # row: program, goal in milliseconds
    "import kwire, before construct is needed": (CPU.format("import kwire; kwire.decode, kwire.encode"), 60),
    "import kwire, with construct": (CPU.format("import kwire; from kwire.engines import reference"), 100),
    "first encode of JoinGroupRequest v9": (
        FIRST.format(module="join_group", name="JoinGroupRequest", use="encode(M(), 9)"),
        3,
    ),
    "first decode of MetadataResponse v12": (
        FIRST.format(
            module="metadata",
            name="MetadataResponse",
            use="decode(M, bytes(4) + b'\\1\\0' + bytes(4) + b'\\1\\0', 12)",
        ),
        3,
    ),
    "first decode of FetchResponse v17": (
        FIRST.format(module="fetch", name="FetchResponse", use="decode(M, bytes(10) + b'\\1\\0', 17)"),
        3,
    ),
    "import of kwire.messages.fetch, the largest": (
        "import kwire.schema, time; t = time.process_time(); import kwire.messages.fetch; "
        "print((time.process_time() - t) * 1e3)",
        None,
    ),
    "every message class of every API": (
        CPU.format("import kwire; list(kwire.APIS.values())"),
        150,
    ),
}
COMMANDS = {"kwire --version": 150, "kwire apis": None, "mockbroker --version": None}


def main() -> None:
    times: dict[str, list[float]] = {what: [] for what in (*ROWS, *COMMANDS, "bare Python")}
    for _ in range(ROUNDS):
        times["bare Python"].append(_wall([sys.executable, "-c", BARE]))
        for what, (program, _) in ROWS.items():
            times[what].append(_told(program))
        for command in COMMANDS:
            name, *rest = command.split()
            times[command].append(_wall([str(Path(sys.executable).parent / name), *rest]))
    print("| what | ms | goal |\n|---|---|---|")
    for what, milliseconds in times.items():
        goal = ROWS[what][1] if what in ROWS else COMMANDS.get(what)
        print(f"| {what} | {statistics.median(milliseconds):.1f} | {'' if goal is None else f'<= {goal}'} |")
    print(
        "\nImports and first uses are CPU time inside a process that runs already; commands and bare Python wall time."
    )


def _told(program: str) -> float:
    return float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout)


def _wall(command: list[str]) -> float:
    program = (
        "import subprocess, sys, time; t = time.perf_counter(); "
        "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL); print((time.perf_counter() - t) * 1e3)"
    )
    done = subprocess.run([sys.executable, "-c", program, *command], capture_output=True, check=True, text=True)
    return float(done.stdout)


if __name__ == "__main__":
    main()
