"""Clients that share one process: each is a connection to that process, with the interface of ``subprocess.Popen``."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

START_LIMIT = 60.0  # seconds until a host has printed its port


class HostedClient:
    """A client in the process of a ``Host``, with the part of ``subprocess.Popen`` that tests use.

    ``stdin``, ``stdout``, ``stderr``: text streams; a command is sent only when ``stdin`` is flushed.
    """

    def __init__(self, port: int, role: str, options: Mapping[str, Any]) -> None:
        self.stdout, self.stderr = LineStream(), LineStream()
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._lines = self._socket.makefile("r", encoding="utf-8")
        self.stdin = self._socket.makefile("w", encoding="utf-8")
        self._code: int | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.stdin.write(json.dumps({"role": role, "options": options}) + "\n")
        self.stdin.flush()

    def poll(self) -> int | None:
        """Return the exit code; None while the client runs."""
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the client; return its exit code, -1 if its host has died."""
        self._reader.join(timeout)
        if self._code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired("hosted client", timeout)
        return self._code

    def kill(self) -> None:
        """Fail, because the process has other clients too. Raises: RuntimeError, always."""
        raise RuntimeError("a hosted client cannot be killed: start it with own_process=True")

    def stop(self, timeout: float) -> None:
        """Make the client end at once, without leaving its group, and wait for it."""
        with suppress(OSError):  # it has ended
            self._socket.shutdown(socket.SHUT_WR)
        self.wait(timeout)

    def disconnect(self) -> None:
        """Close the streams, even if the client is still running."""
        with suppress(OSError):  # it has ended
            self._socket.shutdown(socket.SHUT_RDWR)

    def _read(self) -> None:
        code = -1
        try:
            for line in self._lines:
                message = json.loads(line)
                match message.get("event"):
                    case "exit":
                        code = message["code"]
                    case "log":
                        self.stderr.add(message["line"] + "\n")
                    case _:
                        self.stdout.add(line)
        except OSError as error:
            self.stderr.add(f"{error}\n")
        finally:
            self._lines.close()
            self._socket.close()
            self._code = code
            self.stdout.add("")
            self.stderr.add("")


class LineStream:
    """A stream of lines that one thread adds and another thread reads; an empty line is its end."""

    def __init__(self) -> None:
        self._lines: SimpleQueue[str] = SimpleQueue()

    def add(self, line: str) -> None:
        self._lines.put(line)

    def readline(self) -> str:
        return self._lines.get()

    def __iter__(self) -> Iterator[str]:
        return iter(self.readline, "")

    def close(self) -> None:
        """Do nothing: the connection is closed when the client has ended."""


class Host:
    """A process for any number of clients, which prints the port that it listens on."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        too_late = threading.Timer(START_LIMIT, self._process.kill)
        too_late.start()
        try:
            line = self._process.stdout.readline()
            assert line, f"{command[0]} ended, or ran for {START_LIMIT} s, and did not print its port"
            self._port = int(line)
        except BaseException:
            self.end()
            raise
        finally:
            too_late.cancel()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def start(self, role: str, options: Mapping[str, Any]) -> HostedClient:
        """Start a client in this process, and return immediately."""
        return HostedClient(self._port, role, options)

    def end(self) -> None:
        """Kill the process with SIGKILL; all its clients end with it."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.kill()
        self._process.wait()
