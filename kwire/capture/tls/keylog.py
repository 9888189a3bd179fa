"""Key logs: the secrets of TLS connections, as clients write them to the file that SSLKEYLOGFILE names.

Source: RFC 9850 (the SSLKEYLOGFILE format).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

MAX_SECRETS = 1_000_000  # lines that are kept
_LINE = re.compile(rb"([A-Z0-9_]{1,60}) ([0-9a-fA-F]{64}) ([0-9a-fA-F]{64,128})\s*")
_NONE: Mapping[str, bytes] = {}


class KeyLogError(ValueError):
    """The error for a file that is not a key log."""


class KeyLog:
    """The secrets of TLS connections, by the random value in the client's ClientHello."""

    def __init__(self) -> None:
        self._secrets: dict[bytes, dict[str, bytes]] = {}
        self._count = 0
        self._others = 0  # lines in another form, without comments

    def __len__(self) -> int:
        """Return the number of secrets."""
        return self._count

    def add(self, data: bytes) -> None:
        """Add the secrets in the lines of a key log. Comments and invalid lines are ignored."""
        for line in data.splitlines():
            match = _LINE.fullmatch(line)
            if match is None and line.strip() and not line.startswith(b"#"):
                self._others += 1
            if match is not None and self._count < MAX_SECRETS and len(match[3]) % 2 == 0:
                of_connection = self._secrets.setdefault(bytes.fromhex(match[2].decode()), {})
                self._count += match[1].decode() not in of_connection
                of_connection[match[1].decode()] = bytes.fromhex(match[3].decode())

    def copy(self) -> KeyLog:
        """Return a key log with the secrets that are known now."""
        copied = KeyLog()
        copied._secrets = {key: dict(of_connection) for key, of_connection in self._secrets.items()}
        copied._count = self._count
        return copied

    def lines(self) -> bytes:
        """Return the secrets as the lines of a key log."""
        return b"".join(
            f"{label} {client_random.hex()} {secret.hex()}\n".encode()
            for client_random, of_connection in self._secrets.items()
            for label, secret in of_connection.items()
        )

    def secrets_of(self, client_random: bytes) -> Mapping[str, bytes]:
        """Return the secrets of a connection by their labels; empty if the key log has none.

        ``client_random``: random value in the ClientHello.
        """
        return self._secrets.get(client_random, _NONE)


class KeyLogFile(KeyLog):
    """A key log in a file. The file may grow while a capture is read; an incomplete last line is read when it is
    complete. If the file is deleted later, the secrets that were read remain.

    Args:
        path: path of the file, which must exist.

    Raises: OSError if the file cannot be read; KeyLogError if it contains no secrets, although it has lines that are
    not comments.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self._path = Path(path)
        self._at = 0
        self._read()
        if self._others and not self._count:
            raise KeyLogError(f"{self._path} is not a key log: no line has the form LABEL CLIENT_RANDOM SECRET")

    def secrets_of(self, client_random: bytes) -> Mapping[str, bytes]:
        if client_random not in self._secrets:
            with suppress(OSError):
                self._read()
        return super().secrets_of(client_random)

    def _read(self) -> None:
        """Add the secrets in the complete lines that were appended to the file since the last read."""
        with self._path.open("rb") as file:
            file.seek(self._at)
            data = file.read()
        end = data.rfind(b"\n") + 1
        self.add(data[:end])
        self._at += end
