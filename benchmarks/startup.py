"""Start-up time: the imports, the first use of a message, and the commands.

    make bench
    python benchmarks/startup.py --imports

Each measurement is a new process, in turn; a figure is the median of ROUNDS processes. ``--imports`` prints instead
where ``mockbroker serve`` spends time in imports until it has answered a Metadata request (``-X importtime``). Modules
that importlib.import_module loads, such as handlers, are not in that list; those that they import are.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # before installed packages

from plain_client import RawConnection  # noqa: E402  # pyright: ignore[reportMissingImports]

from kwire.messages.metadata import MetadataRequest  # noqa: E402

ROUNDS = 15
SLOWEST = 40  # modules in the list of --imports

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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--imports", action="store_true", help="print the imports on the way to the first response")
    if parser.parse_args().imports:
        _print_imports()
    else:
        _print_times()


def _print_imports() -> None:
    """Print the imports of ``mockbroker serve`` until its first response: packages, then the slowest modules."""
    rows = _imports()
    packages: dict[str, list[int]] = {}
    for own, _, name in rows:
        packages.setdefault(name.partition(".")[0], []).append(own)
    print(f"{len(rows)} modules, {sum(own for own, _, _ in rows) / 1e3:.1f} ms\n")
    print("| package | modules | ms |\n|---|---|---|")
    for package, times in sorted(packages.items(), key=lambda item: -sum(item[1]))[: SLOWEST // 2]:
        print(f"| {package} | {len(times)} | {sum(times) / 1e3:.1f} |")
    print("\n| module | alone, ms | with its imports, ms |\n|---|---|---|")
    for own, total, name in sorted(rows, reverse=True)[:SLOWEST]:
        print(f"| {name} | {own / 1e3:.1f} | {total / 1e3:.1f} |")


def _imports() -> list[tuple[int, int, str]]:
    """Return the rows of ``-X importtime``: microseconds of the module alone, with its imports, and its name."""
    command = [sys.executable, "-X", "importtime", "-m", "mockbroker", "serve", "--port", "0"]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            address = process.stdout.readline().rpartition("=")[2].strip()
            with RawConnection(address) as client:
                assert client.ask(MetadataRequest(), 9).brokers
            errors.seek(0)
            lines = errors.read().splitlines()  # before the process imports what its end needs
        finally:
            process.terminate()
    cells = [line.removeprefix("import time:").split("|") for line in lines if line.startswith("import time:")]
    return [(int(own), int(total), name.strip()) for own, total, name in cells if own.strip().isdigit()]


def first_response() -> float:
    """Return the milliseconds from exec of ``mockbroker serve`` to its response to a Metadata request."""
    command = [str(Path(sys.executable).parent / "mockbroker"), "serve", "--port", "0"]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().rpartition("=")[2].strip()
            with RawConnection(address) as client:
                assert client.ask(MetadataRequest(), 9).brokers
            return (time.perf_counter() - began) * 1e3
        finally:
            process.terminate()


def _print_times() -> None:
    times: dict[str, list[float]] = {what: [] for what in (*ROWS, *COMMANDS, "bare Python")}
    for _ in range(ROUNDS):
        times["bare Python"].append(wall([sys.executable, "-c", BARE]))
        for what, (program, _) in ROWS.items():
            times[what].append(printed_by(program))
        for command in COMMANDS:
            name, *rest = command.split()
            times[command].append(wall([str(Path(sys.executable).parent / name), *rest]))
    print("| what | ms | goal |\n|---|---|---|")
    for what, milliseconds in times.items():
        goal = ROWS[what][1] if what in ROWS else COMMANDS.get(what)
        print(f"| {what} | {statistics.median(milliseconds):.1f} | {'' if goal is None else f'<= {goal}'} |")
    print(
        "\nImports and first uses are CPU time inside a process that runs already; commands and bare Python wall time."
    )


def printed_by(program: str) -> float:
    """Return the number that a Python program prints."""
    return float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout)


def wall(command: list[str]) -> float:
    """Return the milliseconds of a command by the clock."""
    program = (
        "import subprocess, sys, time; t = time.perf_counter(); "
        "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL); print((time.perf_counter() - t) * 1e3)"
    )
    done = subprocess.run([sys.executable, "-c", program, *command], capture_output=True, check=True, text=True)
    return float(done.stdout)


if __name__ == "__main__":
    main()
