"""What all connections of a broker may hold together: a total with a limit, and which connection holds the most."""

from __future__ import annotations

from mockbroker.base.settings import NO_LIMIT


class Budget:
    """Bytes by connection. ``what``: what the bytes are; ``setting``: Kafka name of the limit; ``limit``: in bytes.

    The connection that holds the most is the one to close: a client with little to send is never refused because of
    others.
    """

    def __init__(self, what: str, setting: str, limit: int) -> None:
        self.total = 0
        self._what = what
        self._setting = setting
        self._limit = limit
        self._held: dict[int, int] = {}

    def hold(self, connection: int, size: int) -> bool:
        """This connection holds ``size`` bytes from now on. True if all of them hold more than the limit."""
        before = self._held.get(connection, 0)
        if size != before:
            self.total += size - before
            if size:
                self._held[connection] = size
            else:
                del self._held[connection]
        return self.total > self._limit != NO_LIMIT

    @property
    def exceeded(self) -> bool:
        """True while the connections hold more than the limit."""
        return self.total > self._limit != NO_LIMIT

    def largest(self) -> int:
        """The connection that holds the most; one of them must hold something."""
        return max(self._held, key=self._held.__getitem__)

    def complaint(self, connection: int) -> str:
        """Why this connection is closed."""
        return (
            f"it has the most {self._what} ({self._held[connection]} bytes), "
            f"and those of all connections are {self.total} bytes, above {self._setting} ({self._limit})"
        )
