"""``mockbroker proxy`` in a process, or a chain of such proxies."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

COMMAND = [sys.executable, "-m", "mockbroker", "proxy", "--port", "0"]
READY = "ready bootstrap.servers="


@contextmanager
def running_proxy(to: str, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a proxy; yield the process and its address.

    Args:
        to: Addresses of the cluster, separated by commas.
        options: Further options of the command.
    """
    process = subprocess.Popen(
        [*COMMAND, "--to", to, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith(f"{READY}127.0.0.1:")
        yield process, line.removeprefix(READY).strip()
    finally:
        process.kill()
        process.communicate()


@contextmanager
def proxies_in_a_row(to: str, number: int, *options: str) -> Iterator[str]:
    """Start proxies, each of which forwards to the previous one; yield the address of the last.

    Args:
        to: Addresses of the cluster, separated by commas.
        number: Number of proxies.
        options: Further options of each proxy.
    """
    with ExitStack() as stack:
        for _ in range(number):
            _, to = stack.enter_context(running_proxy(to, *options))
        yield to
