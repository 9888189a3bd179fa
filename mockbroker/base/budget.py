"""A limit on the bytes that all connections of a broker hold together."""

from __future__ import annotations

from mockbroker.base.settings import NO_LIMIT


class Budget:
    """The bytes that each connection holds, with a limit on their total.

    Above the limit, the connection that holds the most is closed. So a client that sends little is never disconnected
    because of other clients.

    Args:
        what: What the bytes are, for messages: such as "bytes of unread responses".
        setting: Name of the setting with the limit.
        limit: The limit in bytes; NO_LIMIT for none.

    Attributes:
        total: Bytes that all connections hold.
    """

    def __init__(self, what: str, setting: str, limit: int) -> None:
        self.total = 0
        self._what = what
        self._setting = setting
        self._limit = limit
        self._held: dict[int, int] = {}

    def hold(self, connection: int, size: int) -> bool:
        """Set the bytes that a connection holds, and return whether the total exceeds the limit."""
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
        """Whether the total exceeds the limit."""
        return self.total > self._limit != NO_LIMIT

    def largest(self) -> int:
        """Return the connection that holds the most bytes. At least one must hold some."""
        return max(self._held, key=self._held.__getitem__)

    def closing_reason(self, connection: int) -> str:
        """Return the reason to log when a connection is closed because of the limit."""
        return (
            f"it holds the most {self._what}: {self._held[connection]} of {self.total} on all connections, "
            f"above {self._setting} ({self._limit})"
        )
