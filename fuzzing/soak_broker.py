"""The broker of a soak: a process with a data directory, which is killed, and starts again at the same ports."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from random import Random
from typing import Any

import trustme
from soak_disk import Disk
from soak_server import OBJECTS, read_tasks

from mockbroker.net.tls import pkcs8

ROOT = Path(__file__).parent.parent
LISTENERS = ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL")
BROKERS = 3
RETAINED = 2**18  # bytes of each partition: the memory of the broker stays level
ROLLED = 15_000  # milliseconds after which a segment ends, so that retention can delete it
READY = 180.0  # seconds
BLOCKS = "memory blocks"  # in the numbers of objects
TOPICS = {"plain": 6, "in": 4, "out": 4}


class BrokerProcess:
    """The cluster of a soak, in one process.

    Args:
        folder: Folder for the data directory, the certificates and the output.
        random: Source of the ports.
    """

    def __init__(self, folder: Path, random: Random) -> None:
        self.folder = folder
        self.disk = Disk(folder / "disk")
        self.data = self.disk.folder / "data"
        self.runs = 0
        self.started = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._port, self._http = free_ports(random, BROKERS * len(LISTENERS)), free_ports(random, 1)
        authority = trustme.CA()
        authority.cert_pem.write_to_path(folder / "ca.pem")
        issued = authority.issue_cert("127.0.0.1", "localhost")
        chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
        (folder / "key.pem").write_bytes(pkcs8(issued.private_key_pem.bytes()) + chain)
        (folder / "users").write_text("alice:secret\n", encoding="utf-8")

    @property
    def addresses(self) -> dict[str, str]:
        """The bootstrap address of each listener, and the path of the CA."""
        first = {name: self._port + BROKERS * number for number, name in enumerate(LISTENERS)}
        return {name: f"127.0.0.1:{port}" for name, port in first.items()} | {"ca": str(self.folder / "ca.pem")}

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process and wait until it is ready. Raises: RuntimeError if it does not become ready."""
        self.runs += 1
        self.disk.free()
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        listeners = [f"{name}://:{self._port + BROKERS * number}" for number, name in enumerate(LISTENERS)]
        server = Path(__file__).with_name("soak_server.py")
        command = [sys.executable, str(server), str(self.folder), "serve", f"--brokers={BROKERS}"]
        command += [f"--port={self._port}"]
        command += [f"--data-dir={self.data}", f"--http={self._http}", f"--ready-file={ready}"]
        command += [f"--users-file={self.folder / 'users'}", "--sasl=PLAIN,SCRAM-SHA-256"]
        command += [f"--listener={listener}" for listener in listeners]
        settings = {
            "ssl.keystore.location": self.folder / "key.pem",
            "group.initial.rebalance.delay.ms": 500,
            "log.retention.bytes": RETAINED,
            "log.roll.ms": ROLLED,  # segments of Kafka 4 have at least 1 MiB
            "log.retention.check.interval.ms": 1_000,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1_000,
        }
        command += [f"--set={name}={value}" for name, value in settings.items()]
        command += [f"--topic={name}:{count}" for name, count in TOPICS.items()] if self.runs == 1 else []
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        until = time.monotonic() + READY
        while not ready.exists():
            if not self.alive or time.monotonic() > until:
                raise RuntimeError(f"the broker does not start: see {self.folder / 'broker.log'}")
            time.sleep(0.05)
        self.started = time.monotonic()

    def kill(self) -> None:
        """Kill the process as kill -9 does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """End the process in order; return its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(READY)

    def fill_disk(self) -> None:
        """Let writes fail: no space is left, or, on a file system of others, files may not become longer.

        Until the process ends: ``start`` frees the space.
        """
        if self.disk.sized:
            self.disk.fill()
            return
        longest = max((path.stat().st_size for path in self.data.rglob("*") if path.is_file()), default=0)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (max(longest // 4, 4_096), resource.RLIM_INFINITY))

    def values(self) -> dict[str, float]:
        """Return memory in KiB, descriptors (all, sockets, files of logs), tasks and threads of the process.

        Raises: OSError if it has ended.
        """
        status = Path(f"/proc/{self.pid}/status").read_text("ascii", "replace")
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        opened = open_files(self.pid)
        return {
            "memory": float(fields["VmRSS"].split()[0]),
            "descriptors": float(len(opened)),
            "sockets": float(sum(name.startswith("socket:") for name in opened)),
            "files of logs": float(sum(name.startswith(f"{self.data}{os.sep}") for name in opened)),
            "tasks": float(read_tasks(self.folder)),
            "threads": float(fields["Threads"]),
        }

    def objects(self) -> dict[str, int]:
        """Return the number of objects of the process by type, and of its memory blocks.

        Raises: RuntimeError if the process does not write them.
        """
        file = self.folder / OBJECTS
        file.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR1)
        until = time.monotonic() + READY
        while not file.exists():
            if not self.alive or time.monotonic() > until:
                raise RuntimeError("the broker does not count its objects")
            time.sleep(0.05)
        found = json.loads(file.read_text("utf-8"))
        return {**found["types"], BLOCKS: found["blocks"]}

    def control(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request to the control API. Raises: OSError."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self._http}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 - on loopback
            text = response.read()
        return json.loads(text) if text else None


def open_files(pid: int) -> list[str]:
    """Return a path, or a kind with a number, for each open descriptor of a process. Raises: OSError if it ended."""
    folder, names = f"/proc/{pid}/fd", []
    for number in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            names.append(os.readlink(f"{folder}/{number}"))
    return names


def free_ports(random: Random, count: int) -> int:
    """Return the first of some consecutive ports of loopback that no socket has."""
    while True:
        first = random.randrange(20_000, 32_000)
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
