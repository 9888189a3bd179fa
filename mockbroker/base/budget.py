"""A limit on the total number of bytes that a broker buffers for all its connections."""

from __future__ import annotations

from mockbroker.base.settings import NO_LIMIT


class Budget:
    """The number of buffered bytes of each connection, with a limit on their total.

    If the total exceeds the limit, the caller closes the connection that buffers the most bytes. A client that buffers
    little is therefore not disconnected because of other clients.

    Args:
        what: Noun phrase for messages that names the buffered bytes, such as "bytes of unread responses".
        setting: Name of the setting that contains the limit.
        limit: Maximum total in bytes; NO_LIMIT for none.

    Attributes:
        total: Number of buffered bytes of all connections.
        limit: Value of the argument.
    """

    def __init__(self, what: str, setting: str, limit: int) -> None:
        self.total = 0
        self._what = what
        self._setting = setting
        self.limit = limit
        self._held: dict[int, int] = {}

    def hold(self, connection: int, size: int) -> bool:
        """Set the number of bytes that a connection buffers, and return whether the total exceeds the limit.

        Args:
            connection: Number of the connection.
            size: Number of bytes; 0 removes the connection.
        """
        before = self._held.get(connection, 0)
        if size != before:
            self.total += size - before
            if size:
                self._held[connection] = size
            else:
                del self._held[connection]
        return self.total > self.limit != NO_LIMIT

    @property
    def exceeded(self) -> bool:
        """Whether the number of buffered bytes of all connections exceeds the limit."""
        return self.total > self.limit != NO_LIMIT

    def largest(self) -> int:
        """Return the number of the connection that buffers the most bytes. The total must not be 0."""
        return max(self._held, key=self._held.__getitem__)

    def closing_reason(self, connection: int) -> str:
        """Return the reason to log when a connection is closed because the limit was exceeded.

        ``connection``: number of the connection.
        """
        return (
            f"it holds the most {self._what}: {self._held[connection]} of {self.total} on all connections, "
            f"above {self._setting} ({self.limit})"
        )
