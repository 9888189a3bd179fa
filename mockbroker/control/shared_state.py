"""The document that all streams of the live page share. It is refreshed and encoded once for all of them.

A stream stores only the version number of the document that its client has. If a client reads so slowly that the
patches since its version are no longer stored, it gets the whole document again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Generator, Mapping
from itertools import islice
from typing import Any, Protocol

import trio

from mockbroker.control.followers import Followers
from mockbroker.control.slices import encode
from mockbroker.net.slices import complete

PAUSE = 0.1  # seconds between two refreshes
SHARE = 20  # a pause is also this many times as long as the refresh before it, which bounds the share of the CPU
PATCHES_KEPT = 100  # maximum number
BYTES_KEPT = 4 << 20  # maximum size of the patches in bytes
NESTED = 3  # levels of the document that are compared: collections, such as groups, and the members of a group
log = logging.getLogger("mockbroker")


class Source(Protocol):
    """A document that can be refreshed.

    Attributes:
        content: the document as of the last refresh.
    """

    content: dict[str, Any]

    def refresh(self) -> Generator[None, None, dict[str, Any]]:
        """Refresh the document, and return the merge patch from its previous content to the new content.

        The generator yields between parts of the work, so that other tasks can run.
        """
        ...


class SharedState:
    """A document, and the patches between its latest versions.

    Args:
        source: the document.

    Attributes:
        version: number of the current version; 0 before the first refresh.
        followers: the open streams, which need the patches.
    """

    def __init__(self, source: Source) -> None:
        self.version = 0
        self.followers = Followers()
        self._source = source
        self._lock = trio.Lock()
        self._patches: deque[bytes] = deque()
        self._size = 0
        self._encoded: tuple[int, bytes] | None = None
        self._is_incomplete = False

    async def current(self) -> dict[str, Any]:
        """Refresh the document and return it; other tasks can run meanwhile."""
        async with self._lock:
            await self._refresh()
            return self._source.content

    async def encoded(self, *, fresh: bool = True) -> tuple[int, bytes]:
        """Return the number of the current version, and the document as JSON.

        ``fresh``: True to refresh the document first; False to use the last version if there is one, for a client that
        will get patches.
        """
        async with self._lock:
            if fresh or not self.version:
                await self._refresh()
            if self._encoded is None or self._encoded[0] != self.version:
                self._encoded = self.version, await encode(self._source.content, NESTED)
            return self._encoded

    def patches_since(self, version: int) -> list[bytes] | None:
        """Return the patches after a version as JSON, oldest first; None if some of these patches are no longer
        stored.
        """
        missing = self.version - version
        return None if missing > len(self._patches) else list(islice(self._patches, len(self._patches) - missing, None))

    async def run(self) -> None:
        """Refresh the document repeatedly while at least one stream is open, and wake the streams after a change.

        The task runs until it is cancelled.
        """
        announced = 0
        while True:
            await self.followers.wait()
            began = trio.current_time()
            async with self._lock:
                try:
                    await self._refresh()
                except Exception:
                    log.exception("control API: the state of the live page cannot be refreshed")
            pause = max(PAUSE, SHARE * (trio.current_time() - began))
            if self.version != announced:
                announced = self.version
                await self.followers.wake_slowly()
            await trio.sleep(pause)

    async def _refresh(self) -> None:
        is_incomplete, self._is_incomplete = self._is_incomplete, True
        with trio.CancelScope(shield=True):  # else a client that disconnects would end the refresh of all
            patch = await complete(self._source.refresh())
            self._add(patch, await encode(patch, NESTED), is_incomplete=is_incomplete)
        self._is_incomplete = False

    def _add(self, patch: Mapping[str, Any], data: bytes, *, is_incomplete: bool) -> None:
        """Add a version of the document, with the patch from the version before it.

        If the patch is empty and no earlier patch was lost, add no version. The oldest patches are removed above
        PATCHES_KEPT patches or BYTES_KEPT bytes.

        Args:
            patch: the merge patch from the previous version.
            data: the patch as JSON.
            is_incomplete: whether an earlier patch was lost. All stored patches are then removed, so that all streams
                send the whole document.
        """
        if is_incomplete:
            self._patches.clear()
            self._size = 0
            self.version += 1
        elif patch:
            self.version += 1
            self._patches.append(data)
            self._size += len(data)
        while len(self._patches) > PATCHES_KEPT or self._size > BYTES_KEPT:
            self._size -= len(self._patches.popleft())
